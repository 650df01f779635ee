"""The conventions up to 1.36: messages as records or events, in order of time."""

import json
from itertools import permutations

import pytest
from telemetry_rig import event, log, one, only, span

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"}
CALLS = [{"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"a": 1}'}}]
RECORDS = [
    log(1, "gen_ai.system.message", {"content": "be kind"}, at=0),
    log(1, "gen_ai.user.message", {"content": "hi"}, at=0),
    log(1, "gen_ai.assistant.message", {"tool_calls": CALLS}, at=1),
    log(1, "gen_ai.tool.message", {"id": "c1", "content": "found"}, at=2),
    log(
        1,
        "gen_ai.choice",
        {"index": 0, "finish_reason": "stop", "message": {"content": "ok"}},
        at=3,
    ),
]


def roles(step):
    return [message.role for message in step.messages_in]


@pytest.mark.requirement("NRM-02")
@pytest.mark.requirement("NRM-04")
def test_records_become_messages_in_order_of_time_whatever_their_arrival():
    expected = only(one(span(1, attributes=CHAT), *RECORDS), "model_call")
    assert roles(expected) == ["system", "user", "assistant", "tool"]
    assert expected.messages_out[0].finish_reason == "stop"
    for order in permutations(RECORDS):
        assert only(one(*order, *order[:2], span(1, attributes=CHAT)), "model_call") == expected


def test_records_whose_span_never_came_are_a_model_call_of_their_own():
    trace = one(*RECORDS)
    step = only(trace, "model_call")
    assert roles(step) == ["system", "user", "assistant", "tool"]
    assert trace.completeness == "missing_root"


def test_a_body_may_be_a_json_string():
    record = log(1, "gen_ai.user.message", '{"content": "hi"}')
    assert roles(only(one(span(1, attributes=CHAT), record), "model_call")) == ["user"]


def test_records_without_bodies_say_that_content_is_absent():
    step = only(one(span(1, attributes=CHAT), log(1, "gen_ai.user.message")), "model_call")
    assert step.messages_in is None
    assert step.content_state["messages_in"] == "absent"


def test_span_events_hold_bedrock_blocks():
    choice = event(
        "gen_ai.choice",
        message=json.dumps([{"toolUse": {"toolUseId": "c1", "name": "t", "input": {}}}]),
    )
    user = event("gen_ai.user.message", content=json.dumps([{"text": "hi"}]))
    step = only(one(span(1, attributes=CHAT, events=(user, choice))), "model_call")
    assert step.messages_in[0].parts[0].content == "hi"
    assert step.messages_out[0].parts[0].name == "t"


def test_on_a_tool_the_events_are_what_it_was_given_and_gave_back():
    events = (
        event("gen_ai.tool.message", content='{"a": 1}', id="c1"),
        event("gen_ai.choice", message=json.dumps([{"text": '{"b": 2}'}])),
    )
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}
    made = only(one(span(1, attributes=attributes, events=events)), "tool_call").tool
    assert (made.call_id, made.arguments, made.result) == ("c1", {"a": 1}, {"b": 2})


def test_the_oldest_shape_has_prompt_and_completion_events():
    events = (
        event("gen_ai.content.prompt", **{"gen_ai.prompt": '[{"role": "user", "content": "hi"}]'}),
        event(
            "gen_ai.content.completion",
            **{"gen_ai.completion": '[{"role": "assistant", "content": "ok"}]'},
        ),
    )
    step = only(one(span(1, attributes=CHAT, events=events)), "model_call")
    assert (step.messages_in[0].role, step.messages_out[0].role) == ("user", "assistant")


def test_old_token_names_count_and_make_a_client_span_a_model_call():
    attributes = {"gen_ai.usage.prompt_tokens": "12", "gen_ai.usage.completion_tokens": 3}
    step = only(one(span(1, kind=3, attributes=attributes)), "model_call")
    assert (step.usage.input, step.usage.output) == (12, 3)
