"""LiteLLM: calls beside the messages, the raw request, one run over several traces."""

import json

import pytest
from telemetry_rig import link, one, only, span, steps, traces

pytestmark = pytest.mark.requirement("NRM-01")


def asks(call_id):
    function = {"name": "find", "arguments": '{"a": 1}'}
    return {
        "role": "assistant",
        "parts": [],
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def answers(call_id, content):
    return {
        "role": "tool",
        "parts": [{"type": "text", "content": content}],
        "tool_call_id": call_id,
    }


def user(content="hi"):
    return {"role": "user", "parts": [{"type": "text", "content": content}]}


def request(number, *, shown, text=None, calls=(), trace=1, at=0, **more):
    parts = [{"type": "text", "content": text}] if text else []
    told = {
        "litellm.call_id": f"id-{number}",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.input.messages": json.dumps(shown),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
    }
    for index, (name, arguments) in enumerate(calls):
        told[f"gen_ai.completion.{index}.function_call.name"] = name
        told[f"gen_ai.completion.{index}.function_call.arguments"] = arguments
    told |= more
    return span(number, "chat m-1", trace=trace, at=at, took=3, scope="litellm", attributes=told)


FIND = ("find", '{"a": 1}')


def raw(number, parent, call_id, *, trace=1, at=0):
    message = {
        "content": None,
        "tool_calls": [{"id": call_id, "function": {"name": "find", "arguments": '{"a": 1}'}}],
    }
    told = {
        "llm.openai.id": f"chatcmpl-{parent}",
        "llm.openai.model": "m-1-2026",
        "llm.openai.choices": repr([{"finish_reason": "tool_calls", "message": message}]),
        "llm.openai.usage": repr({"completion_tokens": 2, "prompt_tokens": 7, "total_tokens": 9}),
    }
    return span(
        number,
        "raw_gen_ai_request",
        parent=parent,
        trace=trace,
        at=at,
        took=3,
        scope="litellm",
        attributes=told,
    )


def test_parallel_calls_beside_the_messages_are_asked_for():
    found = request(1, shown=[user()], text="Let me see.", calls=(FIND, ("other", "{}")))
    step = only(one(found), "model_call")
    assert [part.type for part in step.messages_out[0].parts] == ["text", "tool_call", "tool_call"]
    assert [step.tool.name for step in steps(one(found), "tool_call")] == ["find", "other"]


def test_the_raw_request_is_the_same_call_and_gives_the_ids():
    trace = one(request(1, shown=[user()], calls=(FIND,)), raw(2, 1, "call_abcdefghijkl"))
    step = only(trace, "model_call")
    assert (step.model.response_id, step.model.provider) == ("chatcmpl-1", "openai")
    assert len(step.sources) == 2
    assert only(trace, "tool_call").tool.call_id == "call_abcdefghijkl"


@pytest.mark.parametrize(
    "content", [pytest.param('{"ok": true}', id="B8 litellm#13764 tool messages")]
)
def test_calls_without_id_find_their_answer_in_another_trace(content):
    later = [user(), asks("call_abcdefghijkl"), answers("call_abcdefghijkl", content)]
    trace = one(
        request(1, shown=[user()], calls=(FIND,), trace=1),
        request(2, shown=later, text="Done.", trace=2, at=9),
    )
    step = only(trace, "tool_call")
    assert (step.tool.result, step.tool.call_id, step.status) == (
        {"ok": True},
        "call_abcdefghijkl",
        "unset",
    )
    assert len(trace.trace_ids) == 2
    assert trace.final_output == "Done."


def test_two_runs_that_begin_alike_stay_two():
    def turn(number, call_id, trace, at):
        shown = [user(), asks(call_id), answers(call_id, call_id)]
        return request(number, shown=shown, text="Done.", trace=trace, at=at)

    found = traces(
        request(1, shown=[user()], calls=(FIND,), trace=1, at=0),
        turn(2, "call_aaaaaaaaaaaa", 2, 9),
        request(3, shown=[user()], calls=(FIND,), trace=3, at=20),
        turn(4, "call_bbbbbbbbbbbb", 4, 29),
    )
    assert [len(trace.trace_ids) for trace in found] == [2, 2]
    assert [only(trace, "tool_call").tool.result for trace in found] == [
        "call_aaaaaaaaaaaa",
        "call_bbbbbbbbbbbb",
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param("auth /chat/completions", "other", id="B37 litellm#35193 auth"),
        pytest.param("postgres", "other", id="B37 litellm#35193 database"),
        pytest.param("execute_guardrail pii", "guardrail", id="B37 litellm#35193 guardrail"),
    ],
)
def test_a_promoted_model_name_makes_no_model_call(name, kind):
    told = {"gen_ai.request.model": "m-1", "litellm.call_id": "x"}
    if kind == "guardrail":
        told["gen_ai.operation.name"] = "execute_guardrail"
    assert one(span(1, name, scope="litellm", attributes=told)).steps[0].kind == kind


@pytest.mark.parametrize("far", [pytest.param(2, id="B38 litellm#34537 MCP in a trace of its own")])
def test_a_linked_trace_is_the_same_run(far):
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    tool = span(
        5, "tools/call find", trace=far, at=2, scope="litellm", attributes=told, links=(link(1),)
    )
    trace = one(request(1, shown=[user()], text="Done."), tool)
    assert len(trace.trace_ids) == 2
    assert only(trace, "tool_call").name == "find"


def test_one_span_in_three_dialects_is_one_step_of_one_count():
    told = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m-1",
        "llm.token_count.prompt": 7,
        "llm.token_count.completion": 2,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Done.",
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": '{"input": 7, "output": 2}',
        "langfuse.observation.output": '{"role": "assistant", "content": "Done."}',
    }
    trace = one(request(1, shown=[user()], text="Done.", **told))
    assert (only(trace, "model_call").usage.input, trace.usage_total.output) == (7, 2)
    assert trace.final_output == "Done."
