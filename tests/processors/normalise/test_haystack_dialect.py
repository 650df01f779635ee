"""Haystack: steps and components, replies with meta, OpenInference's reprs of messages."""

import json

import pytest
from telemetry_rig import one, only, span, steps

META = {
    "model": "m1",
    "finish_reason": "tool_calls",
    "usage": {"prompt_tokens": 12, "completion_tokens": 3},
}
CALL = {"tool_call": {"tool_name": "find", "arguments": {"id": 7}, "id": "call_abcdefghijkl"}}
ASKED = {"role": "assistant", "meta": META, "name": None, "content": [{"text": "Let me."}, CALL]}
RESULT = {"tool_call_result": {"result": "{'n': 1}", "origin": CALL["tool_call"], "error": False}}
ANSWERED = {"role": "tool", "meta": {}, "content": [RESULT]}
SAID = {"role": "assistant", "meta": {}, "content": [{"text": "Done."}]}


def hay(number, name, attributes=None, **place):
    plain = {
        k: v if isinstance(v, str | bool) else json.dumps(v) for k, v in (attributes or {}).items()
    }
    return span(number, name, attributes=plain, scope="haystack", **place)


def test_an_agents_steps_are_its_calls():
    llm, tool = "haystack.agent.step.llm", "haystack.agent.step.tool"
    trace = one(
        hay(
            1,
            "haystack.agent.run",
            {"haystack.agent.output": {"messages": [ASKED, ANSWERED, SAID]}},
            took=50,
        ),
        hay(2, "haystack.agent.step", {"haystack.agent.step": "0"}, parent=1, took=20),
        hay(
            3,
            llm,
            {llm + ".input": {"messages": []}, llm + ".output": {"replies": [ASKED]}},
            parent=2,
        ),
        hay(
            4,
            tool,
            {"haystack.tool.name": "find", tool + ".input": {"id": 7}, tool + ".output": {"n": 1}},
            parent=2,
            at=5,
        ),
    )
    model = only(trace, "model_call")
    assert (model.model.response_model, model.usage.input, model.model.finish_reasons) == (
        "m1",
        12,
        ("tool_call",),
    )
    step = only(trace, "tool_call")
    assert (step.tool.call_id, step.tool.arguments, step.tool.result) == (
        "call_abcdefghijkl",
        {"id": 7},
        {"n": 1},
    )
    assert trace.final_output == "Done."


def test_b7_a_tools_arguments_are_its_own_and_not_the_history():
    components = (
        hay(1, "haystack.agent.run", {}, took=60),
        hay(
            2,
            "haystack.component.run",
            {
                "haystack.component.type": "OpenAIChatGenerator",
                "haystack.component.output": {"replies": [ASKED]},
            },
            parent=1,
        ),
        hay(
            3,
            "haystack.component.run",
            {
                "haystack.component.type": "ToolInvoker",
                "haystack.component.input": {"messages": [ASKED]},
            },
            parent=1,
            at=5,
        ),
        hay(
            4,
            "haystack.component.run",
            {
                "haystack.component.type": "OpenAIChatGenerator",
                "haystack.component.input": {"messages": [ASKED, ANSWERED]},
                "haystack.component.output": {"replies": [SAID]},
            },
            parent=1,
            at=9,
        ),
    )
    step = only(one(*components), "tool_call")
    assert (step.tool.arguments, step.tool.result) == ({"id": 7}, {"n": 1})


@pytest.mark.requirement("NRM-01")
def test_b40_a_tools_error_flag_is_an_error_without_any_status():
    tool = hay(
        1, "haystack.agent.step.tool", {"haystack.tool.name": "find", "haystack.tool.error": True}
    )
    assert only(one(tool), "tool_call").status == "error"


@pytest.mark.parametrize(
    ("component", "kind"), [("InMemoryBM25Retriever", "retrieval"), ("PromptBuilder", "other")]
)
def test_a_component_is_what_its_type_ends_in(component, kind):
    found = one(hay(1, "haystack.component.run", {"haystack.component.type": component}))
    assert found.steps[0].kind == kind


def dumped(role, content, meta="{}"):
    spoken = f"<ChatRole.{role.upper()}: '{role}'>"
    return f"ChatMessage(_role={spoken}, _content=[{content}], _name=None, _meta={meta})"


def reprs():
    call = "ToolCall(tool_name='find', arguments={'id': 7}, id='call_abcdefghijkl', extra=None)"
    answer = f"ToolCallResult(result='{{\"n\": 1}}', origin={call}, error=False)"
    usage = "{'usage': {'prompt_tokens': 20, 'completion_tokens': 4}}"
    return [
        dumped("user", "TextContent(text='hi')"),
        dumped("assistant", f'TextContent(text="it\'s <b>"), {call}', repr(META)),
        dumped("tool", answer),
        dumped("assistant", "TextContent(text='Done.')", usage),
    ]


def test_openinferences_agent_tells_of_calls_that_have_no_spans():
    attributes = {
        "openinference.span.kind": "CHAIN",
        "output.value": json.dumps({"messages": reprs()}),
    }
    trace = one(
        span(1, "Agent.run", attributes=attributes, scope="openinference.instrumentation.haystack")
    )
    step = only(trace, "tool_call")
    assert (step.tool.arguments, step.tool.result) == ({"id": 7}, {"n": 1})
    assert [call.usage.input for call in steps(trace, "model_call")] == [12, 20]
    assert trace.final_output == "Done."
