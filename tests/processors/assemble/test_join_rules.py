"""One test for each rule by which a requested call meets its execution or its answer."""

import pytest
from telemetry_rig import agent, answer, asked, call, chat, one, only, span, steps, text, tool

FIRST, SECOND = "call_aaaaaaaaaaaa", "call_bbbbbbbbbbbb"


def model_ids(trace):
    return {step.start_ns: step.step_id for step in steps(trace, "model_call")}


@pytest.mark.requirement("NRM-03")
def test_an_id_on_both_sides_joins_whatever_the_order_of_names():
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, at=1, said=[asked(call(FIRST, "t", {}), call(SECOND, "t", {}))]),
        tool(3, "t", {}, "for second", call_id=SECOND, parent=1, at=5),
        tool(4, "t", {}, "for first", call_id=FIRST, parent=1, at=6),
    )
    assert [step.tool.call_id for step in steps(trace, "tool_call")] == [SECOND, FIRST]
    assert {step.tool.requested_by for step in steps(trace, "tool_call")} == {
        only(trace, "model_call").step_id
    }


def test_an_id_used_again_belongs_to_the_last_asker_before_the_execution():
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, at=1, said=[asked(call("call_0", "t", {"n": 1}))]),
        tool(3, "t", {"n": 1}, "a", call_id="call_0", parent=1, at=5),
        chat(4, parent=1, at=10, said=[asked(call("call_0", "t", {"n": 2}))]),
        tool(5, "t", {"n": 2}, "b", call_id="call_0", parent=1, at=15),
    )
    first, second = steps(trace, "tool_call")
    askers = [step.step_id for step in steps(trace, "model_call")]
    assert [first.tool.requested_by, second.tool.requested_by] == askers
    assert not trace.warnings


def test_without_ids_equal_arguments_join_however_they_are_written():
    trace = one(
        agent(1, took=50),
        chat(
            2,
            parent=1,
            at=1,
            said=[asked(call(FIRST, "t", '{"b": 1, "a": 2}'), call(SECOND, "t", {"a": 3}))],
        ),
        tool(3, "t", {"a": 3}, "x", parent=1, at=5),
        tool(4, "t", {"a": 2.0, "b": 1}, "y", parent=1, at=6),
    )
    assert [step.tool.call_id for step in steps(trace, "tool_call")] == [SECOND, FIRST]


def test_without_ids_and_arguments_the_name_joins_in_order_of_start():
    trace = one(
        agent(1, took=50),
        chat(
            2, parent=1, at=1, said=[asked(call(FIRST, "t", {"n": 1}), call(SECOND, "t", {"n": 2}))]
        ),
        tool(3, "t", parent=1, at=5),
        tool(4, "t", parent=1, at=6),
    )
    found = steps(trace, "tool_call")
    assert [step.tool.arguments for step in found] == [{"n": 1}, {"n": 2}]
    assert {step.content_state["arguments"] for step in found} == {"recovered"}


def test_an_execution_meets_a_request_of_its_own_agent_first():
    trace = one(
        span(9, "root", took=60),
        agent(1, "a", parent=9, took=20),
        chat(2, parent=1, at=1, said=[asked(call(FIRST, "t", {}))]),
        agent(3, "b", parent=9, took=20),
        chat(4, parent=3, at=2, said=[asked(call(SECOND, "t", {}))]),
        tool(5, "t", {}, parent=3, at=6),
        tool(6, "t", {}, parent=1, at=7),
    )
    assert [(s.agent.name, s.tool.call_id) for s in steps(trace, "tool_call")] == [
        ("b", SECOND),
        ("a", FIRST),
    ]


@pytest.mark.requirement("NRM-03")
def test_a_call_answered_in_a_later_input_was_executed():
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, at=1, took=2, said=[asked(call(FIRST, "t", {"n": 1}))]),
        chat(
            3,
            parent=1,
            at=9,
            shown=[asked(call(FIRST, "t", {"n": 1})), answer(FIRST, '{"ok": true}')],
        ),
    )
    step = only(trace, "tool_call")
    asker, reader = steps(trace, "model_call")
    assert (step.status, step.tool.result, step.tool.arguments) == ("unset", {"ok": True}, {"n": 1})
    assert [source.kind for source in step.sources] == ["messages"]
    assert (step.start_ns, step.end_ns) == (asker.end_ns, reader.start_ns)
    assert step.tool.requested_by == asker.step_id
    assert step.step_id == f"{asker.step_id}:1"
    assert step.parent_step_id == asker.parent_step_id


def test_a_call_that_nothing_executed_and_nothing_answers_is_requested_only():
    trace = one(
        chat(1, said=[asked(call(FIRST, "t", {}))]), chat(2, at=5, shown=[text("user", "?")])
    )
    assert only(trace, "tool_call").status == "requested_only"


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ("Error: TimeoutError: gateway timed out", "error"),
        ("TimeoutError('gateway timed out')", "error"),
        ("An error occurred while running the tool. Please try again.", "error"),
        ('{"error": "declined"}', "error"),
        ('{"error": null, "id": 1}', "unset"),
        ('{"status": "ok", "error": "none"}', "unset"),
        ("No error was found in the order", "unset"),
        ("The customer said: Error 404", "unset"),
        ('{"denied": true, "reason": "policy"}', "denied"),
    ],
)
def test_an_answer_that_is_an_error_is_one_and_a_mention_is_not(shown, status):
    trace = one(
        chat(1, said=[asked(call(FIRST, "t", {}))]),
        chat(2, at=5, shown=[answer(FIRST, shown)]),
        span(3, "root", at=-1, took=30),
    )
    traces_of_calls = [step for step in trace.steps if step.kind == "tool_call"]
    assert [step.status for step in traces_of_calls] == [status]
    if status == "error":
        assert traces_of_calls[0].error.inferred


