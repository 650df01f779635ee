"""Langfuse: observation types, dumped calls and messages, levels, token counts."""

import json

import pytest
from telemetry_rig import one, only, span, steps

pytestmark = pytest.mark.requirement("NRM-01")


def observation(number, kind, *, given=None, result=None, name="work", parent=None, at=0, **more):
    attributes = {"langfuse.observation.type": kind} if kind else {}
    for side, value in (("input", given), ("output", result)):
        if value is not None:
            attributes[f"langfuse.observation.{side}"] = (
                value if isinstance(value, str) else json.dumps(value)
            )
    attributes |= {f"langfuse.{key}": value for key, value in more.items()}
    return span(
        number, name, parent=parent, at=at, took=2, scope="langfuse-sdk", attributes=attributes
    )


def asked(name, arguments, call_id=None):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"args": [], "kwargs": {"a": 1}}, {"a": 1}),
        ({"args": [{"a": 1}], "kwargs": {}}, {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ({"args": [1], "kwargs": {"b": 2}}, {"args": [1], "kwargs": {"b": 2}}),
    ],
)
def test_arguments_of_a_decorated_tool_are_unwrapped(given, arguments):
    step = only(one(observation(1, "tool", given=given, name="t")), "tool_call")
    assert (step.tool.name, step.tool.arguments) == ("t", arguments)


def test_a_dumped_tool_message_is_its_content_and_names_the_call():
    dumped = {"content": '{"x": 1}', "type": "tool", "tool_call_id": "c9", "status": "success"}
    step = only(one(observation(1, "tool", given={}, result=dumped)), "tool_call")
    assert (step.tool.result, step.tool.call_id, step.status) == ({"x": 1}, "c9", "unset")


def test_a_dumped_tool_message_of_status_error_is_an_error():
    dumped = {"content": "boom", "type": "tool", "tool_call_id": "c9", "status": "error"}
    assert only(one(observation(1, "tool", given={}, result=dumped)), "tool_call").status == "error"


@pytest.mark.parametrize(
    ("level", "status"), [("ERROR", "error"), ("WARNING", "unset"), ("DEFAULT", "unset")]
)
def test_only_the_level_error_is_an_error(level, status):
    more = {"observation.level": level, "observation.status_message": "Command(graph='x')"}
    assert one(observation(1, "chain", **more)).steps[0].status == status


USAGES = [
    pytest.param(
        {"input": 167, "output": 25, "total": 264, "input_cache_read": 64, "output_reasoning": 8},
        (231, 33),
        id="parts apart",
    ),
    pytest.param(
        {"input": 157, "output": 15, "total": 180, "output_reasoning": 8},
        (157, 23),
        id="reasoning apart",
    ),
    pytest.param(
        {
            "prompt_tokens": 194,
            "completion_tokens": 28,
            "total_tokens": 222,
            "prompt_tokens_details": {"cached_tokens": 64},
        },
        (194, 28),
        id="as OpenAI writes it",
    ),
    pytest.param(
        {"input": 100, "output": 5, "cache_read_input_tokens": 20},
        (120, 5),
        id="as Anthropic counts",
    ),
    pytest.param({"input": 100, "output": 5}, (100, 5), id="nothing apart"),
]


@pytest.mark.parametrize(("details", "counts"), USAGES)
def test_token_counts_come_out_inclusive(details, counts):
    more = {"observation.usage_details": json.dumps(details)}
    usage = only(one(observation(1, "generation", **more)), "model_call").usage
    assert (usage.input, usage.output) == counts


@pytest.mark.parametrize(
    "details",
    [
        pytest.param('{"input": 1, "outp', id="B28 opik#5348 usage cut"),
        pytest.param('"none"', id="B28 opik#5348 usage no object"),
    ],
)
def test_malformed_usage_costs_only_the_usage(details):
    more = {"observation.usage_details": details, "observation.model.name": "m"}
    step = only(
        one(observation(1, "generation", result={"role": "assistant", "content": "hi"}, **more)),
        "model_call",
    )
    assert step.usage is None
    assert step.model.request_model == "m"
    assert step.messages_out[0].parts[0].content == "hi"


def test_tool_definitions_between_the_messages_are_no_messages():
    definition = {"role": "tool", "content": {"type": "function", "function": {"name": "t"}}}
    shown = [{"role": "user", "content": "hi"}, definition]
    step = only(one(observation(1, "generation", given=shown)), "model_call")
    assert [message.role for message in step.messages_in] == ["user"]


@pytest.mark.parametrize(
    "given",
    [
        {"messages": [{"role": "user", "content": "hi"}], "tools": []},
        [{"role": "user", "content": "hi"}],
        "hi",
    ],
)
def test_a_request_in_any_form_shows_its_messages(given):
    step = only(one(observation(1, "generation", given=given)), "model_call")
    assert step.messages_in[-1].parts[0].content == "hi"


@pytest.mark.parametrize("value", ["thread-7", '"thread-7"'], ids=["SDK 3", "SDK 5"])
def test_metadata_is_read_bare_and_quoted(value):
    found = observation(1, "agent", **{"observation.metadata.thread_id": value})
    assert one(found).conversation_id == "thread-7"


def test_a_plain_span_with_a_call_id_is_the_callbacks_tool():
    found = observation(
        1, "span", given={"a": 1}, name="t", **{"observation.metadata.tool_call_id": "c1"}
    )
    step = only(one(found), "tool_call")
    assert (step.tool.call_id, step.tool.arguments) == ("c1", {"a": 1})


def test_a_plain_decorated_function_is_a_tool_where_a_model_asked_for_it():
    call = {"args": ["A-1"], "kwargs": {}}
    trace = one(
        observation(1, "agent", name="helper"),
        observation(2, "generation", parent=1, at=1, result=asked("find", {"order": "A-1"})),
        observation(3, "span", parent=1, at=4, name="find", given=call, result={"ok": True}),
        observation(4, "span", parent=1, at=7, name="log", given=call),
    )
    step = only(trace, "tool_call")
    assert (step.tool.name, step.tool.arguments, step.tool.result) == (
        "find",
        {"order": "A-1"},
        {"ok": True},
    )
    assert [step.name for step in steps(trace, "other")] == ["log"]


def test_langgraph_agents_are_named_and_their_state_is_no_answer():
    state = {"messages": [{"type": "human", "content": "hi"}, {"type": "ai", "content": "done"}]}
    more = {"observation.metadata.lc_agent_name": '"helper"'}
    trace = one(observation(1, "chain", name="helper", result=state, **more))
    assert only(trace, "agent").agent.name == "helper"
    assert trace.final_output == "done"
