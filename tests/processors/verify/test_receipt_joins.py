"""Receipts find their steps: by span, by name and arguments, in order, and never two for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from processors.model.call import Receipt, ReceiptFact
from processors.model.step import Source, Step, StepError, Tool
from processors.model.trace import AgentTrace
from processors.verify.receipts import attach

TRACE = "b" * 32
SECOND = 10**9
NOW = 10**12


def fact(number, tool="issue_refund", arguments=None, **fields):
    base = {
        "receipt_id": f"r{number}",
        "call_id": f"c{number}",
        "phase": "executed",
        "project": "default",
        "principal": "p",
        "principal_kind": "agent",
        "tool": tool,
        "class_": "irreversible",
        "action_hash": f"h{number}",
        "decision_id": "d1",
        "decision_effect": "allow",
        "reasons": ("rule",),
        "policy_revision": "1",
        "effect": "confirmed",
        "status": 200,
        "started_at_ns": SECOND * number + SECOND // 10,
        "finished_at_ns": SECOND * number + SECOND // 5,
        "trace_id": TRACE,
    }
    return ReceiptFact(receipt=Receipt(**{**base, **fields}), arguments=arguments)


def span(number):
    return f"{number:016x}"


def step(number, name="issue_refund", arguments=None, kind="tool_call", parent=None, **fields):
    return Step(
        step_id=f"{TRACE}:{span(number)}",
        kind=kind,
        name=name,
        parent_step_id=f"{TRACE}:{span(parent)}" if parent is not None else None,
        tool=Tool(name=name, arguments=arguments) if kind == "tool_call" else None,
        start_ns=fields.pop("start", SECOND * number),
        end_ns=fields.pop("end", SECOND * number + SECOND // 2),
        status=fields.pop("status", "ok"),
        sources=(Source(kind=fields.pop("source", "span"), trace_id=TRACE, span_id=span(number)),),
        **fields,
    )


def joined(steps, facts):
    """Receipt id by the number of the step that has it; calls without a span under their own id."""
    trace = attach(AgentTrace(trace_id=TRACE, steps=tuple(steps)), facts, NOW)
    numbers = {f"{TRACE}:{span(n)}": n for n in range(100)}
    return {item.receipt_id: numbers.get(item.step_id, item.step_id) for item in trace.evidence}


def after(steps, facts):
    return attach(AgentTrace(trace_id=TRACE, steps=tuple(steps)), facts, NOW)


def test_the_tool_span_that_was_current_has_the_receipt_whatever_its_name():
    assert joined([step(1, "refund_order"), step(2)], [fact(9, span_id=span(1))]) == {"r9": 1}


def test_a_client_span_inside_the_tool_span_leads_to_it():
    steps = [step(1), step(2), step(3, "HTTP POST", kind="other", parent=1)]
    assert joined(steps, [fact(9, span_id=span(3))]) == {"r9": 1}


def test_an_agent_span_only_says_where_to_look():
    steps = [
        step(1, "invoke_agent", kind="agent"),
        step(2, "invoke_agent", kind="agent"),
        step(3, parent=1, start=0, end=0),
        step(4, parent=2, start=0, end=0),
    ]
    assert joined(steps, [fact(9, span_id=span(2))]) == {"r9": 4}


def test_a_sub_agents_call_is_not_given_to_the_tool_that_started_it():
    steps = [
        step(1, "ask_refunds"),
        step(2, "invoke_agent", kind="agent", parent=1),
        step(3, "issue_refund", parent=2),
    ]
    assert joined(steps, [fact(9, span_id=span(2))]) == {"r9": 3}


@pytest.mark.parametrize(
    "name", ["shop.issue_refund", "mcp__shop__issue-refund", "Shop-issue_refund"]
)
def test_a_namespace_in_front_is_the_same_tool(name):
    assert joined([step(1, name)], [fact(1)]) == {"r1": 1}


def test_equal_arguments_choose_among_steps_of_one_name():
    steps = [step(1, arguments={"id": "A"}), step(2, arguments={"id": "B"}), step(3)]
    assert joined(steps, [fact(9, arguments={"id": "B"})]) == {"r9": 2}


def test_numbers_and_order_of_members_do_not_matter():
    steps = [step(1, arguments={"a": 2}), step(2, arguments={"b": 1.0, "a": 1})]
    assert joined(steps, [fact(9, arguments={"a": 1, "b": 1})]) == {"r9": 2}


def test_compatible_arguments_fit_and_conflicting_ones_only_while_running():
    more = [step(1, arguments={"id": "A", "note": "x"})]
    assert joined(more, [fact(9, arguments={"id": "A"})]) == {"r9": 1}
    other = [step(1, arguments={"id": "B"})]
    assert joined(other, [fact(9, arguments={"id": "A"})]) == {"r9": "receipt:r9"}
    assert joined(other, [fact(1, arguments={"id": "A"})]) == {"r1": 1}


def test_of_equal_calls_each_goes_to_the_one_that_was_running():
    steps = [step(n, arguments={"id": "A"}) for n in (1, 2, 3)]
    facts = [fact(n, arguments={"id": "A"}) for n in (2, 3)]
    assert joined(steps, facts) == {"r2": 2, "r3": 3}


def test_without_times_equal_calls_pair_in_order():
    steps = [step(n, arguments={"id": "A"}, start=0, end=0, source="messages") for n in (1, 2)]
    facts = [fact(n, arguments={"id": "A"}) for n in (5, 6)]
    assert joined(steps, facts) == {"r5": 1, "r6": 2}


def test_authorised_and_executed_of_a_call_are_one_piece_of_evidence():
    facts = [fact(1, phase="authorised", effect="unknown"), fact(2, call_id="c1", span_id=span(1))]
    trace = after([step(1)], [*facts, facts[0]])
    (item,) = trace.evidence
    assert (item.receipt_id, item.held) == ("r2", True)


def test_an_authorisation_alone_is_a_gap_whose_effect_is_unknown():
    trace = after([step(1)], [fact(1, phase="authorised", effect="not_executed")])
    assert trace.evidence[0].held is None and trace.evidence[0].data["effect"] == "unknown"


@pytest.mark.parametrize(
    ("effect", "held"), [("confirmed", True), ("not_executed", False), ("unknown", None)]
)
def test_evidence_says_what_the_receipt_says(effect, held):
    (item,) = after([step(1)], [fact(1, effect=effect)]).evidence
    assert (item.held, item.source, item.subject) == (held, "receipt", "issue_refund")
    assert item.observed_ns == SECOND * 6 // 5 and item.data["class"] == "irreversible"


@pytest.mark.parametrize(
    ("decided", "code", "status"),
    [
        ("deny", "policy_denied", "denied"),
        ("require_approval", "approval_required", "deferred"),
        ("require_approval", "approval_denied", "denied"),
        ("allow", "in_flight", "error"),
    ],
)
def test_a_refusal_shows_on_the_step(decided, code, status):
    refused = fact(
        1, phase="refused", effect="not_executed", status=403, code=code, decision_effect=decided
    )
    (told,) = after([step(1)], [refused]).steps
    assert told.status == status and told.receipt_id == "r1"
    assert (told.decision.effect, told.decision.source) == (decided, "gateway")


def test_a_refusal_before_any_decision_claims_no_decision():
    early = fact(
        1,
        phase="refused",
        effect="not_executed",
        status=400,
        code="key_missing",
        decision_id="",
        decision_effect="deny",
    )
    (told,) = after([step(1)], [early]).steps
    assert told.status == "error" and told.decision is None
    assert told.error == StepError(type="key_missing")


def test_approval_and_execution_inside_one_tool_span_belong_to_it():
    held = fact(
        1,
        phase="refused",
        effect="not_executed",
        status=403,
        decision_effect="require_approval",
        action_hash="h",
    )
    done = fact(2, action_hash="h", started_at_ns=SECOND * 13 // 10)
    (told,) = after([step(1)], [held, done]).steps
    assert (told.status, told.receipt_id) == ("ok", "r2")
    assert [source.ref for source in told.sources if source.kind == "receipt"] == ["r1", "r2"]


def test_a_replay_goes_to_the_retrys_span_or_else_to_the_first():
    replay = fact(2, phase="replayed", call_id="c1", action_hash="h1")
    assert joined([step(1), step(2)], [fact(1), replay]) == {"r1": 1, "r2": 2}
    assert joined([step(1)], [fact(1), replay]) == {"r1": 1, "r2": 1}


def test_a_second_effect_without_a_span_is_not_hidden_behind_the_first():
    assert joined([step(1)], [fact(1, action_hash="h"), fact(7, action_hash="h")]) == {
        "r1": 1,
        "r7": "receipt:r7",
    }


def test_a_receipt_without_a_span_is_a_step_of_its_own_in_its_place():
    steps = [
        step(0, "invoke_agent", kind="agent", end=9 * SECOND),
        step(1, "lookup"),
        step(8, "lookup"),
    ]
    trace = after(steps, [fact(5, arguments={"id": "A"}, span_id=span(0))])
    assert [item.step_id.split(":")[-1] for item in trace.steps][2] == "r5"
    made = trace.steps[2]
    assert made.kind == "tool_call" and made.parent_step_id == steps[0].step_id
    assert made.tool.arguments == {"id": "A"} and made.content_state["arguments"] == "recovered"
    assert made.status == "ok" and made.sources[0].kind == "receipt"


def test_arguments_the_telemetry_lacks_are_filled_in():
    (told,) = after([step(1)], [fact(1, arguments={"id": "A"})]).steps
    assert told.tool.arguments == {"id": "A"} and told.content_state["arguments"] == "recovered"
    (kept,) = after([step(1, arguments={"id": "B"})], [fact(1, arguments={"id": "A"})]).steps
    assert kept.tool.arguments == {"id": "B"}


def test_what_telemetry_says_of_an_executed_call_stays():
    (told,) = after([step(1)], [fact(1, effect="not_executed", status=422)]).steps
    assert told.status == "ok"
    (told,) = after([step(1, status="requested_only")], [fact(1)]).steps
    assert told.status == "ok"
    (told,) = after([step(1, status="unset")], [fact(1, effect="unknown", status=409)]).steps
    assert told.status == "error"


def test_receipts_of_another_trace_are_left_alone():
    trace = AgentTrace(trace_id=TRACE, steps=(step(1),))
    assert attach(trace, [fact(1, trace_id="c" * 32)], NOW) is trace


CALLS = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(["issue_refund", "send_email"]),
        st.sampled_from([None, {"id": "A"}, {"id": "B"}]),
        st.sampled_from(["confirmed", "not_executed", "unknown"]),
        st.sampled_from(["executed", "refused", "replayed"]),
        st.sampled_from([None, 1, 2, 50]),
    ),
    max_size=8,
    unique_by=lambda row: row[0],
)
STEPS = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(["issue_refund", "shop.send_email"]),
        st.sampled_from([None, {"id": "A"}, {"id": "C"}]),
    ),
    max_size=8,
    unique_by=lambda row: row[0],
)


@given(STEPS, CALLS, st.randoms(use_true_random=False))
def test_every_call_is_evidence_once_whatever_the_order_and_twice_is_once(rows, calls, random):
    steps = [step(number, name, arguments) for number, name, arguments in sorted(rows, key=str)]
    facts = [
        fact(n, tool, arguments, effect=effect, phase=phase, span_id=span(at) if at else None)
        for n, tool, arguments, effect, phase, at in calls
    ]
    once = after(steps, facts)
    assert sorted(item.receipt_id for item in once.evidence) == sorted(
        f"r{row[0]}" for row in calls
    )
    assert {item.step_id for item in once.evidence} <= {item.step_id for item in once.steps}
    assert len({item.step_id for item in once.steps}) == len(once.steps)
    assert attach(once, facts, NOW) == once
    shuffled = list(facts)
    random.shuffle(shuffled)
    assert after(steps, shuffled) == once
    own = [item for item in once.steps if not item.step_id.startswith("receipt:")]
    assert [item.step_id for item in own] == [item.step_id for item in steps]


@given(CALLS)
def test_receipts_that_come_one_by_one_end_where_they_would_together(calls):
    facts = [fact(n, tool, a, effect=e, phase=p) for n, tool, a, e, p, _ in calls]
    trace = AgentTrace(trace_id=TRACE)
    for count in range(1, len(facts) + 1):
        trace = attach(trace, facts[:count], NOW)
    assert trace.evidence == attach(AgentTrace(trace_id=TRACE), facts, NOW).evidence


def test_a_late_executed_receipt_replaces_its_lone_authorisation():
    first = after([step(1)], [fact(1, phase="authorised")])
    both = [fact(1, phase="authorised"), fact(2, call_id="c1", action_hash="h1")]
    late = attach(replace(first), both, NOW)
    assert [(item.receipt_id, item.held) for item in late.evidence] == [("r2", True)]
