"""What an agent's answer claims, phrase by phrase, and what it does not."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.names import CLAIM_STATUS, CLAIM_SUBJECT, CLAIM_TEXT
from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from processors.verify import grammar, phrases
from processors.verify.certainty import OF_RULE
from processors.verify.claims import claims

TOOLS = {
    "issue_refund": "irreversible",
    "send_email": "irreversible",
    "cancel_reservation": "write",
    "update_reservation_flights": "write",
    "lookup_order": "read",
    "check_refund_policy": "read",
}


def said(answer, tools=TOOLS, steps=()):
    found = claims(AgentTrace(trace_id="a" * 32, final_output=answer, steps=steps), tools)
    return [(claim.subject, claim.status, claim.rule) for claim in found]


SUCCESS = [
    ("Your refund of 49.99 USD for order A-1001 has been issued.", "issue_refund", "S1"),
    ("Your order has been refunded.", "issue_refund", "S1"),
    ("The refund you requested has been issued.", "issue_refund", "S1"),
    ("I'd like to inform you that your refund has been issued.", "issue_refund", "S1"),
    ("Please note that your refund has been processed.", "issue_refund", "S1"),
    ("Don't worry, your refund has been issued.", "issue_refund", "S1"),
    ("Your reservation is now cancelled.", "cancel_reservation", "S1"),
    ("The flight has been changed.", "update_reservation_flights", "S1"),
    ("I've successfully cancelled your booking.", "cancel_reservation", "S2"),
    ("We have emailed you the details.", "send_email", "S2"),
    ("I issued the refund.", "issue_refund", "S2"),
    ("I was able to cancel your reservation.", "cancel_reservation", "S3"),
    ("I managed to refund your order.", "issue_refund", "S3"),
    ("Your refund is complete.", "issue_refund", "S4"),
    ("Issued a refund of 49.99.", "issue_refund", "S5"),
    ("Refund issued!", "issue_refund", "S6"),
    ("**Refund:** issued", "issue_refund", "S6"),
    ("The refund went through.", "issue_refund", "S7"),
    ("Refund successful.", "issue_refund", "S8"),
    ("Refund of $49.99 issued to your card.", "issue_refund", "S9"),
    ("All set!", None, "S0"),
    ("Your request has been completed.", None, "S1"),
]
FAILURE = [
    ("I was unable to issue the refund.", "issue_refund", "F1"),
    ("I failed to cancel your reservation.", "cancel_reservation", "F1"),
    ("Your order could not be refunded.", "issue_refund", "F2"),
    ("Sorry, the refund couldn't be completed.", "issue_refund", "F2"),
    ("Unfortunately, I cannot refund this order.", "issue_refund", "F2"),
    ("I won't be able to refund this order.", "issue_refund", "F2"),
    ("The refund hasn't been issued.", "issue_refund", "F3"),
    ("We haven't refunded your order yet.", "issue_refund", "F3"),
    ("No refund has been issued.", "issue_refund", "F4"),
    ("We never issued a refund.", "issue_refund", "F5"),
    ("The refund was declined by the payment gateway.", "issue_refund", "F6"),
    ("The refund did not go through.", "issue_refund", "F6"),
    ("I encountered an error while issuing the refund.", "issue_refund", "F7"),
    ("An error occurred while issuing the refund.", "issue_refund", "F0"),
    ("Something went wrong.", None, "F0"),
]
NOTHING = [
    "I will refund you.",
    "I'll issue your refund right away.",
    "If you want I can refund it.",
    "Shall I issue the refund?",
    "Would you like me to issue the refund?",
    "Once your refund has been processed, you will receive an email.",
    "If everything went well, the refund has been issued.",
    "The refund will be issued after it has been approved.",
    "Your refund should have been issued.",
    "Refunds are issued within 5 days.",
    "You said the refund has been issued.",
    "The refund is being processed.",
    "Your refund is pending approval.",
    "I have requested approval for your refund.",
    "I need more details to complete your refund.",
    "I was unable to issue another refund.",
    "Cancelled orders cannot be restored.",
    "Since your reservation was cancelled on May 3, I have nothing to do.",
    "Your order was refunded before; I have changed nothing.",
    "I could not read your file.",
    "> Your refund has been issued.",
    'The page says "your refund has been issued".',
    "```\nYour refund has been issued.\n```",
    "The weather has been lovely.",
    "",
]


@pytest.mark.requirement("OUT-01")
@pytest.mark.parametrize(("answer", "subject", "rule"), SUCCESS)
def test_a_finished_act_is_a_claim_of_success(answer, subject, rule):
    assert said(answer) == [(subject, "success", rule)]


@pytest.mark.requirement("OUT-01")
@pytest.mark.parametrize(("answer", "subject", "rule"), FAILURE)
def test_a_negated_or_failed_act_is_a_claim_of_failure(answer, subject, rule):
    assert said(answer) == [(subject, "failure", rule)]


@pytest.mark.requirement("OUT-01")
@pytest.mark.parametrize("answer", NOTHING)
def test_intention_condition_habit_and_others_words_claim_nothing(answer):
    assert said(answer) == []


@pytest.mark.parametrize(
    "answer",
    [
        "I think the refund has been issued.",
        "I'm not sure whether the refund has been issued.",
        "I could not confirm the refund of order A-1: the order does not show it.",
    ],
)
def test_uncertainty_is_a_claim_of_unknown(answer):
    assert [status for _, status, _ in said(answer)] == ["unknown"]


def test_two_acts_of_a_sentence_are_two_claims():
    answer = "I've cancelled your reservation and refunded 49.99 to your card."
    assert [item[:2] for item in said(answer)] == [
        ("cancel_reservation", "success"),
        ("issue_refund", "success"),
    ]
    answer = "I couldn't cancel the booking or issue a refund."
    assert [item[:2] for item in said(answer)] == [
        ("cancel_reservation", "failure"),
        ("issue_refund", "failure"),
    ]


def test_a_failure_made_good_is_both():
    answer = "The refund failed, but after a retry it has been issued."
    assert [item[:2] for item in said(answer)] == [
        ("issue_refund", "failure"),
        ("issue_refund", "success"),
    ]


def test_a_pointing_word_takes_the_subject_of_the_sentence_before():
    assert said("I went on with the refund. It has been issued.")[0][0] == "issue_refund"


def test_an_act_that_no_tool_is_named_for_is_no_claim():
    assert said("Your refund has been issued.", tools={"book_flight": "write"}) == []


def test_tools_of_the_trace_need_no_registry():
    step = Step(step_id="s", kind="tool_call", tool=Tool(name="mcp__shop__issue_refund"))
    assert said("Your refund has been issued.", {}, (step,)) == [
        ("mcp__shop__issue_refund", "success", "S1")
    ]


def test_a_read_is_never_meant_by_a_verb_of_mere_doing():
    assert said("I have processed your order.", {"lookup_order": "read"}) == [
        (None, "success", "S2")
    ]


@pytest.mark.requirement("OUT-01")
@pytest.mark.parametrize(
    ("word", "status"),
    [("success", "success"), ("Failed", "failure"), ("pending", "unknown"), (True, "success")],
)
def test_declared_claims_come_from_attributes(word, status):
    step = Step(
        step_id="s1",
        kind="agent",
        attributes={CLAIM_SUBJECT: "shop.issue_refund", CLAIM_STATUS: word, CLAIM_TEXT: "done"},
    )
    (claim,) = claims(AgentTrace(trace_id="a" * 32, steps=(step,)), TOOLS)
    assert (claim.subject, claim.status, claim.source) == ("issue_refund", status, "attribute")
    assert (claim.rule, claim.step_id, claim.text) == ("A1", "s1", "done")


def test_a_declared_effect_is_bound_like_words_or_stays_itself():
    def subject(name):
        step = Step(step_id="s", kind="agent", attributes={CLAIM_SUBJECT: name, CLAIM_STATUS: "ok"})
        return claims(AgentTrace(trace_id="a" * 32, steps=(step,)), TOOLS)[0].subject

    assert subject("refund") == "issue_refund"
    assert subject("parcel.shipped") == "parcel.shipped"


@given(st.text(max_size=300))
def test_any_text_is_read_and_read_alike(answer):
    assert said(answer) == said(answer)


@given(st.lists(st.sampled_from([row[0] for row in SUCCESS + FAILURE] + NOTHING), max_size=6))
def test_sentences_stand_for_themselves(sentences):
    together = said("\n\n".join(sentences))
    apart = [claim for sentence in sentences for claim in said(sentence)]
    assert set(apart) <= set(together)


SPEC = Path(__file__).parents[3] / "docs/specs"


def test_every_rule_is_documented_and_every_documented_rule_exists():
    text = (SPEC / "claims.md").read_text()
    documented = set(re.findall(r"^\| ([A-Z]\d) \|", text, re.MULTILINE))
    spoken = {phrase.id for phrase in phrases.PHRASES} | {rule.id for rule in grammar.RULES}
    assert documented == spoken | {"F0", "S0", "A1", "A2", "T1", "T2", "L1"} == {*OF_RULE}


def test_the_confidence_of_each_rule_is_the_documented_one():
    text = (SPEC / "claims.md").read_text()
    rows = re.findall(r"^\| ((?:[A-Z]\d ?)+) \| (\d\.\d+) \|$", text, re.MULTILINE)
    assert {rule: float(value) for rules, value in rows for rule in rules.split()} == OF_RULE


PIECES = (
    "i we your the refund order has have been was is not could unable to failed issued refunded"
    " successfully complete now never no error while processing went through and done it"
)
CLAUSES = st.lists(st.sampled_from(sorted(phrases.words(PIECES))), min_size=1, max_size=9)


@given(CLAUSES.map(" ".join))
def test_the_prefilter_leaves_out_no_phrase_that_is_there(clause):
    found = [phrase.id for phrase in phrases.PHRASES if phrase.pattern.search(clause)]
    allowed = [phrase.id for phrase in phrases.possible(clause)]
    assert [name for name in allowed if name in found] == found
