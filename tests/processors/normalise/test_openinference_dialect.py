"""OpenInference: flattened messages, tools in input and output values, handoffs as tools."""

import json

import pytest
from telemetry_rig import one, only, span

LLM = {"openinference.span.kind": "LLM", "llm.model_name": "m"}


def oi(kind, name="x", **attributes):
    keys = {"openinference.span.kind": kind}
    keys.update({key.replace("__", "."): value for key, value in attributes.items()})
    return span(1, name, attributes=keys)


def test_flattened_messages_come_back_with_calls_and_answers():
    prefix = "llm.input_messages."
    attributes = {
        **LLM,
        f"{prefix}10.message.role": "tool",
        f"{prefix}10.message.content": "found",
        f"{prefix}10.message.tool_call_id": "c1",
        f"{prefix}9.message.role": "assistant",
        f"{prefix}9.message.tool_calls.0.tool_call.id": "c1",
        f"{prefix}9.message.tool_calls.0.tool_call.function.name": "t",
        f"{prefix}9.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
        "llm.output_messages.0.message.contents.0.message_content.text": "done",
        "llm.output_messages.0.message.contents.0.message_content.type": "text",
    }
    step = only(one(span(1, attributes=attributes)), "model_call")
    assert [message.role for message in step.messages_in] == ["assistant", "tool"]
    assert step.messages_in[0].parts[0].id == step.messages_in[1].parts[0].id == "c1"
    assert step.messages_out[0].parts[0].content == "done"


def test_a_response_object_gives_its_id_and_the_messages_that_are_not_flattened():
    body = {"id": "resp_1", "output": [{"type": "message", "role": "assistant", "content": "done"}]}
    step = only(one(span(1, attributes={**LLM, "output.value": json.dumps(body)})), "model_call")
    assert step.model.response_id == "resp_1"
    assert step.messages_out[0].parts[0].content == "done"


def test_a_cut_response_object_still_gives_its_id():
    attributes = {**LLM, "output.value": '{"id":"chatcmpl-1","choices":[{"finish'}
    assert only(one(span(1, attributes=attributes)), "model_call").model.response_id == "chatcmpl-1"


def test_langchain_results_give_their_response_id():
    inner = {"kwargs": {"content": "x", "response_metadata": {"id": "chatcmpl-2"}}}
    attributes = {**LLM, "output.value": json.dumps({"generations": [[{"message": inner}]]})}
    assert only(one(span(1, attributes=attributes)), "model_call").model.response_id == "chatcmpl-2"


SCHEMA = json.dumps({"type": "object", "properties": {"order": {"type": "string"}}})


@pytest.mark.parametrize(
    ("given", "parameters", "arguments"),
    [
        ('{"order": "A"}', SCHEMA, {"order": "A"}),
        ('{"order": "A"}', '{"order": "B"}', {"order": "A"}),
        (None, '{"order": "B"}', {"order": "B"}),
        (None, SCHEMA, None),
        ('{"args": [], "kwargs": {"order": "A"}}', None, {"order": "A"}),
        (
            '{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"order": "A"}}',
            None,
            {"order": "A"},
        ),
        ("A-1001", None, "A-1001"),
    ],
)
def test_arguments_are_the_input_and_never_a_schema(given, parameters, arguments):
    attributes = {"tool__name": "t"}
    if given is not None:
        attributes["input__value"] = given
    if parameters is not None:
        attributes["tool__parameters"] = parameters
    assert only(one(oi("TOOL", **attributes)), "tool_call").tool.arguments == arguments


def test_a_dumped_tool_message_is_unwrapped():
    dump = {
        "type": "tool",
        "data": {"content": '{"a": 1}', "tool_call_id": "c1", "status": "error"},
    }
    step = only(one(oi("TOOL", output__value=json.dumps(dump))), "tool_call")
    assert (step.tool.result, step.tool.call_id, step.status) == ({"a": 1}, "c1", "error")


def test_a_tool_named_handoff_is_a_handoff():
    step = only(one(oi("TOOL", "handoff to b", input__value="a", output__value="b")), "handoff")
    assert step.attributes == {"handoff.from": "a", "handoff.to": "b"}


def test_a_chain_is_the_agent_only_where_its_metadata_says_so():
    metadata = json.dumps({"lc_agent_name": "refunds", "thread_id": "t7"})
    trace = one(oi("CHAIN", "refunds", metadata=metadata))
    assert only(trace, "agent").agent.name == "refunds"
    assert trace.conversation_id == "t7"
    assert only(one(oi("CHAIN", "tools", metadata=metadata)), "other").subtype == "step"
