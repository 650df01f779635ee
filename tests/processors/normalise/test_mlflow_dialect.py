"""MLflow: JSON-encoded attributes, sentinels, lost stream calls, its GenAI mode."""

import json

import pytest
from telemetry_rig import event, one, only, span, steps

pytestmark = pytest.mark.requirement("NRM-01")


def traced(
    number, kind, *, given=None, result=None, name="work", parent=None, at=0, events=(), **more
):
    told = {f"mlflow.{key}": json.dumps(value) for key, value in more.items()}
    if kind is not None:
        told["mlflow.spanType"] = json.dumps(kind)
    if given is not None:
        told["mlflow.spanInputs"] = json.dumps(given)
    if result is not None:
        told["mlflow.spanOutputs"] = json.dumps(result)
    return span(number, name, parent=parent, at=at, took=2, attributes=told, events=events)


def completion(**message):
    return {
        "id": "chatcmpl-1",
        "model": "m-2026",
        "choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", **message}}],
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("TOOL", ("tool_call", None), id="quoted"),
        pytest.param("null", ("other", None), id="B31 mlflow#21307 null kind"),
        pytest.param("", ("other", None), id="B31 mlflow#24237 empty kind"),
        pytest.param(None, ("other", None), id="no kind"),
        pytest.param("RERANKER", ("retrieval", "rerank"), id="reranker"),
        pytest.param("SOMETHING_NEW", ("other", None), id="unknown kind"),
    ],
)
def test_the_kind_is_decoded_and_sentinels_are_none(kind, expected):
    step = one(traced(1, kind, given={"a": 1})).steps[0]
    assert step.kind == expected[0]
    assert step.subtype == expected[1] or expected[1] is None


@pytest.mark.parametrize("result", [0, False, [], {}, ""], ids=repr)
def test_falsy_results_are_results(result):
    assert only(one(traced(1, "TOOL", result=result)), "tool_call").tool.result == result


def test_a_chat_model_tells_its_response():
    call = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"a": 1}'}}
    tokens = {
        "input_tokens": 194,
        "output_tokens": 28,
        "total_tokens": 222,
        "cache_read_input_tokens": 64,
    }
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    found = traced(
        1,
        "CHAT_MODEL",
        given=request,
        result=completion(tool_calls=[call]),
        **{"llm.model": "m-2026", "chat.tokenUsage": tokens},
    )
    step = only(one(found), "model_call")
    assert (step.model.response_id, step.model.response_model) == ("chatcmpl-1", "m-2026")
    assert step.model.finish_reasons == ("tool_call",)
    assert (step.usage.input, step.usage.output, step.usage.cache_read) == (194, 28, 64)
    assert step.messages_out[0].parts[0].id == "c1"


def test_responses_and_their_instructions_are_read():
    request = {
        "model": "m",
        "instructions": "be kind",
        "input": [{"role": "user", "content": "hi"}],
    }
    item = {
        "type": "function_call",
        "call_id": "call_1",
        "id": "fc_1",
        "name": "t",
        "arguments": "{}",
    }
    reply = {"id": "resp_1", "output": [item]}
    step = only(one(traced(1, "CHAT_MODEL", given=request, result=reply)), "model_call")
    assert [message.role for message in step.messages_in] == ["system", "user"]
    assert step.messages_out[0].parts[0].name == "t"


def openai_chunks():
    def delta(**fields):
        return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}

    def part(**fields):
        return delta(tool_calls=[{"index": 0, **fields}])

    return [
        delta(role="assistant", content="Let me "),
        delta(content="see."),
        part(id="c1", function={"name": "t", "arguments": ""}),
        part(function={"arguments": '{"a":'}),
        part(function={"arguments": " 1}"}),
    ]


def anthropic_chunks():
    def piece(**delta):
        return {"type": "content_block_delta", "index": delta.pop("index"), "delta": delta}

    return [
        piece(index=0, type="text_delta", text="Let me see."),
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "c1", "name": "t"},
        },
        piece(index=1, type="input_json_delta", partial_json='{"a":'),
        piece(index=1, type="input_json_delta", partial_json=" 1}"),
    ]


def responses_chunks():
    text = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Let me see."}],
    }
    call = {"type": "function_call", "call_id": "c1", "name": "t", "arguments": '{"a": 1}'}
    return [{"type": "response.output_item.done", "item": item} for item in (text, call)]


@pytest.mark.parametrize(
    "chunks",
    [openai_chunks(), anthropic_chunks(), responses_chunks()],
    ids=["chat", "messages", "responses"],
)
def test_calls_that_a_stream_lost_come_back_from_its_chunks(chunks):
    events = tuple(
        event(f"mlflow.chunk.item.{n}", **{"mlflow.chunk.value": json.dumps(chunk)})
        for n, chunk in enumerate(chunks)
    )
    found = traced(1, "CHAT_MODEL", result=completion(content="", tool_calls=None), events=events)
    parts = [part for m in only(one(found), "model_call").messages_out for part in m.parts]
    assert [part.content for part in parts] == ["Let me see.", '{"a": 1}']
    assert (parts[1].id, parts[1].name) == ("c1", "t")


def test_an_untyped_function_is_a_tool_where_a_model_asked_for_it():
    call = {"id": "c1", "function": {"name": "find", "arguments": '{"order": "A-1"}'}}
    trace = one(
        traced(1, "AGENT", name="helper"),
        traced(2, "CHAT_MODEL", parent=1, at=1, result=completion(tool_calls=[call])),
        traced(
            3,
            "UNKNOWN",
            parent=1,
            at=4,
            name="find",
            given={"order": "A-1"},
            result=1,
            spanFunctionName="find",
        ),
        traced(
            4,
            "UNKNOWN",
            parent=1,
            at=7,
            name="find",
            given={"order": "B-2"},
            spanFunctionName="find",
        ),
    )
    step = only(trace, "tool_call")
    assert (step.tool.arguments, step.tool.result) == ({"order": "A-1"}, 1)
    assert len(steps(trace, "other")) == 1


def test_langgraphs_handover_is_no_failure():
    moved = event(
        "exception",
        **{"exception.type": "ParentCommand", "exception.message": "Command(graph='x')"},
    )
    found = traced(1, "CHAIN", events=(moved,))
    assert one(found).steps[0].status == "unset"
