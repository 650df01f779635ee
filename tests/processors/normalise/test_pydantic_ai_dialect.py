"""Pydantic AI: what its versions call things, events on one attribute, deferral, results."""

import json

import pytest
from telemetry_rig import one, only, span

pytestmark = pytest.mark.requirement("NRM-01")


def pydantic(number, name, *, parent=None, at=0, **told):
    attributes = {key.replace("__", "."): value for key, value in told.items()}
    return span(
        number, name, parent=parent, at=at, took=2, scope="pydantic-ai", attributes=attributes
    )


def test_the_first_versions_names_and_tool_content_are_read():
    told = {"gen_ai__tool__name": "find", "gen_ai__tool__call__id": "c1"}
    trace = one(
        pydantic(1, "agent run", agent_name="helper", model_name="m", final_result="Done."),
        pydantic(2, "running 1 tool", parent=1, tools=["find"]),
        pydantic(3, "running tool", parent=2, tool_arguments='{"a":1}', tool_response="ok", **told),
    )
    step = only(trace, "tool_call")
    assert (step.tool.name, step.tool.arguments, step.tool.result) == ("find", {"a": 1}, "ok")
    assert only(trace, "agent").agent.name == "helper"
    assert trace.final_output == "Done."


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("gen_ai__usage", id="B1 pydantic-ai#3995 own keys"),
        pytest.param("gen_ai__aggregated_usage", id="B1 SCG#19 aggregated keys"),
    ],
)
def test_an_agents_tokens_are_a_sum_and_not_added(key):
    told = {f"{key}__input_tokens": 30, f"{key}__output_tokens": 6}
    own = {"gen_ai__usage__input_tokens": 30, "gen_ai__usage__output_tokens": 6}
    trace = one(
        pydantic(
            1, "agent run", agent_name="helper", gen_ai__operation__name="invoke_agent", **told
        ),
        pydantic(2, "chat m", parent=1, gen_ai__operation__name="chat", **own),
    )
    assert (trace.usage_total.input, trace.usage_total.output) == (30, 6)
    assert only(trace, "agent").usage.scope == "aggregated"


@pytest.mark.parametrize(
    ("deferral", "code"),
    [("CallDeferred", 0), ("ApprovalRequired", 2)],
    ids=["unset since 5", "an error before"],
)
def test_a_deferred_call_is_deferred(deferral, code):
    found = span(
        1,
        "execute_tool find",
        scope="pydantic-ai",
        status_code=code,
        attributes={"gen_ai.tool.name": "find", "pydantic_ai.tool.deferral.name": deferral},
    )
    assert only(one(found), "tool_call").status == "deferred"


@pytest.mark.parametrize(
    "role",
    [
        pytest.param("user", id="B39 pydantic-ai#7235 role user"),
        pytest.param("tool", id="role tool"),
    ],
)
def test_a_tool_result_has_the_role_tool_whatever_was_written(role):
    answer = {"type": "tool_call_response", "id": "c1", "name": "find", "result": "ok"}
    told = {
        "gen_ai__operation__name": "chat",
        "gen_ai__input__messages": json.dumps([{"role": role, "parts": [answer]}]),
    }
    step = only(one(pydantic(1, "chat m", **told)), "model_call")
    assert [(m.role, m.parts[0].content) for m in step.messages_in] == [("tool", "ok")]


def test_events_kept_as_one_attribute_are_messages():
    function = {"name": "find", "arguments": '{"a": 1}'}
    listed = [
        {"event.name": "gen_ai.user.message", "role": "user", "content": "hi"},
        {
            "event.name": "gen_ai.choice",
            "index": 0,
            "message": {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
        },
    ]
    told = {"gen_ai__operation__name": "chat", "events": json.dumps(listed)}
    step = only(one(pydantic(1, "chat m", **told)), "model_call")
    assert step.messages_in[0].parts[0].content == "hi"
    assert step.messages_out[0].parts[0].name == "find"


def test_a_structured_result_is_no_answer_in_words():
    trace = one(pydantic(1, "agent run", agent_name="helper", final_result='{"ok": true}'))
    assert trace.final_output is None
    assert only(trace, "agent").output == '{"ok": true}'
