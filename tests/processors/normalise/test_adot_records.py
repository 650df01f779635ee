"""ADOT: content moved from the span to a record with its ids is the span's again."""

import json

import pytest
from telemetry_rig import chat, log, one, only, span, tool


def content(given, gave):
    return {"input": {"messages": given}, "output": {"messages": gave}}


def bare(number, **place):
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.output_tokens": 3,
    }
    return span(number, "chat m", kind=3, attributes=attributes, **place)


@pytest.mark.parametrize("at", [-600_000, 600_000])
@pytest.mark.requirement("NRM-04")
def test_b48_content_of_a_record_minutes_apart_is_the_spans(at):
    body = content([{"role": "user", "content": "hi"}], [{"role": "unknown", "content": "Done."}])
    record = log(1, "opentelemetry.instrumentation.x", body, at=at)
    for items in ((bare(1), record), (record, bare(1))):
        step = only(one(*items), "model_call")
        assert [(m.role, m.parts[0].content) for m in step.messages_in] == [("user", "hi")]
        assert [(m.role, m.parts[0].content) for m in step.messages_out] == [("assistant", "Done.")]


def test_a_frameworks_dump_inside_the_content_is_opened():
    dump = {
        "generations": [
            [
                {
                    "text": "",
                    "message": {
                        "type": "ai",
                        "data": {
                            "content": "",
                            "tool_calls": [
                                {"name": "find", "args": {"id": 7}, "id": "call_abcdefghijkl"}
                            ],
                        },
                    },
                }
            ]
        ]
    }
    body = content(
        [{"role": "user", "content": "hi"}], [{"role": "assistant", "content": json.dumps(dump)}]
    )
    step = only(one(bare(1), log(1, "x", body)), "model_call")
    part = step.messages_out[0].parts[0]
    assert (part.type, part.name, part.content, part.id) == (
        "tool_call",
        "find",
        {"id": 7},
        "call_abcdefghijkl",
    )


def test_on_a_tools_span_the_record_holds_arguments_and_result():
    body = content(
        [{"role": "user", "content": '{"id": 7}'}], [{"role": "assistant", "content": '{"n": 1}'}]
    )
    step = only(one(tool(1, "find"), log(1, "x", body)), "tool_call")
    assert (step.tool.arguments, step.tool.result) == ({"id": 7}, {"n": 1})


def test_content_that_the_span_kept_wins():
    kept = chat(1, said=[{"role": "assistant", "parts": [{"type": "text", "content": "mine"}]}])
    step = only(
        one(kept, log(1, "x", content([], [{"role": "assistant", "content": "other"}]))),
        "model_call",
    )
    assert step.messages_out[0].parts[0].content == "mine"


def test_a_span_whose_content_went_nowhere_says_absent():
    step = only(one(bare(1)), "model_call")
    assert step.content_state == {"messages_in": "absent", "messages_out": "absent"}


@pytest.mark.parametrize("there", [True, False])
def test_content_tells_what_a_span_without_words_or_no_span_at_all_was(there):
    answered = {
        "name": "find",
        "type": "tool",
        "content": "rain",
        "tool_call_id": "tc_01",
        "status": "success",
    }
    body = content(
        [{"role": "user", "content": "{'id': 7}"}],
        [{"role": "assistant", "content": json.dumps(answered)}],
    )
    items = (log(1, "x", body), *((span(1, "find"),) if there else ()))
    found = only(one(*items), "tool_call").tool
    assert (found.name, found.arguments, found.result) == ("find", {"id": 7}, "rain")
    assert found.call_id == "tc_01"
