"""Mastra before 1.0: the steps are the model calls, the span around them a wrapper."""

import json

from telemetry_rig import one, only, span, steps


def mastra(number, name, type_, attributes=None, **place):
    plain = {"mastra.span.type": type_}
    plain.update(
        {k: v if isinstance(v, str | int) else json.dumps(v) for k, v in (attributes or {}).items()}
    )
    return span(number, name, attributes=plain, scope="@mastra/otel", **place)


def step(number, said, calls=(), *, tokens=(12, 3), **place):
    body = {
        "id": f"r{number}",
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]},
    }
    attributes = {
        "gen_ai.operation.name": "model.step",
        "input": {"body": {"messages": [{"role": "user", "content": "hi"}]}},
        "output": {"text": said, "toolCalls": list(calls)},
        "body": body,
        "id": f"r{number}",
        "modelId": "m1",
    }
    return mastra(number, f"step: {number}", "model_step", attributes, **place)


def test_the_steps_of_a_loop_are_the_model_calls():
    call = {"toolCallId": "call_abcdefghijkl", "toolName": "find", "args": {"id": 7}}
    loop = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m1",
        "gen_ai.usage.input_tokens": 32,
        "gen_ai.usage.output_tokens": 7,
    }
    trace = one(
        mastra(
            1,
            "agent.clerk",
            "agent_run",
            {
                "gen_ai.operation.name": "agent.run",
                "output": {"text": "Done."},
                "gen_ai.agent.id": "clerk",
            },
            took=60,
        ),
        mastra(2, "chat m1", "model_generation", loop, parent=1, took=50, kind=3),
        step(3, "", [call], parent=2, at=1, took=9),
        mastra(
            4,
            "chunk: 'tool-call'",
            "model_chunk",
            {"gen_ai.operation.name": "model.chunk"},
            parent=3,
            at=2,
            kind=3,
        ),
        mastra(
            5,
            "tool.execute find",
            "tool_call",
            {
                "gen_ai.tool.name": "find",
                "gen_ai.tool.input": {"id": 7},
                "gen_ai.tool.output": {"n": 1},
            },
            parent=3,
            at=4,
        ),
        step(6, "Done.", parent=2, at=20, took=9, tokens=(20, 4)),
    )
    first, _ = steps(trace, "model_call")
    assert (first.model.response_id, first.usage.input) == ("r3", 12)
    found = only(trace, "tool_call").tool
    assert (found.call_id, found.arguments, found.result) == (
        "call_abcdefghijkl",
        {"id": 7},
        {"n": 1},
    )
    assert (trace.usage_total.input, trace.usage_total.output) == (32, 7)
    assert (trace.final_output, only(trace, "agent").agent.name) == ("Done.", "clerk")


def test_from_one_point_nought_the_inference_is_the_call():
    inference = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.output_tokens": 3,
    }
    trace = one(
        mastra(
            1, "agent_step clerk", "model_step", {"gen_ai.operation.name": "agent_step"}, took=20
        ),
        mastra(2, "chat m", "model_inference", inference, parent=1, kind=3),
    )
    assert only(trace, "model_call").name == "chat m"
