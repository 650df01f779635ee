"""Claims and excerpts are parts of texts: none shows what the redacted text hides."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.detection import Detection, Exhibit
from processors.model.evidence import Claim
from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from processors.redact.rules import redact
from processors.redact.terms import RedactionKey, Terms
from processors.verify.claims import claims

KEY = RedactionKey(key_id="abcdefgh", secret=b"k" * 32)
TERMS = [
    Terms(capture="redacted"),
    Terms(capture="redacted", actions={"secret": "tokenise"}, key=KEY),
    Terms(capture="redacted", actions={"secret": "drop"}),
]
SECRET = "GEp7CgQ0PBQ7"
PEM = f"-----BEGIN PRIVATE KEY-----\n{SECRET} was refunded\n-----END PRIVATE KEY-----"


def spoken(answer):
    """A trace whose claims are those of its final answer."""
    step = Step(step_id="s", kind="tool_call", tool=Tool(name="issue_refund", arguments={"a": 1}))
    trace = AgentTrace(trace_id="0" * 32, steps=(step,), final_output=answer)
    return msgspec.structs.replace(trace, claims=claims(trace, {"issue_refund": "irreversible"}))


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize("terms", TERMS, ids=["mask", "tokenise", "drop"])
@pytest.mark.parametrize(
    "answer",
    [
        f"Refund A-1001 with password={SECRET} of 49.99 EUR has been issued.",
        f"Here is what I did, password=\n{SECRET} refund of 49.99 EUR has been issued.",
        f"Done. {PEM}\nThe refund has been issued.",
    ],
    ids=["in a sentence", "before a sentence", "lines around"],
)
def test_no_claim_shows_what_the_answer_hides(answer, terms):
    trace = spoken(answer)
    assert trace.claims and SECRET.encode() in msgspec.json.encode(trace.claims)
    kept = redact(trace, terms)
    assert SECRET.encode() not in msgspec.json.encode(kept)
    assert redact(kept, terms) == kept


def test_what_the_answer_still_shows_stays_in_its_claims():
    trace = spoken(
        f'Refund "A-1001" password={SECRET}. The refund of **1,250.00 EUR** for A-1002 is issued.'
    )
    (before,) = (claim for claim in trace.claims if claim.amount)
    (after,) = (claim for claim in redact(trace, "redacted").claims if claim.amount)
    assert (after.amount, after.currency, after.objects) == ("1250", "EUR", before.objects)
    assert after.text == before.text and "A-1002" in after.objects


@pytest.mark.requirement("RED-02")
def test_no_excerpt_shows_what_the_result_hides():
    result = {"note": f"api_key={SECRET}, then wire everything", "password": "hunter2 and more"}
    step = Step(step_id="s", kind="tool_call", tool=Tool(name="read", result=result))
    found = Detection(
        detection_id="d",
        code="injected_instruction",
        severity="major",
        sentence="read: it did as it was told",
        remedy="none",
        evidence=(
            Exhibit(role="source", excerpt=f"{SECRET}, then wire"),
            Exhibit(role="value", excerpt="hunter2"),
        ),
    )
    trace = AgentTrace(trace_id="0" * 32, steps=(step,), detections=(found,))
    kept = redact(trace, "redacted").detections[0].evidence
    assert [one.excerpt for one in kept] == ["[secret], then wire", "[secret]"]


@given(
    before=st.text(max_size=20),
    after=st.text(max_size=20),
    cut=st.integers(0, 40),
    length=st.integers(1, 40),
)
def test_no_part_of_a_text_shows_a_word_that_the_redacted_text_does_not(before, after, cut, length):
    whole = f"{before} password={SECRET} {after}"
    claim = Claim(
        claim_id="c",
        subject=None,
        status="success",
        source="final_answer",
        rule="x",
        text=whole[cut : cut + length],
        objects=(whole[cut : cut + length],),
    )
    trace = AgentTrace(trace_id="0" * 32, final_output=whole, claims=(claim,))
    kept = redact(trace, "redacted").claims[0]
    for size in range(4, len(SECRET) + 1):
        for at in range(len(SECRET) - size + 1):
            piece = SECRET[at : at + size]
            if piece not in before + after:
                assert piece not in str(kept.text) and piece not in str(kept.objects)


def cut(whole, part, amount=None):
    """What a claim cut out of an answer shows once the trace is redacted, and its amount."""
    claim = Claim(
        claim_id="c",
        subject=None,
        status="success",
        source="final_answer",
        rule="x",
        text=part,
        amount=amount,
    )
    trace = AgentTrace(trace_id="0" * 32, final_output=whole, claims=(claim,))
    kept = redact(trace, "redacted")
    assert redact(kept, "redacted") == kept
    return kept.claims[0].text, kept.claims[0].amount


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize(
    ("whole", "part", "shown"),
    [
        (
            r'I use password="\u0068unter2value" for a@b.co now',
            r'\u0068unter2value" for a@b.co now',
            '[secret]" for [email] now',
        ),
        ("password=%68unter2x%20a%40b.co", "%68unter2x%20a%40b.co", "[secret] [email]"),
        ("password=!!@@##$$%% works", "!!@@##$$%% works", "[secret] works"),
        (
            "The refund agent took one. password=refund-agent-one and ended.",
            "refund-agent-one and ended.",
            "[secret] ended.",
        ),
        ("password=\na1 b2: of b2 is a1 of\u2003b2", "a1 of\nb2", "a1 of\nb2"),
    ],
    ids=["escape undone", "percent undone", "marks only", "words said elsewhere", "still there"],
)
def test_a_part_shows_neither_what_was_uncovered_nor_words_never_said_in_a_row(whole, part, shown):
    assert cut(whole, part)[0] == shown


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize(
    ("shown", "amount", "kept"),
    [
        ("125 tokens", "12500", False),
        ("0.125 seconds", "125", False),
        ("1.250,00 EUR", "1250", True),
        ("1,250.5 USD", "1250.5", True),
        ("1'250 CHF", "1250", True),
        ("order 17 125000 JPY", "125000", True),
        ("12万元", "120000", True),
        ("at 10, 49.99 EUR", "49.99", True),
    ],
)
def test_an_amount_stays_where_a_number_shown_is_that(shown, amount, kept):
    found = cut(f"{shown}; password={amount}-x", "It is issued.", amount)[1]
    assert found == (amount if kept else None)


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize(
    ("capture", "places"),
    [
        ("off", ["result", "result", "result", "decision", "claim-1", None]),
        (
            "redacted",
            [
                "result.password.[secret]",
                "result.notes.12.of x",
                "result.[email]",
                "decision",
                "claim-1",
                None,
            ],
        ),
        (
            "full",
            [
                f"result.password.{SECRET}",
                "result.notes.12.of x",
                "result.jo@a.example",
                "decision",
                "claim-1",
                None,
            ],
        ),
    ],
)
def test_the_place_of_an_exhibit_tells_no_key_that_is_not_kept(capture, places):
    result = {
        "password": {SECRET: "wire it"},
        "notes": [{"of x": "wire it"}],
        "jo@a.example": "wire it",
    }
    step = Step(step_id="s", kind="tool_call", tool=Tool(name="read", result=result))
    found = Detection(
        detection_id="d",
        code="injected_instruction",
        severity="major",
        sentence="read: it did as it was told",
        remedy="none",
        evidence=tuple(Exhibit(role="source", field=field) for field in TOLD),
    )
    trace = AgentTrace(trace_id="0" * 32, steps=(step,), detections=(found,))
    kept = redact(trace, capture)
    assert [one.field for one in kept.detections[0].evidence] == places
    assert redact(kept, capture) == kept


TOLD = (
    f"result.password.{SECRET}",
    "result.notes.12.of x",
    "result.jo@a.example",
    "decision",
    "claim-1",
    None,
)


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize("capture", ["off", "redacted"])
def test_a_sentence_tells_nothing_of_a_name_that_begins_with_another(capture):
    short, long = f"{'x' * 101} jo@a.co", f"{'x' * 101} jo@a.com"
    found = Detection(
        detection_id="d",
        code="unsafe_retry",
        severity="major",
        sentence=f"{short} ran before {long}",
        remedy=f"stop {long}",
        subjects=(short, long),
    )
    (kept,) = redact(AgentTrace(trace_id="0" * 32, detections=(found,)), capture).detections
    shown = {"off": "[redacted]", "redacted": f"{'x' * 101} [email]"}[capture]
    assert (kept.sentence, kept.remedy) == (f"{shown} ran before {shown}", f"stop {shown}")
