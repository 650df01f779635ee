"""Contradictions of amount, target, part and tools' results; and the laws of judging."""

import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tier import examples

from processors.model.evidence import Claim, ContradictionCode, Evidence
from processors.model.names import CLAIM_AMOUNT, CLAIM_OBJECT, CLAIM_STATUS, CLAIM_SUBJECT
from processors.model.step import Source, Step, Tool
from processors.model.trace import AgentTrace
from processors.verify.outcome import judge

TRACE = "c" * 32
TOOLS = {"issue_refund": "irreversible", "send_email": "irreversible", "lookup_order": "read"}
NOW = 10**12
ORDER = {"order_id": "A-1001", "amount": 49.99, "currency": "USD"}
OTHER = {"order_id": "A-1002", "amount": 30, "currency": "USD"}


def step(number=1, tool="issue_refund", arguments=ORDER, status="ok", result=None, attributes=None):
    return Step(
        step_id=f"s{number}",
        kind="tool_call",
        name=tool,
        tool=Tool(name=tool, arguments=arguments, result=result),
        start_ns=number * 1000,
        end_ns=number * 1000 + 500,
        status=status,
        attributes=attributes or {},
        sources=(Source(kind="span", trace_id=TRACE, span_id=f"{number:016x}"),),
    )


def receipt(held=True, number=1, tool="issue_refund", arguments=ORDER, **data):
    effect = {True: "confirmed", False: "not_executed", None: "unknown"}[held]
    class_ = TOOLS[tool]
    return Evidence(
        evidence_id=f"receipt:r{number}",
        source="receipt",
        name="gateway",
        held=held,
        subject=tool,
        step_id=f"s{number}",
        receipt_id=f"r{number}",
        observed_ns=number * 1000 + 400,
        data={
            "effect": effect,
            "class": class_,
            "phase": "executed",
            "status": 200 if held else 422,
            "action": f"h{number}",
            "arguments": arguments,
            **data,
        },
    )


def probe(held, number=1):
    return Evidence(
        evidence_id=f"probe:ledger:s{number}",
        source="probe",
        name="ledger",
        held=held,
        subject="issue_refund",
        step_id=f"s{number}",
        observed_ns=NOW,
    )


def judged(steps, evidence, answer=None, **fields):
    trace = AgentTrace(
        trace_id=TRACE, steps=tuple(steps), evidence=tuple(evidence), final_output=answer, **fields
    )
    return judge(trace, tools=TOOLS, now_ns=NOW)


def codes(steps, evidence, answer=None):
    return [one.code for one in judged(steps, evidence, answer).outcome.contradictions]


ANSWERS = [
    ("Your refund of 49.99 USD for order A-1001 has been issued.", []),
    ("I refunded $49.99.", []),
    ("I refunded 49,99 USD.", []),
    ("Your refund of 499.90 USD has been issued.", ["wrong_amount"]),
    ("Ihre Rückerstattung über 499,90 USD wurde veranlasst.", ["wrong_amount"]),
    ("Su reembolso de 499,90 USD ha sido emitido.", ["wrong_amount"]),
    ("已退款499.90美元。", ["wrong_amount"]),
    ("I refunded 49.99 EUR.", ["wrong_amount"]),
    ("Your refund for order A-1002 has been issued.", ["wrong_target"]),
    ("Your refund rf_77 has been issued.", []),
    ("Your refund has been issued for invoice INV-3.", []),
    ("I think I refunded 499.90 USD.", []),
    ("I could not find order A-1002, so I refunded order A-1001.", []),
]


@pytest.mark.requirement("OUT-03")
@pytest.mark.parametrize(("answer", "found"), ANSWERS)
def test_a_claimed_amount_and_target_are_held_against_what_happened(answer, found):
    assert codes([step()], [receipt()], answer) == found


