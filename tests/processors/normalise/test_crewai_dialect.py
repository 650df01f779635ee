"""CrewAI: the crew is the run, transcripts tell of calls, tools have the name the model knows."""

import json

from telemetry_rig import chat, one, only, span, steps

MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_abcdefghijkl",
                "type": "function",
                "function": {"name": "find", "arguments": '{"id": 7}'},
            }
        ],
    },
    {"role": "tool", "content": "{'n': 1}", "tool_call_id": "call_abcdefghijkl", "name": "find"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_mnopqrstuvwx",
                "type": "function",
                "function": {"name": "pay", "arguments": '{"id": 7}'},
            }
        ],
    },
    {"role": "tool", "content": "Error executing tool: no", "tool_call_id": "call_mnopqrstuvwx"},
    {"role": "assistant", "content": "Done [now]."},
]


def openllmetry(output):
    scope = "opentelemetry.instrumentation.crewai.instrumentation"
    crew = {
        "gen_ai.operation.name": "invoke_agent",
        "crewai.crew.id": "c",
        "crewai.crew.name": "desk",
        "crewai.crew.result": "Done [now].",
        "crewai.crew.tasks_output": output,
        "crewai.crew.token_usage": "total_tokens=60 prompt_tokens=50 completion_tokens=10",
    }
    task = {
        "traceloop.span.kind": "task",
        "gen_ai.operation.name": "invoke_agent",
        "crewai.task.id": "t",
    }
    who = {
        "traceloop.span.kind": "agent",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Clerk",
    }
    return (
        span(1, "crewai.workflow", attributes=crew, took=50, scope=scope),
        span(2, "the task.task", attributes=task, parent=1, took=40, scope=scope),
        span(3, "Clerk.agent", attributes=who, parent=2, took=30, scope=scope),
    )


def written():
    fields = (
        "description='A (b] {c'",
        'raw="it\'s ["',
        "agent='Clerk'",
        "output_format=<OutputFormat.RAW: 'raw'>",
        f"messages={MESSAGES!r}",
        "tool_failures=[Failure(reason=<Why.X: 'x'>)]",
    )
    return f"[TaskOutput({', '.join(fields)})]"


def test_a_crew_without_spans_of_its_calls_tells_of_them():
    trace = one(*openllmetry(written()))
    first, second = steps(trace, "tool_call")
    assert (first.tool.name, first.tool.arguments, first.tool.result) == (
        "find",
        {"id": 7},
        {"n": 1},
    )
    assert (second.tool.name, second.status) == ("pay", "error")
    assert len(steps(trace, "model_call")) == 3
    assert trace.final_output == "Done [now]."
    assert (trace.usage_total.input, trace.usage_total.output) == (50, 10)
    assert steps(trace, "model_call")[0].agent.name == "Clerk"


def test_spans_of_the_calls_are_heard_instead():
    trace = one(*openllmetry(written()), chat(4, parent=3, at=1))
    assert len(steps(trace, "model_call")) == 1
    assert not steps(trace, "tool_call")


def test_outputs_cut_short_tell_nothing():
    trace = one(*openllmetry(written()[:200]))
    assert not steps(trace, "tool_call")
    assert trace.final_output == "Done [now]."


def openinference(number, name, kind, **attributes):
    place = attributes.pop("place")
    attributes["openinference.span.kind"] = kind
    return span(
        number, name, attributes=attributes, scope="openinference.instrumentation.crewai", **place
    )


def test_executions_answer_what_the_transcript_asked_for():
    output = json.dumps(
        {"raw": "Done [now].", "agent": "Clerk", "messages": MESSAGES[:3] + MESSAGES[5:]}
    )
    crew = json.dumps(
        {"raw": "Done [now].", "token_usage": {"prompt_tokens": 50, "completion_tokens": 10}}
    )
    trace = one(
        openinference(
            1,
            "desk.kickoff",
            "CHAIN",
            crew_agents="[]",
            **{"output.value": crew},
            place={"took": 50},
        ),
        openinference(
            2,
            "Clerk._execute_core",
            "AGENT",
            **{"graph.node.id": "Clerk", "output.value": output},
            place={"parent": 1, "took": 40},
        ),
        openinference(
            3,
            "find.run",
            "TOOL",
            **{"tool.name": "find", "input.value": '{"id": 7}', "output.value": '{"n": 1}'},
            place={"parent": 2, "at": 20},
        ),
    )
    step = only(trace, "tool_call")
    assert step.tool.call_id == "call_abcdefghijkl"
    assert trace.final_output == "Done [now]."
    assert (trace.usage_total.input, trace.usage_total.output) == (50, 10)
    order = [found.kind for found in trace.steps if found.kind in ("model_call", "tool_call")]
    assert order == ["model_call", "tool_call", "model_call"]


def test_a_tool_has_the_name_that_the_model_knows():
    described = "Tool Name: delegate_work\nTool Arguments: {}"
    shown = {"tool.name": "Delegate work", "tool.description": described, "input.value": "{}"}
    tool = openinference(1, "Delegate work.run", "TOOL", **shown, place={})
    assert only(one(tool), "tool_call").tool.name == "delegate_work"
