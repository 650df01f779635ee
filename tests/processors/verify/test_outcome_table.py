"""The decision table of docs/specs/outcome.md, and every contradiction with its innocent twin."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from processors.model.call import Receipt, ReceiptFact
from processors.model.evidence import Evidence
from processors.model.step import Message, Part, Source, Step, StepError, Tool
from processors.model.trace import AgentTrace
from processors.redact.rules import redact
from processors.verify.outcome import judge
from processors.verify.receipts import attach

TRACE = "a" * 32
TOOLS = {"issue_refund": "irreversible", "send_email": "write", "lookup_order": "read"}
ARGUMENTS = {"order_id": "A-1001", "amount": 49.99}
NOW = 10**12
DONE = "Your refund has been issued."
NOT_DONE = "I was unable to issue the refund."


def receipt(number, tool="issue_refund", effect="confirmed", **fields):
    status = {"confirmed": 200, "not_executed": 422, "unknown": 409}[effect]
    base = {
        "receipt_id": f"r{number}",
        "call_id": f"c{number}",
        "phase": "executed",
        "project": "default",
        "principal": "p",
        "principal_kind": "agent",
        "tool": tool,
        "class_": TOOLS[tool],
        "action_hash": f"sha256:{number}",
        "decision_id": "d1",
        "decision_effect": "allow",
        "reasons": (),
        "policy_revision": "1",
        "effect": effect,
        "status": status,
        "started_at_ns": 1000 * number + 100,
        "finished_at_ns": 1000 * number + 200,
        "trace_id": TRACE,
    }
    return Receipt(**{**base, **fields})


def fact(number, tool="issue_refund", effect="confirmed", arguments=ARGUMENTS, **fields):
    return ReceiptFact(receipt=receipt(number, tool, effect, **fields), arguments=arguments)


def step(number, tool="issue_refund", status="ok", arguments=ARGUMENTS, source="span", **fields):
    return Step(
        step_id=f"{TRACE}:{number:016x}",
        kind="tool_call",
        name=tool,
        tool=Tool(name=tool, arguments=arguments, result=fields.pop("result", None)),
        start_ns=1000 * number,
        end_ns=1000 * number + 500,
        status=status,
        sources=(Source(kind=source, trace_id=TRACE, span_id=f"{number:016x}"),),
        **fields,
    )


def probe(held, number=1, name="refund_in_ledger", source="probe", **fields):
    return Evidence(
        evidence_id=f"{source}:{name}:{number}",
        source=source,
        name=name,
        held=held,
        subject="issue_refund",
        step_id=f"{TRACE}:{number:016x}",
        observed_ns=fields.pop("at", NOW),
        **fields,
    )


def judged(steps=(), facts=(), answer=None, evidence=(), tools=TOOLS, **fields):
    trace = AgentTrace(trace_id=TRACE, steps=tuple(steps), final_output=answer, **fields)
    trace = attach(trace, facts, NOW)
    trace = replace(trace, evidence=(*trace.evidence, *evidence))
    return judge(trace, tools=tools, now_ns=NOW)


def status(*args, **kwargs):
    return judged(*args, **kwargs).outcome.status


def codes(*args, **kwargs):
    return [item.code for item in judged(*args, **kwargs).outcome.contradictions]


OTHER = {"order_id": "A-1002", "amount": 10}
SMALLER = {"order_id": "A-1001", "amount": 30}
TABLE = [
    ("1", "contradicted", {"steps": [step(1)], "facts": [fact(1)], "answer": NOT_DONE}),
    (
        "1",
        "contradicted",
        {"steps": [step(1)], "facts": [fact(1)], "answer": DONE, "evidence": [probe(False)]},
    ),
    (
        "2",
        "indeterminate",
        {"steps": [step(1)], "facts": [fact(1, effect="unknown")], "answer": DONE},
    ),
    (
        "2",
        "indeterminate",
        {"steps": [step(1)], "facts": [fact(1)], "answer": DONE, "evidence": [probe(None)]},
    ),
    (
        "2",
        "indeterminate",
        {"steps": [step(1)], "facts": [fact(1, phase="authorised")], "answer": DONE},
    ),
    (
        "2",
        "indeterminate",
        {
            "steps": [step(1, status="error"), step(2, "send_email", "error")],
            "facts": [fact(1, effect="unknown"), fact(2, "send_email", "not_executed")],
        },
    ),
    (
        "3",
        "verified_failure",
        {"steps": [step(1)], "facts": [fact(1, effect="not_executed")], "answer": NOT_DONE},
    ),
    (
        "3",
        "verified_failure",
        {"steps": [step(1, status="error")], "facts": [fact(1, effect="not_executed")]},
    ),
    ("3", "verified_failure", {"steps": [step(1)], "facts": [fact(1)], "evidence": [probe(False)]}),
    (
        "3",
        "verified_failure",
        {
            "steps": [step(1, status="error"), step(2, arguments=OTHER)],
            "facts": [fact(1, effect="not_executed"), fact(2, arguments=OTHER)],
        },
    ),
    ("4", "unverified", {}),
    ("4", "unverified", {"steps": [step(1, "lookup_order")], "facts": [fact(1, "lookup_order")]}),
    ("4", "unverified", {"steps": [step(1, status="requested_only", source="messages")]}),
    ("5", "unverified", {"steps": [step(1)], "answer": DONE, "tools": {}}),
    ("5", "unverified", {"answer": DONE}),
    (
        "5",
        "unverified",
        {
            "steps": [step(1), step(2, "file_report")],
            "facts": [fact(1)],
            "answer": DONE,
        },
    ),
    (
        "6",
        "unverified",
        {
            "steps": [step(1)],
            "facts": [fact(1)],
            "answer": DONE,
            "evidence": [probe(False, name="self_check", source="emitter")],
        },
    ),
    (
        "6",
        "unverified",
        {
            "steps": [Step(step_id="root", kind="agent", status="error"), step(1)],
            "facts": [fact(1)],
        },
    ),
    ("7", "verified_success", {"steps": [step(1)], "facts": [fact(1)], "answer": DONE}),
    ("7", "verified_success", {"steps": [step(1)], "facts": [fact(1)]}),
    (
        "7",
        "verified_success",
        {"steps": [step(1)], "answer": DONE, "evidence": [probe(True)], "tools": {}},
    ),
    (
        "7",
        "verified_success",
        {
            "steps": [step(1)],
            "answer": DONE,
            "tools": {},
            "evidence": [probe(True, source="twin", at=5)],
        },
    ),
    (
        "7",
        "verified_success",
        {
            "steps": [step(1, status="error"), step(2)],
            "facts": [fact(1, effect="not_executed"), fact(2)],
            "answer": DONE,
        },
    ),
    (
        "7",
        "verified_success",
        {
            "steps": [step(1, status="error"), step(2, arguments=SMALLER)],
            "facts": [fact(1, effect="not_executed"), fact(2, arguments=SMALLER)],
            "answer": DONE,
        },
    ),
]


@pytest.mark.requirement("OUT-01")
@pytest.mark.requirement("OUT-02")
@pytest.mark.parametrize(("row", "outcome", "case"), TABLE)
def test_the_decision_table(row, outcome, case):
    assert status(**case) == outcome


def test_the_table_is_the_documented_one():
    text = (Path(__file__).parents[3] / "docs/specs/outcome.md").read_text()
    rows = re.findall(r"^\| (\d) \| .* \| `(\w+)` \|$", text, re.MULTILINE)
    assert dict(rows) == {row: outcome for row, outcome, _ in TABLE}


@pytest.mark.requirement("OUT-03")
@pytest.mark.parametrize("effect", ["not_executed"])
def test_success_claimed_against_state_that_failed(effect):
    found = judged([step(1, status="error")], [fact(1, effect=effect)], DONE)
    (item,) = found.outcome.contradictions
    assert item.code == "claimed_success_state_failed"
    assert item.evidence == ("receipt:r1",) and item.step_id == step(1).step_id
    assert found.claims[0].subject == "issue_refund"


def test_success_is_not_contradicted_by_the_unknown():
    assert codes([step(1)], [fact(1, effect="unknown")], DONE) == []


def test_a_sentence_that_names_the_failed_target_is_contradicted():
    steps = [step(1), step(2, status="error", arguments=OTHER)]
    facts = [fact(1), fact(2, effect="not_executed", arguments=OTHER)]
    both = "The refunds for A-1001 and A-1002 have been issued."
    one = "The refund for A-1001 has been issued, but the refund for A-1002 failed."
    assert codes(steps, facts, both) == ["claimed_success_state_failed"]
    assert status(steps, facts, one) == "verified_failure"


@pytest.mark.requirement("OUT-03")
def test_failure_claimed_against_an_effect_that_happened():
    assert codes([step(1)], [fact(1)], NOT_DONE) == ["claimed_failure_effect_happened"]


def test_failure_of_one_target_accuses_nobody_who_served_another():
    steps = [step(1), step(2, arguments=OTHER)]
    facts = [fact(1), fact(2, arguments=OTHER)]
    assert codes(steps, facts, "I could not refund order A-1003.") == []


def test_the_run_said_to_have_failed_while_all_of_it_happened():
    assert codes([step(1)], [fact(1)], "Something went wrong.") == [
        "claimed_failure_effect_happened"
    ]


@pytest.mark.requirement("OUT-03")
def test_two_confirmed_effects_with_equal_arguments_are_a_duplicate():
    steps = [step(1, status="error"), step(2)]
    found = judged(
        steps, [fact(1), fact(2, arguments={"amount": 49.99, "order_id": "A-1001"})], DONE
    )
    (item,) = found.outcome.contradictions
    assert item.code == "duplicate_effect" and item.evidence == ("receipt:r1", "receipt:r2")


def test_a_replay_another_target_and_a_plain_write_are_no_duplicates():
    steps = [step(1), step(2)]
    replayed = fact(2, phase="replayed", action_hash="sha256:1")
    assert codes(steps, [fact(1), replayed], DONE) == []
    other = [step(1), step(2, arguments=OTHER)]
    assert codes(other, [fact(1), fact(2, arguments=OTHER)], DONE) == []
    mails = [step(1, "send_email"), step(2, "send_email")]
    assert codes(mails, [fact(1, "send_email"), fact(2, "send_email")]) == []


def test_spans_alone_only_warn_of_a_duplicate():
    found = judged([step(1, status="error"), step(2)], tools={})
    assert [(item.code, item.detail) for item in found.warnings] == [
        ("possible_duplicate_effect", "issue_refund")
    ]
    assert found.outcome.contradictions == ()
    assert judge(found, tools={}, now_ns=NOW).warnings == found.warnings


@pytest.mark.parametrize("source", ["probe", "twin"])
def test_a_probe_or_twin_may_find_the_duplicate(source):
    check = probe(False, name="no_duplicate_effect", source=source)
    assert codes([step(1)], [fact(1)], DONE, [check]) == ["duplicate_effect"]
    good = replace(check, held=True)
    assert status([step(1)], [fact(1)], DONE, [good]) == "verified_success"
    assert status([step(1)], (), DONE, [good], tools={}) == "unverified"


@pytest.mark.requirement("OUT-03")
def test_a_governed_tool_that_ran_without_a_receipt_bypassed_the_gateway():
    assert codes([step(1, status="unset")], (), DONE) == ["span_without_receipt"]
    assert codes([step(1, "send_email", source="messages")]) == ["span_without_receipt"]


def test_no_receipt_accuses_neither_ungoverned_nor_failed_nor_wrapped_nor_unexecuted_calls():
    assert codes([step(1)], tools={}) == []
    assert codes([step(1, "lookup_order")]) == []
    assert codes([step(1, status="error")]) == []
    assert codes([step(1, status="requested_only")]) == []
    outer = step(1, "shop.issue_refund")
    inner = replace(step(2), parent_step_id=outer.step_id, start_ns=1000, end_ns=1400)
    call = fact(1, span_id=f"{2:016x}")
    assert codes([outer, inner], [call], DONE) == []


@pytest.mark.requirement("OUT-03")
def test_an_effect_that_no_span_tells_of_is_an_unreported_action():
    found = judged([step(1, "lookup_order")], [fact(1, "lookup_order"), fact(5)])
    (item,) = found.outcome.contradictions
    assert item.code == "receipt_without_span" and item.step_id == "receipt:r5"


def test_a_missing_span_accuses_no_trace_that_may_have_lost_it():
    look = step(1, "lookup_order")
    assert codes([], [fact(5)]) == []
    assert codes([step(1, "lookup_order", source="messages")], [fact(5)]) == []
    assert codes([look], [fact(5)], completeness="missing_root") == []
    assert codes([look], [fact(5, effect="not_executed")]) == []
    assert codes([look], [fact(5, "lookup_order", arguments=OTHER)]) == []
    asked = Step(
        step_id="model",
        kind="model_call",
        messages_out=(
            Message(role="assistant", parts=(Part(type="tool_call", name="issue_refund"),)),
        ),
    )
    assert codes([look, asked], [fact(5)]) == []


@pytest.mark.requirement("OUT-03")
def test_a_span_that_says_ok_against_a_receipt_that_says_error():
    assert codes([step(1)], [fact(1, effect="not_executed")]) == ["span_ok_receipt_error"]


def test_a_span_is_not_accused_when_answer_or_result_own_up():
    facts = [fact(1, effect="not_executed")]
    assert codes([step(1)], facts, NOT_DONE) == []
    assert codes([step(1, result={"status": "error", "code": "DECLINED"})], facts) == []
    assert codes([step(1, status="unset")], facts) == []
    look = [fact(1, "lookup_order", "not_executed", status=404)]
    assert codes([step(1, "lookup_order")], look) == []


def test_state_outweighs_what_the_tool_answered():
    unknown = [fact(1, effect="unknown")]
    assert status([step(1)], unknown, DONE, [probe(True)]) == "verified_success"
    assert codes([step(1)], [fact(1)], DONE, [probe(False)]) == ["claimed_success_state_failed"]


@pytest.mark.parametrize("at", [1100, NOW + 301 * 10**9])
def test_state_observed_too_early_or_in_the_future_is_unknown(at):
    assert status([step(1)], [fact(1)], DONE, [probe(True, at=at)]) == "indeterminate"


@pytest.mark.requirement("OUT-02")
@given(
    st.lists(st.sampled_from([True, False, None]), max_size=3),
    st.sampled_from([DONE, NOT_DONE, None]),
)
def test_what_an_emitter_says_never_raises_an_outcome(words, answer):
    emitted = [probe(held, name=f"e{n}", source="emitter") for n, held in enumerate(words)]
    plain = status([step(1)], [fact(1)], answer)
    with_emitted = status([step(1)], [fact(1)], answer, emitted)
    assert with_emitted in (plain, "unverified")
    assert status([step(1)], (), answer, emitted, tools={}) != "verified_success"


@pytest.mark.requirement("OUT-04")
def test_judging_again_with_late_evidence_replaces_the_outcome():
    first = judged([step(1)], answer=DONE, tools={})
    late = replace(first, evidence=(probe(True),))
    again = judge(late, tools={}, now_ns=NOW)
    assert (first.outcome.status, again.outcome.status) == ("unverified", "verified_success")
    assert again.claims == first.claims
    assert judge(again, tools={}, now_ns=NOW) == again


@pytest.mark.requirement("RED-01")
@pytest.mark.parametrize(("row", "outcome", "case"), TABLE)
def test_redaction_leaves_the_conclusion_alone(row, outcome, case):
    found = judged(**case)
    kept = redact(found, "off")
    assert kept.outcome == found.outcome
    assert [item.status for item in kept.claims] == [item.status for item in found.claims]


def test_five_hundred_steps_are_judged_in_linear_work():
    """Twice the steps must not be four times the comparisons: counted, not timed."""

    class Counted(dict):
        looked = 0

        def __contains__(self, key):
            Counted.looked += 1
            return super().__contains__(key)

    def work(count):
        Counted.looked = 0
        steps = [step(n, arguments={"order_id": f"A-{n}"}) for n in range(count)]
        facts = [fact(n, arguments={"order_id": f"A-{n}"}) for n in range(count)]
        assert status(steps, facts, tools=Counted(TOOLS)) == "verified_success"
        return Counted.looked

    assert work(500) < 2.5 * work(250)


def test_a_request_refused_before_it_was_any_tools_is_no_effect():
    nameless = fact(1, effect="not_executed", phase="refused", status=404, code="no_such_tool")
    nameless = replace(nameless, receipt=replace(nameless.receipt, tool="", decision_id=""))
    found = judged([step(2)], [nameless, fact(2)], DONE)
    assert found.outcome.status == "verified_success"
    assert found.steps[0].name == "request for no known tool" and found.steps[0].status == "error"
    assert status([], [nameless]) == "unverified"


def test_an_error_step_is_still_an_attempt():
    failed = step(1, status="error", error=StepError(type="TimeoutError"))
    assert status([failed], tools={}) == "unverified"
