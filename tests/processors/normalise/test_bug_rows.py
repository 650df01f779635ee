"""Bugs that other normalisers had: each row of the catalogue a case, named by its number."""

import json

import pytest
from telemetry_rig import (
    agent,
    answer,
    asked,
    call,
    chat,
    event,
    link,
    log,
    one,
    only,
    span,
    steps,
    text,
    tool,
    traces,
)

SCOPE = "strands.telemetry.tracer"
CALL = call("call_abcdefghijkl", "find", {"id": 7})
USAGE = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 9}


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (
            "B2",
            {"gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 4},
        ),  # the last call's
        ("B5", USAGE),
    ],
)
def test_an_agents_tokens_never_add_to_those_of_its_calls(row, shown):
    trace = one(
        agent(1, took=50, attributes=shown),
        chat(2, parent=1, tokens=(10, 5)),
        chat(3, parent=1, at=9, tokens=(20, 4)),
    )
    assert (trace.usage_total.input, trace.usage_total.output) == (30, 9), row


def test_b3_tokens_under_two_spellings_count_once():
    both = {"gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 2}
    cycle = {"gen_ai.operation.name": "execute_event_loop_cycle", **USAGE}
    trace = one(
        agent(1, took=50, attributes={**USAGE, "gen_ai.usage.prompt_tokens": 30}),
        span(2, "execute_event_loop_cycle", parent=1, took=40, attributes=cycle, scope=SCOPE),
        chat(3, parent=2, tokens=(10, 2), attributes=both),
    )
    assert (trace.usage_total.input, trace.usage_total.output) == (10, 2)


def test_b32_all_shapes_of_strands_are_read_and_quoted_texts_are_texts():
    asks = json.dumps(
        [{"toolUse": {"toolUseId": "tooluse_abcdefgh", "name": "find", "input": {"id": 7}}}]
    )
    legacy = span(
        2,
        "chat",
        parent=1,
        kind=3,
        scope=SCOPE,
        attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
        events=(event("gen_ai.choice", message=asks, finish_reason="tool_use"),),
    )
    latest = span(
        3,
        "execute_tool find",
        parent=1,
        at=5,
        scope=SCOPE,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "find",
            "gen_ai.tool.call.id": "tooluse_abcdefgh",
        },
        events=(
            event("gen_ai.tool.message", content='{"id": 7}', id="tooluse_abcdefgh"),
            event("gen_ai.choice", message='[{"text": "{\\"n\\": 1}"}]', id="tooluse_abcdefgh"),
        ),
    )
    trace = one(agent(1, took=50), legacy, latest)
    found = only(trace, "tool_call").tool
    assert (found.arguments, found.result) == ({"id": 7}, {"n": 1})
    assert found.requested_by == only(trace, "model_call").step_id


def test_b9_placeholder_arguments_give_way_to_what_was_asked():
    trace = one(
        agent(1, took=20),
        chat(2, parent=1, said=[asked(CALL)]),
        tool(3, "find", {}, parent=1, at=5),
    )
    step = only(trace, "tool_call")
    assert (step.tool.arguments, step.content_state["arguments"]) == ({"id": 7}, "recovered")


def test_b10_a_tool_span_without_anything_is_named_by_its_span():
    step = only(one(span(1, "find", attributes={"openinference.span.kind": "TOOL"})), "tool_call")
    assert (step.tool.name, step.content_state["result"]) == ("find", "absent")


def test_b12_answers_without_ids_belong_to_the_calls_in_order():
    nameless = {"role": "tool", "parts": [{"type": "tool_call_response", "response": "found"}]}
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, said=[asked(CALL)]),
        chat(3, parent=1, at=9, shown=[asked(CALL), nameless]),
    )
    assert only(trace, "tool_call").tool.result == "found"


def test_b13_a_result_that_no_call_asked_for_is_kept():
    stray = answer("call_zzzzzzzzzzzz", "kept")
    step = only(one(chat(1, shown=[text("user", "hi"), stray])), "model_call")
    assert step.messages_in[1].parts[0].content == "kept"


def test_b14_an_id_of_the_spans_own_joins_by_name_and_arguments():
    trace = one(
        agent(1, took=20),
        chat(2, parent=1, said=[asked(CALL)]),
        tool(3, "find", {"id": 7}, parent=1, at=5, call_id="0f8c1f6e-0000-4000-8000-000000000000"),
    )
    assert only(trace, "tool_call").tool.requested_by == only(trace, "model_call").step_id


def test_b15_an_agents_name_on_a_call_makes_no_agent():
    named = chat(1, attributes={"gen_ai.agent.name": "clerk", "gen_ai.agent.id": "a"})
    assert only(one(named), "model_call").agent.name == "clerk"


@pytest.mark.parametrize(
    ("row", "attributes", "kind"),
    [
        ("B16", {"openinference.span.kind": "LLM", "llm.model_name": "m"}, "model_call"),
        ("B17", {"gen_ai.operation.name": "invoke_workflow"}, "other"),
        ("B17", {"gen_ai.operation.name": "plan"}, "other"),
        (
            "B29",
            {"gen_ai.operation.name": "invoke_agent", "openinference.span.kind": "LLM"},
            "agent",
        ),
        ("B31", {"gen_ai.operation.name": "generate_content"}, "model_call"),
        ("B36", {"parent_span_id": "f" * 16, "gen_ai.operation.name": "chat"}, "model_call"),
    ],
)
def test_a_kind_is_what_the_evidence_says(row, attributes, kind):
    assert one(span(1, "x", attributes=attributes)).steps[0].kind == kind, row


