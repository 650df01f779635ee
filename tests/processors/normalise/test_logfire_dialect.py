"""Logfire: functions that are tools, replies of streams, request data of older versions."""

import json

import pytest
from telemetry_rig import asked, call, chat, one, only, span, steps

pytestmark = pytest.mark.requirement("NRM-01")


def function(number, name, arguments, *, result=None, at=0, template=None, **more):
    properties = {
        key: {"type": "object"} if isinstance(value, dict) else {}
        for key, value in arguments.items()
    }
    told = {
        key: json.dumps(value) if isinstance(value, dict) else value
        for key, value in arguments.items()
    }
    if result is not None:
        told["return"], properties["return"] = json.dumps(result), {"type": "object"}
    told |= {
        "code.function": name,
        "logfire.msg_template": template or f"Calling {name}",
        "logfire.json_schema": json.dumps({"type": "object", "properties": properties}),
        "logfire.span_type": "span",
    }
    return span(
        number,
        template or f"Calling {name}",
        parent=1 if number > 1 else None,
        at=at,
        scope="logfire",
        attributes=told,
        **more,
    )


def model(number, *, at=1, **more):
    return chat(number, at=at, took=2, parent=1, scope="logfire.openai", **more)


def root():
    return span(1, "run {ticket=}", took=90, scope="logfire", attributes={"ticket": "T-1"})


def test_a_function_that_a_model_asked_for_is_its_tool_call():
    arguments = {"order": "A-1", "filter": {"open": True}}
    trace = one(
        root(),
        model(2, said=[asked(call("c1", "find", arguments))]),
        function(3, "Shop.find", arguments, result={"ok": 1}, at=5),
        function(4, "Shop.find", {"order": "B-2", "filter": {}}, at=8),
        function(5, "other", arguments, at=9),
    )
    step = only(trace, "tool_call")
    assert (step.tool.name, step.tool.arguments, step.tool.result) == ("find", arguments, {"ok": 1})
    assert (step.tool.call_id, step.sources[0].kind) == ("c1", "span")
    assert {step.name for step in steps(trace, "other")} == {
        "run {ticket=}",
        "Calling Shop.find",
        "Calling other",
    }


def test_a_function_that_raised_is_a_failed_call():
    trace = one(
        root(),
        model(2, said=[asked(call("c1", "find", {"order": "A-1"}))]),
        function(
            3, "find", {"order": "A-1"}, at=5, status_code=2, status_message="TimeoutError: late"
        ),
    )
    step = only(trace, "tool_call")
    assert (step.status, step.error.message) == ("error", "TimeoutError: late")


def streamed(number, at, reply):
    told = {
        "gen_ai.output.messages": json.dumps(reply),
        "logfire.span_type": "log",
        "request_data": "{}",
    }
    return model(number, at=at, said=(), tokens=(10, 2), attributes=told)


def opened(number, at):
    found = model(number, at=at, tokens=None)
    del found.attributes["gen_ai.output.messages"]
    found.attributes["logfire.span_type"] = "span"
    return found


def test_the_reply_of_a_stream_belongs_to_the_call_before_it():
    trace = one(
        root(),
        opened(2, 1),
        streamed(3, 9, [asked(call("c1", "find", {}))]),
        opened(4, 20),
        streamed(5, 29, [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]),
    )
    calls = steps(trace, "model_call")
    assert [len(step.sources) for step in calls] == [2, 2]
    assert trace.usage_total.input == 20
    assert trace.final_output == "Done."
    assert calls[0].end_ns - calls[0].start_ns == 10_000_000


def test_request_and_response_data_of_older_versions_are_read():
    function_call = {
        "id": "c1",
        "function": {"name": "find", "arguments": "{}"},
        "type": "function",
    }
    told = {
        "request_data": json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        "response_data": json.dumps(
            {
                "message": {"role": "assistant", "content": None, "tool_calls": [function_call]},
                "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
            }
        ),
        "gen_ai.request.model": "m",
        "logfire.span_type": "span",
    }
    step = only(one(span(1, "Chat Completion with 'm'", attributes=told)), "model_call")
    assert step.messages_in[0].parts[0].content == "hi"
    assert step.messages_out[0].parts[0].name == "find"
    assert step.usage.input == 5


@pytest.mark.parametrize(
    ("template", "kind"),
    [
        ("tool find", "tool_call"),
        ("run tool `find`", "tool_call"),
        ("find toolbox", "other"),
        ("tool x", "other"),
    ],
)
def test_a_template_that_calls_the_function_a_tool_is_enough(template, kind):
    assert one(function(1, "Shop.find", {"a": 1}, template=template)).steps[0].kind == kind
