"""LlamaIndex: a dumped ToolOutput is a tool call, preparing is no model call."""

import json

from telemetry_rig import one, only, span, steps

OI = "openinference.instrumentation.llama_index"
TL = "opentelemetry.instrumentation.llamaindex"


def output(**more):
    return {
        "blocks": [{"text": "{'n': 1}"}],
        "tool_name": "find",
        "raw_input": {"args": [], "kwargs": {"id": 7}},
        "raw_output": {"n": 1},
        "is_error": False,
        **more,
    }


def test_openinferences_tool_output_is_opened():
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "find"}
    attributes["input.value"] = '{"kwargs": {"id": 7}}'
    attributes["output.value"] = json.dumps(output())
    found = only(one(span(1, "FunctionTool.acall", attributes=attributes, scope=OI)), "tool_call")
    assert (found.tool.arguments, found.tool.result) == ({"id": 7}, {"n": 1})


def test_a_failed_tool_output_is_an_error_with_its_words():
    dumped = output(blocks=[{"text": "no such order"}], raw_output="KeyError()", is_error=True)
    attributes = {"openinference.span.kind": "TOOL", "output.value": json.dumps(dumped)}
    found = only(one(span(1, "FunctionTool.acall", attributes=attributes, scope=OI)), "tool_call")
    assert (found.status, found.tool.result) == ("error", "no such order")


def test_openllmetrys_tasks_around_one_tool_are_one_call():
    event = {
        "tool_name": "find",
        "tool_kwargs": {"id": 7},
        "tool_id": "call_abcdefghijkl",
        "tool_output": output(),
    }
    run = {"result": {"response": {"blocks": [{"text": "Done."}]}, "current_agent_name": "clerk"}}

    def task(number, name, value, kind="task", **place):
        attributes = {"traceloop.span.kind": kind, "traceloop.entity.output": json.dumps(value)}
        return span(number, name, attributes=attributes, scope=TL, **place)

    trace = one(
        task(1, "FunctionAgent.workflow", run, kind="workflow", took=50),
        task(2, "BaseWorkflowAgent.task", event, parent=1, at=5, took=9),
        task(3, "FunctionTool.task", output(), parent=2, at=6),
    )
    step = only(trace, "tool_call")
    assert (step.tool.call_id, step.tool.arguments, step.tool.result) == (
        "call_abcdefghijkl",
        {"id": 7},
        {"n": 1},
    )
    assert trace.final_output == "Done."
    assert only(trace, "agent").agent.name == "clerk"


def test_preparing_a_request_is_no_model_call():
    attributes = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    trace = one(span(1, "OpenAI._prepare_chat_with_tools", attributes=attributes, scope=OI))
    assert not steps(trace, "model_call")


def test_a_python_objects_repr_is_no_answer():
    attributes = {
        "openinference.span.kind": "CHAIN",
        "output.value": "StopEvent(result=AgentOutput(response=Chat...",
    }
    assert one(span(1, "FunctionAgent.run", attributes=attributes, scope=OI)).final_output is None