def test_b18_flattened_messages_are_grouped_by_their_numbers():
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.10.message.content": "later",
        "llm.input_messages.2.message.content": "earlier",
    }
    shown = only(one(span(1, "x", attributes=attributes)), "model_call").messages_in
    assert [message.parts[0].content for message in shown] == ["earlier", "later"]


def test_b19_a_list_of_contents_gives_a_part_each():
    blocks = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]
    shown = only(
        one(chat(1, shown=[{"role": "user", "content": blocks}])), "model_call"
    ).messages_in
    assert [part.type for part in shown[0].parts] == ["text", "generic"]


def test_b20_one_call_seen_by_two_instrumentations_is_one():
    twice = chat(3, parent=2, at=1, tokens=(10, 2), scope="other", response="resp_abcdefghijkl")
    trace = one(agent(1, took=20), chat(2, parent=1, took=9, response="resp_abcdefghijkl"), twice)
    assert len(steps(trace, "model_call")) == 1
    assert trace.usage_total.input == 10


def test_b23_a_response_id_means_nothing_across_services():
    left = chat(1, trace=1, response="resp_abcdefghijkl")
    right = chat(2, trace=2, response="resp_abcdefghijkl", service="other")
    assert len(traces(left, right)) == 2


def test_b27_output_messages_are_never_the_input():
    step = only(one(chat(1, said=[text("assistant", "ok")])), "model_call")
    assert not step.messages_in
    assert step.messages_out[0].parts[0].content == "ok"


@pytest.mark.parametrize("row", ["B33", "B34", "B35"])
def test_every_span_finds_a_root(row):
    orphan = {"B33": None, "B34": 99, "B35": None}[row]
    trace = one(agent(1, took=20), chat(2, parent=1), chat(3, parent=orphan, at=5))
    assert {f"{number:016x}" for number in (1, 2, 3)} <= {
        source.span_id for step in trace.steps for source in step.sources
    }
    assert trace.completeness == ("orphans" if orphan else "complete")


def test_b38_a_link_to_a_call_in_another_trace_joins_them():
    (trace,) = traces(
        agent(1, took=20), tool(2, "find", parent=1), span(3, "x", trace=2, at=5, links=(link(2),))
    )
    assert len(trace.trace_ids) == 2


def test_b41_ids_that_restart_belong_to_their_turn():
    def turn(number, at, args, gave):
        asks = call("call_0", "find", args)
        return [
            chat(number, parent=1, at=at, said=[asked(asks)]),
            tool(number + 1, "find", args, gave, parent=1, at=at + 3, call_id="call_0"),
        ]

    trace = one(agent(1, took=90), *turn(2, 1, {"id": 1}, "a"), *turn(4, 20, {"id": 2}, "b"))
    first, second = steps(trace, "tool_call")
    assert [found.tool.requested_by[-1] for found in (first, second)] == ["2", "4"]


def test_b42_identical_parallel_calls_pair_in_order():
    again = {**CALL, "id": "call_mnopqrstuvwx"}
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, said=[asked(CALL, again)]),
        tool(3, "find", {"id": 7}, "a", parent=1, at=5),
        tool(4, "find", {"id": 7}, "b", parent=1, at=6),
    )
    assert [step.tool.result for step in steps(trace, "tool_call")] == ["a", "b"]


@pytest.mark.parametrize("row", ["B43", "B52"])
def test_a_stream_that_was_left_is_open_or_cancelled_never_ok(row):
    left = chat(1, tokens=None, took=0)
    if row == "B52":
        left = chat(1, tokens=None, attributes={"error.type": "asyncio.CancelledError"})
    step = only(one(left), "model_call")
    assert (step.status, step.usage) == ("cancelled" if row == "B52" else "unset", None)


def test_b44_a_completion_of_tool_calls_alone_keeps_its_reason():
    attributes = {"gen_ai.response.finish_reasons": ["tool_calls"]}
    step = only(one(chat(1, said=[asked(CALL)], attributes=attributes)), "model_call")
    assert step.model.finish_reasons == ("tool_call",)


def test_b50_one_event_reported_on_span_and_record_is_one_message():
    spoken = chat(1, said=[text("assistant", "ok")])
    record = log(
        1, "gen_ai.choice", {"message": {"role": "assistant", "content": "ok"}, "index": 0}
    )
    assert len(only(one(spoken, record), "model_call").messages_out) == 1


def test_b51_geminis_calls_and_failures_without_ids_are_read():
    parts = [{"function_call": {"name": "find", "args": {"id": 7}}}]
    back = [{"function_response": {"name": "find", "response": {"error": "no such order"}}}]
    trace = one(
        agent(1, took=50),
        chat(2, parent=1, said=[{"role": "model", "parts": parts}]),
        chat(
            3,
            parent=1,
            at=9,
            shown=[{"role": "model", "parts": parts}, {"role": "user", "parts": back}],
        ),
    )
    step = only(trace, "tool_call")
    assert (step.status, step.error.inferred, step.tool.arguments) == ("error", True, {"id": 7})