@pytest.mark.requirement("OUT-03")
@pytest.mark.parametrize(
    ("arguments", "answer", "found"),
    [
        ({"order_id": "A-1001", "amount_cents": 4999}, "I refunded $49.99.", []),
        ({"order_id": "A-1001", "amount": 4999}, "I refunded $49.99.", []),
        ({"order_id": "A-1001", "amount": "49.990"}, "I refunded $49.99.", []),
        ({"order_id": "A-1001", "amount": "50"}, "I refunded $49.99.", ["wrong_amount"]),
        ({"order_id": "A-1001", "lines": [{"price": 20}, {"price": 30}]}, "I refunded $50.", []),
        ({"order_id": "A-1001"}, "I refunded $49.99.", []),
        ({"order_id": 1001}, "I refunded order #1001.", []),
        ({"order_id": 1001}, "I refunded order #1002.", ["wrong_target"]),
        ({"reservation_id": "4WQ150"}, "I refunded reservation 4OG6T3.", ["wrong_target"]),
        ({"reservation_id": "4WQ150"}, "I refunded flight HAT136.", []),
    ],
)
def test_arguments_of_many_shapes_are_compared(arguments, answer, found):
    case = [step(arguments=arguments)], [receipt(arguments=arguments)]
    assert codes(*case, answer) == found


def test_a_total_of_several_effects_is_no_other_amount():
    steps = [step(1), step(2, arguments=OTHER)]
    evidence = [receipt(), receipt(number=2, arguments=OTHER)]
    assert codes(steps, evidence, "I refunded 79.99 USD.") == []
    assert codes(steps, evidence, "I refunded 80 USD.") == ["wrong_amount"]
    assert codes(steps, evidence, "I refunded 30 USD for order A-1001.") == ["wrong_amount"]


def test_nothing_is_compared_while_an_effect_is_unknown():
    assert codes([step()], [receipt(None)], "I refunded 500 USD for order A-1009.") == []


@pytest.mark.requirement("OUT-03")
def test_an_email_to_another_address_is_another_target():
    sent = {"to": "ann@example.com"}
    case = [step(tool="send_email", arguments=sent)], [receipt(tool="send_email", arguments=sent)]
    assert codes(*case, "I emailed bob@example.com.") == ["wrong_target"]
    assert codes(*case, "I have sent the email to bob@example.com.") == ["wrong_target"]
    assert codes(*case, "I have sent the email to ann@example.com.") == []


@pytest.mark.requirement("OUT-03")
def test_a_part_is_contradicted_only_when_less_of_it_happened():
    third = {"order_id": "A-1003", "amount": 5}
    steps = [step(1), step(2, arguments=OTHER), step(3, arguments=third)]

    def some(*held):
        return [
            receipt(one, number, arguments=arguments)
            for number, (one, arguments) in enumerate(
                zip(held, (ORDER, OTHER, third), strict=True), 1
            )
        ]

    told = "I refunded 2 of 3 orders."
    steps = [replace(one, status="unset") for one in steps]
    assert codes(steps, some(True, True, False), told) == []
    assert codes(steps, some(True, False, False), told) == ["claimed_success_state_failed"]
    assert codes(steps, some(True, None, False), told) == []


def test_both_sides_are_named():
    (item,) = judged([step()], [receipt()], "I refunded 500 USD.").outcome.contradictions
    assert (item.said, item.evidence, item.step_id) == (("claim-1",), ("receipt:r1",), "s1")
    assert item.detail == (
        "issue_refund: the agent named another amount than the one it was done with"
    )
    (item,) = judged([step()], []).outcome.contradictions
    assert (item.code, item.said, item.evidence) == ("span_without_receipt", ("s1",), ())


@pytest.mark.requirement("OUT-03")
def test_a_result_that_says_done_stands_against_state():
    done = step(result={"status": "refunded", "refund_id": "rf_1"})
    (item,) = judged([done], [receipt(), probe(False)]).outcome.contradictions
    assert item.code == "claimed_success_state_failed" and item.said == ("claim-1",)
    honest = "I was unable to issue the refund."
    assert codes([done], [receipt(), probe(False)], honest) == []
    careful = "I could not confirm the refund of order A-1001: the order does not show it."
    doubted = judged([done], [receipt(), probe(False)], careful).outcome
    assert (doubted.status, doubted.contradictions) == ("verified_failure", ())
    both = judged([done], [receipt(), probe(False)], "Your refund has been issued.")
    assert {len(one.said) for one in both.outcome.contradictions} == {1}
    assert [one.code for one in both.outcome.contradictions] == ["claimed_success_state_failed"] * 2


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ({"status": "refunded", "refund_id": "rf_1"}, "success"),
        ({"ok": True}, "success"),
        ('{"success": true, "amount": "49.99", "currency": "usd"}', "success"),
        ([{"type": "text", "text": "x"}], None),
        ({"content": [{"type": "text", "text": '{"status": "ok"}'}]}, "success"),
        ({"content": [{"type": "text", "text": "boom"}], "isError": True}, "failure"),
        ({"structuredContent": {"state": "declined"}, "content": []}, "failure"),
        ({"error": {"code": 7}}, "failure"),
        ({"status": "pending"}, "unknown"),
        ({"status": "shipped"}, "unknown"),
        ({"rows": 3}, None),
        ("done", None),
        ("{broken", None),
    ],
)
def test_a_tools_result_claims_by_a_word_of_state_only(result, status):
    found = judged([step(result=result)], []).claims
    assert [one.status for one in found] == ([] if status is None else [status])
    assert all((one.source, one.subject) == ("tool_result", "issue_refund") for one in found)


