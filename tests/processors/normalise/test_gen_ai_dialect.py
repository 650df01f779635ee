"""The newest GenAI conventions, on spans, on events and on log records."""

import json

import pytest
from telemetry_rig import (
    agent,
    answer,
    asked,
    call,
    chat,
    event,
    log,
    one,
    only,
    span,
    steps,
    text,
    tool,
)

CALL = call("call_0123456789ab", "look_up", {"id": 1})
DETAILS = "gen_ai.client.inference.operation.details"


def test_a_model_call_has_model_tokens_and_messages():
    step = only(
        one(
            chat(
                1,
                shown=[text("user", "hi")],
                said=[{**asked(CALL), "finish_reason": "tool_call"}],
                attributes={
                    "gen_ai.response.model": "gpt-4o-mini-1",
                    "gen_ai.response.finish_reasons": '["tool_calls"]',
                    "gen_ai.usage.cache_read.input_tokens": "4",
                    "gen_ai.usage.reasoning.output_tokens": 1.0,
                    "gen_ai.system_instructions": '[{"type": "text", "content": "be kind"}]',
                },
            )
        ),
        "model_call",
    )
    assert step.model.provider == "openai"
    assert step.model.finish_reasons == ("tool_call",)
    usage = step.usage
    assert (usage.input, usage.output, usage.cache_read, usage.reasoning) == (10, 2, 4, 1)
    assert [message.role for message in step.messages_in] == ["system", "user"]
    assert step.messages_out[0].parts[0].name == "look_up"
    assert step.content_state == {"messages_in": "captured", "messages_out": "captured"}


@pytest.mark.requirement("NRM-05")
def test_content_that_was_not_captured_is_absent_not_empty():
    bare = span(1, attributes={"gen_ai.operation.name": "chat"})
    assert only(one(bare), "model_call").content_state == {
        "messages_in": "absent",
        "messages_out": "absent",
    }
    executed = only(one(tool(1, "look_up")), "tool_call")
    assert executed.content_state == {"arguments": "absent", "result": "absent"}
    assert executed.tool.arguments is None


@pytest.mark.parametrize("written", [{"id": 1}, '{"id": 1}', "{'id': 1}"])
def test_arguments_may_be_structured_or_text(written):
    attributes = {"gen_ai.tool.call.arguments": written}
    assert only(one(tool(1, "t", attributes=attributes)), "tool_call").tool.arguments == {"id": 1}


@pytest.mark.parametrize("result", [0, False, [], {}, ""])
def test_a_result_that_is_nothing_much_is_still_the_result(result):
    step = only(one(tool(1, "t", attributes={"gen_ai.tool.call.result": result})), "tool_call")
    assert step.tool.result == result
    assert step.tool.result is not None


@pytest.mark.requirement("NRM-02")
def test_a_details_record_gives_its_span_the_messages():
    bare = span(1, attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    record = log(
        1,
        DETAILS,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.output.messages": [text("assistant", "done")],
        },
    )
    step = only(one(bare, record), "model_call")
    assert step.messages_out[0].parts[0].content == "done"
    assert {source.kind for source in step.sources} == {"span", "log"}


def test_a_cut_attribute_is_recovered_from_a_whole_record():
    whole = json.dumps([text("assistant", "done " * 20)])
    cut = chat(1, attributes={"gen_ai.output.messages": whole[:40]})
    record = log(
        1, DETAILS, attributes={"gen_ai.request.model": "m", "gen_ai.output.messages": whole}
    )
    step = only(one(cut, record), "model_call")
    assert step.messages_out is not None
    assert step.content_state["messages_out"] == "recovered"
    alone = only(one(cut), "model_call")
    assert alone.messages_out is None
    assert alone.content_state["messages_out"] == "truncated"
    assert alone.attributes["gen_ai.output.messages"] == whole[:40]


def test_details_may_be_a_span_event():
    details = event(DETAILS, **{"gen_ai.output.messages": json.dumps([text("assistant", "done")])})
    step = only(
        one(span(1, attributes={"gen_ai.operation.name": "chat"}, events=(details,))), "model_call"
    )
    assert step.messages_out[0].parts[0].content == "done"


def test_a_summary_of_parallel_tools_is_no_tool_call():
    step = one(tool(1, "(merged tools)", call_id="event-1")).steps[0]
    assert (step.kind, step.subtype) == ("other", "noise")


def test_answers_of_either_key_reach_the_join():
    history = [
        asked(CALL),
        {
            "role": "user",
            "parts": [{"type": "tool_call_response", "id": CALL["id"], "result": "r"}],
        },
    ]
    trace = one(
        chat(1, said=[asked(CALL)], at=0), chat(2, shown=history, at=5), answer_free_agent()
    )
    assert only(trace, "tool_call").tool.result == "r"


def answer_free_agent():
    return span(9, "root", at=-1, took=20)


def test_answer_builder_and_message_agree():
    assert answer("c", 1)["parts"][0]["response"] == 1


def test_a_placeholder_for_every_agent_names_none():
    shown = {"gen_ai.agent.name": "OpenAI Agent", "gen_ai.agent.id": "agent"}
    turn = {"gen_ai.operation.name": "unknown", **shown}
    trace = one(
        agent(1, "clerk", took=20),
        span(2, "unknown", parent=1, took=9, attributes=turn),
        chat(3, parent=2, attributes=shown),
    )
    assert only(trace, "model_call").agent.name == "clerk"
    assert len(steps(trace, "agent")) == 1
