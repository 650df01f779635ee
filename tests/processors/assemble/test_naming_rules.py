"""Calls without id, functions that are tools, provider-run calls, failures that messages tell."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telemetry_rig import (
    agent,
    answer,
    asked,
    call,
    chat,
    one,
    only,
    span,
    steps,
    text,
    tool,
    traces,
)

LONG = "call_{:012d}"


def turn(number, trace, at, *, history, said):
    return chat(number, trace=trace, at=at, took=3, shown=history, said=[said])


def run(start, trace, calls, question="hi"):
    """A run of one call a trace, in which ids stand only in the histories."""
    history = [text("user", question)]
    spans = []
    for index, call_id in enumerate(calls):
        wanted = {"n": index}
        spans.append(
            turn(
                trace + index,
                trace + index,
                start + 10 * index,
                history=list(history),
                said=asked(call(None, "find", wanted)),
            )
        )
        history += [asked(call(call_id, "find", wanted)), answer(call_id, {"of": call_id})]
    last = text("assistant", "Done.")
    spans.append(
        turn(
            trace + len(calls),
            trace + len(calls),
            start + 10 * len(calls),
            history=history,
            said=last,
        )
    )
    return spans


@pytest.mark.requirement("NRM-03")
def test_the_history_names_the_calls_of_several_turns():
    ids = [LONG.format(n) for n in range(4)]
    trace = one(*run(0, 1, ids))
    assert [step.tool.call_id for step in steps(trace, "tool_call")] == ids
    assert [step.tool.result for step in steps(trace, "tool_call")] == [
        {"of": call_id} for call_id in ids
    ]
    assert len(trace.trace_ids) == 5


@pytest.mark.requirement("NRM-04")
@given(st.permutations(range(6)))
def test_two_runs_that_ask_the_same_stay_two_in_any_order(order):
    first, second = ([LONG.format(n) for n in span] for span in ((1, 2), (3, 4)))
    spans = [*run(0, 1, first), *run(100, 11, second)]
    found = traces(*(spans[number] for number in order))
    assert [[step.tool.call_id for step in steps(trace, "tool_call")] for trace in found] == [
        first,
        second,
    ]


def test_a_history_of_another_question_names_nothing():
    asking = run(0, 1, [LONG.format(1)])[0]
    other = run(50, 11, [LONG.format(2)], question="ho")[1]
    assert [
        step.status for trace in traces(asking, other) for step in steps(trace, "tool_call")
    ] == ["requested_only"]


def function(number, name, arguments, **place):
    told = {"traceloop.span.kind": "task", "traceloop.entity.name": name}
    told["traceloop.entity.input"] = json.dumps({"args": [], "kwargs": arguments})
    return span(number, f"{name}.task", attributes=told, **place)


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        pytest.param(
            function(4, "find", {"a": 1}, parent=1, at=9),
            {"tool_call": 1, "other": 1},
            id="asked once, run twice",
        ),
        pytest.param(
            tool(4, "find", {"a": 1}, parent=1, at=4),
            {"tool_call": 1, "other": 1},
            id="a tool call is there",
        ),
        pytest.param(
            function(4, "find", {"a": 2}, parent=1, at=9),
            {"tool_call": 1, "other": 1},
            id="other arguments",
        ),
    ],
)
def test_a_function_carries_out_one_request_and_no_more(other, kinds):
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, at=1, said=[asked(call("c1", "find", {"a": 1}))]),
        function(3, "find", {"a": 1}, parent=1, at=6),
        other,
    )
    assert {kind: len(steps(trace, kind)) for kind in kinds} == kinds


def test_a_function_nobody_asked_for_is_no_tool_call():
    trace = one(agent(1), chat(2, parent=1, at=1), function(3, "find", {"a": 1}, parent=1, at=6))
    assert not steps(trace, "tool_call")


def served(**answer_fields):
    parts = [
        {"type": "server_tool_call", "id": "s1", "name": "search", "server_tool_call": {"q": 1}}
    ]
    if answer_fields:
        parts.append({"type": "server_tool_call_response", "id": "s1", **answer_fields})
    return {"role": "assistant", "parts": [*parts, {"type": "text", "content": "Done."}]}


@pytest.mark.parametrize(
    ("fields", "result"), [({"server_tool_call_response": {"hits": 2}}, {"hits": 2}), ({}, None)]
)
def test_a_call_the_provider_ran_is_a_step_of_its_own(fields, result):
    step = only(one(chat(1, said=[served(**fields)])), "tool_call")
    assert (step.status, step.tool.name, step.tool.result) == ("unset", "search", result)
    assert step.tool.type == "extension"


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}},
        {"type": "mcp_call", "id": "m1", "name": "search", "arguments": "{}", "output": "ok"},
        {"type": "code_interpreter_call", "id": "ci1", "code": "1+1", "outputs": []},
    ],
)
def test_items_that_openai_carried_out_are_executed(item):
    step = only(one(chat(1, said=[item])), "tool_call")
    assert (step.status, step.tool.type) == ("unset", "extension")


def test_a_failed_mcp_item_is_an_error():
    item = {"type": "mcp_call", "id": "m1", "name": "search", "arguments": "{}", "error": "gone"}
    assert only(one(chat(1, said=[item])), "tool_call").status == "error"


@pytest.mark.parametrize(
    "result",
    [
        {"type": "tool_result", "tool_use_id": "c1", "content": "late", "is_error": True},
        {"type": "tool", "tool_call_id": "c1", "content": "late", "status": "error"},
        {"toolResult": {"toolUseId": "c1", "content": [{"text": "late"}], "status": "error"}},
    ],
    ids=["anthropic", "langchain", "bedrock"],
)
def test_an_answer_that_its_message_calls_failed_is_an_error(result):
    block = result if "tool_call_id" in result else {"role": "user", "content": [result]}
    trace = one(
        chat(1, said=[asked(call("c1", "find", {}))]),
        chat(2, at=9, shown=[asked(call("c1", "find", {})), block]),
    )
    step = only(trace, "tool_call")
    assert (step.status, step.error.inferred, step.tool.result) == ("error", True, "late")


def own_sdk(number, **more):
    told = {"gen_ai.usage.output_tokens": 18, "gen_ai.usage.input_tokens": 152}
    found = chat(
        number,
        trace=2,
        at=1,
        took=8,
        tokens=None,
        attributes=told,
        scope="com.anthropic.sdk.python",
        **more,
    )
    for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
        del found.attributes[key]
    return found


def test_the_providers_own_count_of_tokens_wins():
    trace = one(
        chat(
            1,
            at=0,
            took=10,
            tokens=(152, 19),
            response="msg_1234567890ab",
            said=[text("assistant", "hi")],
        ),
        own_sdk(2, response="msg_1234567890ab"),
    )
    assert trace.usage_total.output == 18
    assert only(trace, "model_call").messages_out[0].parts[0].content == "hi"


def test_a_failed_call_seen_by_two_instrumentations_is_one():
    def failed(number, trace, at, took, scope):
        place = {"trace": trace, "at": at, "took": took, "scope": scope}
        return chat(number, tokens=None, attributes={"error.type": "InternalServerError"}, **place)

    trace = one(failed(1, 1, 0, 20, "a"), failed(2, 2, 1, 10, "b"), failed(3, 1, 30, 5, "a"))
    assert [len(step.sources) for step in steps(trace, "model_call")] == [2, 1]