def test_a_read_claims_nothing_by_its_result():
    look = step(tool="lookup_order", result={"status": "ok"})
    assert judged([look], []).claims == ()


@pytest.mark.requirement("OUT-02")
def test_a_result_that_says_failed_lowers_what_only_receipts_prove():
    failed = step(result={"status": "error", "code": "DECLINED"})
    assert judged([failed], [receipt()]).outcome.status == "unverified"
    assert judged([failed], [receipt(), probe(True)]).outcome.status == "verified_success"
    again = step(2, result={"status": "ok"})
    assert judged([failed, again], [receipt(False), receipt(number=2)]).outcome.status == (
        "verified_success"
    )


def declared(number, status, **more):
    said = {CLAIM_SUBJECT: "issue_refund", CLAIM_STATUS: status, **more}
    return Step(step_id=f"d{number}", kind="other", attributes=said)


@pytest.mark.requirement("OUT-03")
def test_a_declared_claim_is_judged_like_a_spoken_one():
    assert codes([step(), declared(1, "success", **{CLAIM_AMOUNT: "50"})], [receipt()]) == [
        "wrong_amount"
    ]
    assert codes([step(), declared(1, "success", **{CLAIM_OBJECT: "A-1002"})], [receipt()]) == [
        "wrong_target"
    ]
    assert codes([step(), declared(1, "failed")], [receipt()]) == [
        "claimed_failure_effect_happened"
    ]


@pytest.mark.requirement("OUT-02")
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        # What recorded airline agents say: some were done, of others it is said that they were not.
        ("The refund for A-1001 has been issued. I cannot refund order A-1002.", []),
        ("I have issued the refund. Unfortunately the following could not be refunded:", []),
        # The last word counts where both are of one target.
        ("The refund for A-1001 could not be issued. It has been issued now.", []),
        ("I could not refund A-1001 at first. I have now refunded A-1001.", []),
        (
            "The refund has been issued. Unfortunately, the refund for A-1001 was declined.",
            ["claimed_failure_effect_happened"],
        ),
        (
            "I have refunded A-1001. The refund for A-1001 could not be issued.",
            ["claimed_failure_effect_happened"],
        ),
        (
            "The refund for A-1001 was declined. I have refunded A-1002.",
            ["wrong_target", "claimed_failure_effect_happened"],
        ),
    ],
)
def test_success_in_one_answer_excuses_a_failure_only_of_another_target(answer, found):
    assert codes([step()], [receipt()], answer) == found


def test_the_codes_are_the_documented_ones():
    text = (Path(__file__).parents[3] / "docs/specs/outcome.md").read_text()
    table = text[text.index("## Contradictions") : text.index("## Decision table")]
    documented = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(documented) == sorted(get_args(ContradictionCode))


# The laws. A run is verified, merely unverified, open, or bad; the agent's words only go down.
RANK = {
    "verified_success": 3,
    "unverified": 2,
    "indeterminate": 1,
    "verified_failure": 0,
    "contradicted": 0,
}
SENTENCES = (
    "Your refund has been issued.",
    "I was unable to issue the refund.",
    "I refunded 500 USD.",
    "The refund for order A-1002 has been issued.",
    "All set!",
    "Something went wrong.",
    "I could not confirm the refund.",
    "I refunded 1 of 2 orders.",
    "The first attempt failed, but the refund has been issued.",
    "已退款。",
)
RESULTS = (None, {"status": "refunded"}, {"status": "error"}, {"ok": True}, {"error": "x"})
STATUSES = ("ok", "unset", "error")


