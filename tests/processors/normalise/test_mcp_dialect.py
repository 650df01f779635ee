"""MCP: both sides of a call are one step, other methods glue; OpenLLMetry's wrapping is undone."""

import json

import pytest
from telemetry_rig import agent, one, only, span, steps, tool

METHOD = "mcp.method.name"


def client(number, name="find", **place):
    attributes = {METHOD: "tools/call", "jsonrpc.request.id": str(number)}
    return span(number, f"MCP send tools/call {name}", kind=3, attributes=attributes, **place)


def server(number, name="find", **place):
    attributes = {METHOD: "tools/call", "gen_ai.tool.name": name}
    attributes["gen_ai.operation.name"] = "execute_tool"
    attributes.update(place.pop("attributes", {}))
    return span(
        number, f"tools/call {name}", kind=2, attributes=attributes, service="server", **place
    )


def test_client_and_server_span_are_one_call_of_the_client():
    trace = one(agent(1, took=20), client(2, parent=1, took=9), server(3, parent=2, at=1))
    step = only(trace, "tool_call")
    assert (step.tool.name, step.step_id[-16:]) == ("find", f"{2:016x}")
    assert {source.span_id for source in step.sources} == {f"{2:016x}", f"{3:016x}"}


@pytest.mark.requirement("NRM-01")
def test_b40_a_failure_that_only_the_server_says_is_the_calls():
    failed = server(3, parent=2, at=1, attributes={"error.type": "tool_error"})
    trace = one(agent(1, took=20), client(2, parent=1, took=9), failed)
    step = only(trace, "tool_call")
    assert (step.status, step.error.type) == ("error", "tool_error")


def test_b21_an_outer_execute_tool_and_the_protocols_spans_are_one_call():
    trace = one(
        agent(1, took=30),
        tool(2, "find", {"id": 7}, parent=1, took=20, call_id="call_abcdefghijkl"),
        client(3, parent=2, at=1, took=9),
        server(4, parent=3, at=2),
    )
    assert only(trace, "tool_call").tool.arguments == {"id": 7}


@pytest.mark.parametrize(
    ("method", "kind"),
    [("tools/list", "other"), ("initialize", "other"), ("elicitation/create", "human_input")],
)
def test_other_methods_are_no_tool_calls(method, kind):
    assert one(span(1, method, attributes={METHOD: method})).steps[0].kind == kind


def test_openllmetrys_objects_around_name_arguments_and_result_are_undone():
    scope = "opentelemetry.instrumentation.mcp.instrumentation"
    wrapped = span(
        2,
        "find.tool",
        parent=1,
        took=9,
        scope=scope,
        attributes={
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "find",
            "traceloop.entity.input": json.dumps({"tool_name": "find", "arguments": {"id": 7}}),
            "traceloop.entity.output": json.dumps({"result": '{\n "n": 1}'}),
        },
    )
    writer = span(
        3, "ResponseStreamWriter", parent=2, at=1, scope=scope, attributes={"mcp.request.id": "2"}
    )
    trace = one(span(1, "agent", took=20), wrapped, writer)
    found = only(trace, "tool_call").tool
    assert (found.name, found.arguments, found.result) == ("find", {"id": 7}, {"n": 1})
    assert len(steps(trace, "other")) == 2


def test_a_gateway_names_tool_server_and_result():
    attributes = {
        "mcp.tool.name": "find",
        "mcp.target": "orders",
        "mcp.tool.arguments": '{"id": 7}',
        "mcp.tool.result": json.dumps(
            {"content": [{"type": "text", "text": '{"n": 1}'}], "isError": False}
        ),
    }
    found = only(one(span(1, "call_tool", attributes=attributes)), "tool_call").tool
    assert (found.name, found.namespace, found.arguments, found.result) == (
        "find",
        "orders",
        {"id": 7},
        {"n": 1},
    )


def test_a_result_that_calls_itself_an_error_is_one():
    attributes = {
        METHOD: "tools/call",
        "gen_ai.tool.name": "find",
        "gen_ai.tool.call.result": '{"content": [{"type": "text", "text": "no"}], "isError": true}',
    }
    assert (
        only(one(span(1, "tools/call find", attributes=attributes)), "tool_call").status == "error"
    )


def test_a_transport_session_is_no_conversation():
    attributes = {METHOD: "tools/call", "mcp.session.id": "s", "gen_ai.tool.name": "find"}
    assert one(span(1, "tools/call find", attributes=attributes)).conversation_id is None
