"""Genkit: actions by their subtype, content from input and output, interrupts are no failures."""

import json

import pytest
from telemetry_rig import event, one, only, span, steps

CALL = {"toolRequest": {"name": "find", "ref": "call_abcdefghijkl", "input": {"id": 7}}}
ANSWER = {"toolResponse": {"name": "find", "ref": "call_abcdefghijkl", "output": {"n": 1}}}


def action(number, name, subtype, *, given=None, gave=None, state="success", **place):
    attributes = {"genkit:type": "action", "genkit:name": name, "genkit:state": state}
    if subtype:
        attributes["genkit:metadata:subtype"] = subtype
    if given is not None:
        attributes["genkit:input"] = json.dumps(given)
    if gave is not None:
        attributes["genkit:output"] = json.dumps(gave)
    return span(number, name, attributes=attributes, **place)


def model(number, gave, *, shown=(), **place):
    given = {"messages": [{"role": "user", "content": [{"text": "hi"}]}, *shown]}
    return action(number, "openai/m1", "model", given=given, gave=gave, **place)


def asked():
    usage = {"inputTokens": 12, "outputTokens": 3, "thoughtsTokens": 2}
    raw = {"id": "resp-1", "model": "m1-2026"}
    message = {"role": "model", "content": [CALL]}
    return {"message": message, "finishReason": "stop", "usage": usage, "raw": raw}


def test_a_flow_with_nested_generates_is_one_agent_with_its_calls():
    trace = one(
        action(1, "ticket", "flow", gave="done", took=50),
        action(2, "generate", None, parent=1, took=40),
        model(3, asked(), parent=2, at=1),
        action(4, "find", "tool", given={"id": 7}, gave={"n": 1}, parent=2, at=5),
        action(5, "generate", None, parent=2, at=8, took=20),
        model(
            6,
            {"message": {"role": "model", "content": [{"text": "done"}]}},
            shown=[{"role": "model", "content": [CALL]}, {"role": "tool", "content": [ANSWER]}],
            parent=5,
            at=9,
        ),
    )
    first, _ = steps(trace, "model_call")
    assert (first.model.provider, first.model.request_model) == ("openai", "m1")
    assert (first.model.response_id, first.model.response_model) == ("resp-1", "m1-2026")
    assert (first.usage.input, first.usage.output, first.usage.reasoning) == (12, 3, 2)
    tool = only(trace, "tool_call").tool
    assert (tool.arguments, tool.result, tool.call_id) == (
        {"id": 7},
        {"n": 1},
        CALL["toolRequest"]["ref"],
    )
    assert tool.requested_by == first.step_id
    assert trace.final_output == "done"
    assert only(trace, "agent").agent.name == "ticket"


@pytest.mark.parametrize(
    ("subtype", "kind"),
    [
        ("retriever", "retrieval"),
        ("evaluator", "evaluation"),
        ("embedder", "other"),
        ("x", "other"),
    ],
)
def test_the_subtype_decides_the_kind(subtype, kind):
    assert one(action(1, "a", subtype)).steps[0].kind == kind


def test_a_failed_action_is_an_error_and_an_interrupt_is_deferred():
    failed = action(1, "t", "tool", state="error", status_code=2, status_message="boom")
    assert only(one(failed), "tool_call").status == "error"
    stopped = action(
        1,
        "t",
        "tool",
        state="error",
        status_code=2,
        events=(event("exception", **{"exception.type": "ToolInterruptError"}),),
    )
    assert only(one(stopped), "tool_call").status == "deferred"


@pytest.mark.parametrize("given", ['"cut', "{", "[]", '{"messages": 3}'])
def test_content_of_another_shape_stays_harmless(given):
    broken = span(
        1,
        "m",
        attributes={
            "genkit:name": "p/m",
            "genkit:metadata:subtype": "model",
            "genkit:type": "action",
            "genkit:input": given,
            "genkit:output": given,
        },
    )
    assert only(one(broken), "model_call").messages_out is None