@st.composite
def runs(draw):
    """A run of one to three refunds, with whatever evidence there is, and what is not said yet."""
    steps, evidence = [], []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        arguments = draw(st.sampled_from([ORDER, OTHER, {**ORDER, "amount": 20}]))
        steps.append(step(number, arguments=arguments, status=draw(st.sampled_from(STATUSES))))
        if draw(st.booleans()):
            held = draw(st.sampled_from([True, False, None]))
            evidence.append(receipt(held, number, arguments=arguments))
        if draw(st.booleans()):
            evidence.append(probe(draw(st.sampled_from([True, False, None])), number))
    return steps, evidence


def words():
    """Facts of the agent's side, each as what it does to (steps, evidence, claims)."""
    return st.one_of(
        st.tuples(st.just("declared"), st.sampled_from(["success", "failed", "maybe"])),
        st.tuples(st.just("amount"), st.sampled_from(["50", "49.99", "20"])),
        st.tuples(st.just("result"), st.sampled_from(RESULTS)),
        st.tuples(st.just("emitter"), st.sampled_from([True, False, None])),
        st.tuples(st.just("llm"), st.sampled_from(["success", "failure", "unknown"])),
    )


def told(run, facts):
    steps, evidence = list(run[0]), list(run[1])
    heard = []
    for number, (kind, value) in enumerate(facts):
        if kind == "declared":
            steps.append(declared(number, value))
        elif kind == "amount":
            steps.append(declared(number, "success", **{CLAIM_AMOUNT: value}))
        elif kind == "result":
            first = steps[0]  # a span that says ok and its result are one statement
            if first.tool.result is None and first.status != "ok":
                steps[0] = replace(first, tool=replace(first.tool, result=value))
        elif kind == "emitter":
            evidence.append(
                Evidence(evidence_id=f"e{number}", source="emitter", name="check", held=value)
            )
        else:
            heard.append(
                Claim(
                    claim_id="", subject="issue_refund", status=value, source="llm", rule="L1",
                    text=f"sentence {number}", confidence=0.6,
                )
            )  # fmt: skip
    return steps, evidence, tuple(heard)


@pytest.mark.requirement("OUT-02")
@given(runs(), st.lists(words(), max_size=4), words(), st.sampled_from((None, *SENTENCES)))
@settings(max_examples=examples(150))
def test_what_the_agents_side_says_never_raises_an_outcome(run, before, more, answer):
    # What a model hears in an answer is one statement, which is weighed as a whole: against its not
    # having been made, not against a part of it (docs/specs/outcome.md, the column "not when").
    part = [fact for fact in before if not (fact[0] == more[0] == "llm")]
    steps, evidence, heard = told(run, part)
    less = judged(steps, evidence, answer, claims=heard).outcome
    steps, evidence, heard = told(run, [*before, more])
    outcome = judged(steps, evidence, answer, claims=heard).outcome
    assert RANK[outcome.status] <= RANK[less.status]


@pytest.mark.requirement("OUT-02")
@given(runs(), st.lists(words(), max_size=3), st.lists(st.sampled_from(SENTENCES), min_size=1))
@settings(max_examples=examples(150))
def test_an_answer_never_raises_an_outcome(run, facts, sentences):
    steps, evidence, heard = told(run, facts)
    silent = judged(steps, evidence, claims=heard).outcome
    spoken = judged(steps, evidence, " ".join(sentences), claims=heard).outcome
    assert RANK[spoken.status] <= RANK[silent.status]


@pytest.mark.requirement("OUT-01")
@given(runs(), st.sampled_from((None, *SENTENCES)), st.randoms(use_true_random=False))
@settings(max_examples=examples(100))
def test_the_order_of_evidence_changes_nothing(run, answer, dice):
    steps, evidence = run
    shuffled = list(evidence)
    dice.shuffle(shuffled)
    assert judged(steps, evidence, answer).outcome == judged(steps, shuffled, answer).outcome


@pytest.mark.requirement("OUT-01")
@given(st.lists(st.sampled_from([True, False, None]), min_size=2, max_size=2), st.booleans())
def test_with_the_evidence_of_two_runs_swapped_their_verdicts_swap(held, by_state):
    steps, answer = [step(status="unset")], "Your refund has been issued."

    def verdict(one):
        evidence = [receipt(True), probe(one)] if by_state else [receipt(one)]
        return judged(steps, evidence, answer).outcome

    one, other = map(verdict, held)
    expected = {True: "verified_success", False: "contradicted", None: "indeterminate"}
    assert (one.status, other.status) == (expected[held[0]], expected[held[1]])
    assert tuple(map(verdict, reversed(held))) == (other, one)