def test_the_nth_answer_of_an_id_is_that_of_its_nth_request():
    one_call, other = call("call_0", "t", {"n": 1}), call("call_0", "t", {"n": 2})
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, at=1, said=[asked(one_call)]),
        chat(
            3, parent=1, at=5, shown=[asked(one_call), answer("call_0", "a")], said=[asked(other)]
        ),
        chat(
            4,
            parent=1,
            at=9,
            shown=[asked(one_call), answer("call_0", "a"), asked(other), answer("call_0", "b")],
        ),
    )
    assert [(s.tool.arguments["n"], s.tool.result) for s in steps(trace, "tool_call")] == [
        (1, "a"),
        (2, "b"),
    ]


@pytest.mark.parametrize("shown_id", [None, "call_other_name"])
def test_an_answer_without_the_calls_id_is_that_of_the_call_it_follows(shown_id):
    calls = call(FIRST, "t", {"n": 1}), call(SECOND, "t", {"n": 2})
    history = [asked(*calls), answer(shown_id, "a"), answer(None, "b")]
    trace = one(
        agent(9, took=30),
        chat(1, parent=9, said=[asked(*calls)]),
        chat(2, parent=9, at=5, shown=history),
    )
    assert [step.tool.result for step in steps(trace, "tool_call")] == ["a", "b"]


def test_a_call_begun_after_an_answer_was_shown_is_not_what_it_answers():
    first, second = call(FIRST, "refund", {"n": 1}), call(SECOND, "refund", {"n": 1})
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, at=1, said=[asked(first)]),
        chat(
            3,
            parent=1,
            at=5,
            shown=[asked(first), answer(FIRST, "Error: timed out")],
            said=[asked(second)],
        ),
        tool(4, "refund", {"n": 1}, "ok", parent=1, at=8),
    )
    lost, seen = steps(trace, "tool_call")
    assert (lost.status, lost.sources[0].kind) == ("error", "messages")
    assert (seen.tool.call_id, seen.sources[0].kind) == (SECOND, "span")


def test_what_ran_is_the_executions_word_and_a_difference_is_warned_of():
    trace = one(
        chat(1, said=[asked(call(FIRST, "t", {"amount": 5}))]),
        tool(2, "t", {"amount": 500}, "ok", call_id=FIRST, at=5),
        span(3, "root", at=-1, took=30),
    )
    assert only(trace, "tool_call").tool.arguments == {"amount": 500}
    assert [warning.code for warning in trace.warnings] == ["args_mismatch"]


def test_a_bare_value_is_the_single_argument_of_the_request():
    trace = one(
        chat(1, said=[asked(call(FIRST, "t", {"order_id": "A-1"}))]),
        span(
            2,
            "t",
            at=5,
            attributes={"openinference.span.kind": "TOOL", "tool.name": "t", "input.value": "A-1"},
        ),
    )
    assert only(trace, "tool_call").tool.arguments == {"order_id": "A-1"}


def test_a_result_the_execution_lost_is_recovered_from_the_answer():
    cut = {"gen_ai.tool.call.result": '{"a": "b'}
    trace = one(
        chat(1, said=[asked(call(FIRST, "t", {}))]),
        tool(2, "t", {}, call_id=FIRST, at=3, attributes=cut),
        chat(3, at=6, shown=[asked(call(FIRST, "t", {})), answer(FIRST, '{"a": "bc"}')]),
    )
    step = only(trace, "tool_call")
    assert (step.tool.result, step.content_state["result"]) == ({"a": "bc"}, "recovered")


def test_an_execution_nobody_asked_for_is_kept():
    trace = one(agent(1, took=9), tool(2, "t", {"a": 1}, "r", parent=1, at=2))
    assert only(trace, "tool_call").tool.requested_by is None


def test_a_request_that_a_handoff_carried_out_is_no_tool_call():
    handoff = {"gen_ai.operation.name": "handoff", "gen_ai.handoff.to_agent": "b"}
    trace = one(
        agent(1, took=9),
        chat(2, parent=1, at=1, said=[asked(call(FIRST, "transfer_to_b", {}))]),
        span(3, "a → b.handoff", parent=1, at=3, attributes=handoff),
    )
    assert not steps(trace, "tool_call")
    assert only(trace, "handoff").attributes["handoff.to"] == "b"


@pytest.mark.parametrize(
    ("name", "arguments", "is_call"),
    [
        ("transfer_to_billing", {}, False),
        ("transfer_to_research", {}, False),  # asked for beside, and ignored
        ("transfer_to_agent", {"agent_name": "billing"}, False),
        ("transfer_to_billing", {"reason": "money"}, False),
        ("transfer_funds", {"amount": 5}, True),
        ("transfer_to_account", {"amount": 5}, True),
    ],
)
def test_only_a_request_that_hands_over_is_taken_by_a_handoff(name, arguments, is_call):
    handoff = {"gen_ai.operation.name": "handoff", "gen_ai.handoff.to_agent": "billing"}
    asks = call("call_abcdefghijkl", name, arguments)
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, said=[asked(asks)]),
        span(3, "handoff", parent=1, at=5, attributes=handoff),
        chat(4, parent=1, at=9, shown=[asked(asks), answer(asks["id"], "ok")]),
    )
    assert bool(steps(trace, "tool_call")) is is_call
