"""LangSmith's export: run types before operations, JSON of any run under the GenAI keys."""

import json

import pytest
from telemetry_rig import event, one, only, span, steps

pytestmark = pytest.mark.requirement("NRM-01")


def run(
    number, kind, *, operation=None, given=None, result=None, name="work", parent=None, at=0, **more
):
    told = {"langsmith.span.kind": kind, "gen_ai.system": "langchain"}
    if operation:
        told["gen_ai.operation.name"] = operation
    if given is not None:
        told["gen_ai.prompt"] = json.dumps(given)
    if result is not None:
        told["gen_ai.completion"] = json.dumps(result)
    events = more.pop("events", ())
    told |= {f"langsmith.{key}": value for key, value in more.items()}
    return span(number, name, parent=parent, at=at, took=2, attributes=told, events=events)


def dumped(kind, **kwargs):
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", kind],
        "kwargs": kwargs,
    }


@pytest.mark.parametrize(
    ("kind", "operation", "expected"),
    [
        pytest.param("retriever", "embeddings", "retrieval", id="a retriever is no embedding"),
        pytest.param("prompt", "chat", "other", id="a prompt is no model call"),
        pytest.param("chain", "chain", "other", id="a chain is glue"),
        pytest.param("tool", "execute_tool", "tool_call", id="a tool"),
        pytest.param("llm", "chat", "model_call", id="a model"),
        pytest.param("something", "chat", "other", id="a new run type"),
    ],
)
def test_the_run_type_decides_before_the_operation(kind, operation, expected):
    assert one(run(1, kind, operation=operation, given={"a": 1})).steps[0].kind == expected


def test_a_model_run_is_read_from_its_dumps():
    given = {
        "messages": [
            [dumped("SystemMessage", content="be kind"), dumped("HumanMessage", content="hi")]
        ]
    }
    answer = dumped(
        "AIMessage",
        content="",
        tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c1", "type": "tool_call"}],
        response_metadata={
            "id": "chatcmpl-1",
            "model_name": "m-2026",
            "finish_reason": "tool_calls",
        },
    )
    result = {"generations": [[{"text": "", "message": answer}]]}
    usage = json.dumps(
        {"input_tokens": 9, "output_tokens": 3, "input_token_details": {"cache_read": 4}}
    )
    step = only(
        one(run(1, "llm", given=given, result=result, **{"metadata.usage_metadata": usage})),
        "model_call",
    )
    assert [message.role for message in step.messages_in] == ["system", "user"]
    assert step.messages_out[0].parts[0].content == {"a": 1}
    assert (step.model.response_id, step.model.response_model) == ("chatcmpl-1", "m-2026")
    assert (step.usage.input, step.usage.cache_read) == (9, 4)


@pytest.mark.parametrize(
    ("given", "result", "expected"),
    [
        (
            {"a": 1},
            {"output": {"content": '{"x": 1}', "tool_call_id": "c1", "status": "success"}},
            ({"a": 1}, {"x": 1}, "c1"),
        ),
        ({"input": "{'a': 1}"}, {"output": "text"}, ({"a": 1}, "text", None)),
        ({"a": 1}, {"x": 2}, ({"a": 1}, {"x": 2}, None)),
    ],
)
def test_a_tools_json_is_arguments_and_result(given, result, expected):
    tool = only(one(run(1, "tool", given=given, result=result)), "tool_call").tool
    assert (tool.arguments, tool.result, tool.call_id) == expected


def test_a_failed_tools_empty_completion_is_no_result():
    failed = event(
        "exception", **{"exception.type": "Exception", "exception.message": "TimeoutError('x')"}
    )
    step = only(one(run(1, "tool", given={"a": 1}, result={}, events=(failed,))), "tool_call")
    assert (step.status, step.tool.result, step.content_state["result"]) == (
        "error",
        None,
        "absent",
    )


def test_a_handover_worded_as_an_exception_is_no_failure():
    moved = event(
        "exception",
        **{"exception.type": "Exception", "exception.message": "ParentCommand(Command())"},
    )
    assert one(run(1, "chain", status=2, events=(moved,))).steps[0].status == "unset"


@pytest.mark.parametrize(
    ("key", "conversation"),
    [
        pytest.param("metadata.thread_id", "s-1", id="B30 opik#3441 thread"),
        pytest.param("metadata.session_id", "s-1", id="B30 langwatch#1428 session"),
        pytest.param("trace.session_id", None, id="the project is no conversation"),
        pytest.param("trace.session_name", None, id="the project's name is none"),
    ],
)
def test_which_id_is_the_conversation(key, conversation):
    assert one(run(1, "chain", **{key: "s-1"})).conversation_id == conversation


@pytest.mark.parametrize("missing", [pytest.param(77, id="B34 opik#5934 langchain-ai/docs#4485")])
def test_runs_whose_parent_never_came_are_kept(missing):
    trace = one(run(2, "tool", given={}, parent=missing), run(3, "llm", parent=missing, at=4))
    assert trace.completeness == "missing_root"
    assert {source.span_id[-1] for step in trace.steps for source in step.sources} == {"2", "3"}


def test_langgraph_names_its_agents():
    state = {"messages": [{"type": "human", "content": "hi"}, {"type": "ai", "content": "done"}]}
    trace = one(
        run(1, "chain", name="helper", result=state, **{"metadata.lc_agent_name": "helper"})
    )
    assert (only(trace, "agent").agent.name, trace.final_output) == ("helper", "done")
    assert not steps(trace, "other")
