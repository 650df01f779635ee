"""What judging leaves out changes nothing: every short way gives what the long way gives.

The long way is taken by a trace that bears evidence of an emitter, which proves nothing and is
weighed with everything else; by a sentence that is read with its digits; by the plain writing of
arguments as JSON.
"""

import json
import math

import pytest
from detect_rig import TOOLS, asked, call, model, trace
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from processors.model.evidence import Evidence
from processors.model.names import CLAIM_STATUS, CLAIM_SUBJECT
from processors.model.trace import AgentTrace
from processors.verify.claims import claims
from processors.verify.detect_burn import burns
from processors.verify.detect_calls import Run
from processors.verify.detect_loop import repeats
from processors.verify.detect_settings import Budget, RepeatLimits
from processors.verify.effects import effects
from processors.verify.naming import nameables
from processors.verify.outcome import judge
from processors.verify.pairing import argument_key
from processors.verify.spoken import NO_DIGITS, Tools, read_english
from processors.verify.subjects import words

NOW = 10**18
ANSWERS = [
    "Your refund of 12.50 EUR has been issued.",
    "The refund has been issued and the e-mail could not be sent.",
    "I was unable to send the email. The refund went through.",
    "Done.",
    "Let me know.",
    "",
]
NAMES = st.sampled_from([*TOOLS, "get_weather", "do_it", "x__send_email", "final_answer", ""])
ARGUMENTS = st.none() | st.dictionaries(
    st.sampled_from("ab"), st.sampled_from([1, 1.0, "A-1", "A-2"])
)
CALLS = st.builds(
    call,
    NAMES,
    ARGUMENTS,
    st.sampled_from([None, "ok", {"status": "refunded"}, {"error": "no"}]),
    status=st.sampled_from(["ok", "unset", "error", "requested_only", "denied"]),
    attributes=st.sampled_from([{}, {CLAIM_SUBJECT: "issue_refund", CLAIM_STATUS: "success"}]),
)
STEPS = st.lists(CALLS | st.just(model(answer="Hello there.")), max_size=10)


def emitted(run: AgentTrace) -> AgentTrace:
    """The run with evidence that counts for nothing, so that all is weighed."""
    nothing = Evidence(evidence_id="e", source="emitter", name="said", held=True)
    return replace(run, evidence=(nothing,))


@given(STEPS, st.sampled_from(ANSWERS), st.sampled_from([TOOLS, {}]), st.data())
def test_a_run_without_evidence_is_judged_as_when_all_is_weighed(steps, answer, tools, data):
    run = trace(*steps)
    for _ in range(len(run.steps) // 3):
        at = data.draw(st.integers(0, len(run.steps) - 1))
        above = data.draw(st.sampled_from(run.steps)).step_id
        moved = replace(run.steps[at], parent_step_id=above)
        run = replace(run, steps=(*run.steps[:at], moved, *run.steps[at + 1 :]))
    run = replace(run, final_output=answer)
    assert effects(run, tools, NOW) == effects(emitted(run), tools, NOW)
    short = judge(run, tools=tools, now_ns=NOW)
    long = judge(emitted(run), tools=tools, now_ns=NOW)
    assert replace(long, evidence=()) == short


WORDS = words(
    "the your refund order 12.50 EUR A-1001 #77 2 of 3 has been have was not could issued sent"
    " e-mail cancelled on 5 May within 10 days and but it that , . : ; I we if once to for 1,000"
    " processed successfully failed 100% v2 24h"
)
SENTENCES = st.lists(st.sampled_from(sorted(WORDS)), min_size=1, max_size=14).map(" ".join)


@given(SENTENCES, SENTENCES)
def test_what_a_sentence_says_of_tools_does_not_hang_on_its_digits(sentence, topic):
    tools = Tools(nameables(AgentTrace(trace_id="t"), {**TOOLS, "cancel_order_v2": "write"}))
    plain, about = read_english(sentence, topic, tools)
    masked, without = read_english(sentence.translate(NO_DIGITS), topic.translate(NO_DIGITS), tools)
    told = [(one.subject, one.status, one.rule, one.place, one.pointed) for one in plain]
    assert told == [(one.subject, one.status, one.rule, one.place, one.pointed) for one in masked]
    assert about.translate(NO_DIGITS) == without


@pytest.mark.parametrize("cents", ["12.50", "99.99", "10.00", "77.07"])
def test_an_amount_stays_with_its_clause_whatever_sentence_was_read_before(cents):
    answer = f"The refund of {cents} EUR has been issued and the email was sent to you."
    found = claims(AgentTrace(trace_id="t", final_output=answer), TOOLS)
    exact = cents.rstrip("0").rstrip(".")
    assert [(one.subject, one.amount) for one in found] == [
        ("issue_refund", exact),
        ("send_email", None),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def whole(value):
    """A JSON value whose whole floats are integers."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    exact = isinstance(value, float) and math.isfinite(value) and value.is_integer()
    return int(value) if exact else value


@given(JSON)
def test_the_key_of_arguments_is_their_sorted_json(value):
    expected = None if value is None else json.dumps(whole(value), sort_keys=True)
    assert argument_key(value) == expected


@given(STEPS, st.integers(0, 4), st.integers(0, 4))
def test_calls_over_a_limit_are_told_just_where_there_are_more(steps, models, calls):
    run = trace(asked("hi"), *steps)
    budget = Budget(model_calls_max=models, tool_calls_max=calls, tokens_max=0)
    counted = {
        "model calls": (models, [one for one in run.steps if one.kind == "model_call"]),
        "tool calls": (
            calls,
            [
                one
                for one in run.steps
                if one.kind == "tool_call" and one.status != "requested_only"
            ],
        ),
    }
    expected = [
        (those[limit].step_id, len(those))
        for limit, those in counted.values()
        if limit and len(those) > limit
    ]
    found = [(one.steps[0], one.measures["used"]) for one in burns(run, budget)]
    assert found == expected


@given(st.lists(st.sampled_from("ab"), max_size=9), st.integers(1, 4))
def test_reads_are_repeated_just_where_one_is_made_more_often_than_it_may(orders, most):
    run = Run(trace(*(call("lookup_order", {"o": order}, "x") for order in orders)), TOOLS)
    found = list(repeats(run, RepeatLimits(reads_max=most), ()))
    assert len(found) == sum(orders.count(order) > most for order in "ab")
