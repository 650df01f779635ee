"""OpenLLMetry: indexed messages, entities, and Python calls dumped as JSON."""

import json

import pytest
from telemetry_rig import one, only, span


def test_indexed_messages_come_back():
    attributes = {
        "llm.request.type": "chat",
        "gen_ai.system": "OpenAI",
        "gen_ai.usage.prompt_tokens": 5,
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "hi",
        "gen_ai.prompt.1.role": "tool",
        "gen_ai.prompt.1.content": "found",
        "gen_ai.prompt.1.tool_call_id": "c1",
        "gen_ai.completion.0.finish_reason": "tool_calls",
        "gen_ai.completion.0.tool_calls.0.id": "c2",
        "gen_ai.completion.0.tool_calls.0.name": "t",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"a": 1}',
        "gen_ai.completion.0.tool_calls.1.function.name": "u",
    }
    step = only(one(span(1, attributes=attributes)), "model_call")
    assert [message.role for message in step.messages_in] == ["user", "tool"]
    assert [part.name for part in step.messages_out[0].parts] == ["t", "u"]
    assert step.usage.input == 5


def test_a_span_that_lost_its_oldest_attributes_is_still_a_model_call():
    attributes = {"gen_ai.prompt.16.content": "x", "gen_ai.completion.0.content": "done"}
    assert only(one(span(1, kind=3, attributes=attributes)), "model_call").messages_out


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ({"args": [], "kwargs": {"a": 1}}, {"a": 1}),
        ({"args": [{"a": 1}], "kwargs": {}}, {"a": 1}),
        ({"args": [1, 2], "kwargs": {}}, {"args": [1, 2], "kwargs": {}}),
        ({"input_str": "{'a': 1}", "inputs": None}, {"a": 1}),
        ({"input_str": "x", "inputs": {"a": 1}}, {"a": 1}),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_a_dumped_python_call_is_unwrapped(written, arguments):
    attributes = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "look_up",
        "traceloop.entity.input": json.dumps(written),
        "traceloop.entity.output": '{"output": {"b": 2}}',
    }
    made = only(one(span(1, "look_up.tool", attributes=attributes)), "tool_call").tool
    assert (made.name, made.arguments, made.result) == ("look_up", arguments, {"b": 2})


def test_an_entity_names_an_agent_only_on_an_agent():
    agent = {"traceloop.span.kind": "agent", "traceloop.entity.name": "refunds"}
    assert only(one(span(1, attributes=agent)), "agent").agent.name == "refunds"
    task = {"traceloop.span.kind": "task", "traceloop.entity.name": "refunds"}
    assert only(one(span(1, attributes=task)), "other").agent is None


def test_the_conversation_is_an_association_property():
    attributes = {
        "traceloop.span.kind": "workflow",
        "traceloop.association.properties.session_id": "s1",
    }
    assert one(span(1, attributes=attributes)).conversation_id == "s1"
