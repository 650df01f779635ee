"""OpenLIT: operations and keys of its own beside the GenAI conventions."""

import json

import pytest
from telemetry_rig import answer, asked, call, event, one, only, span, steps, text

pytestmark = pytest.mark.requirement("NRM-01")


def lit(number, name="work", *, parent=None, at=0, events=(), **told):
    attributes = {"telemetry.sdk.name": "openlit"}
    attributes |= {key.replace("__", "."): value for key, value in told.items()}
    return span(number, name, parent=parent, at=at, took=2, attributes=attributes, events=events)


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"span__type": "function", "gen_ai__tool__name": "find"}, "tool_call"),
        ({"span__type": "agent"}, "agent"),
        ({"span__type": "generation"}, "model_call"),
        ({"span__type": "handoff", "gen_ai__handoff__target_agent": "b"}, "handoff"),
        ({}, "model_call"),
    ],
)
def test_the_span_type_decides_before_the_operation(told, kind):
    assert one(lit(1, gen_ai__operation__name="chat", **told)).steps[0].kind == kind


@pytest.mark.parametrize(
    ("operation", "kind"), [("framework", "other"), ("vectordb", "retrieval"), ("agent", "agent")]
)
def test_its_own_operations_have_a_kind(operation, kind):
    assert one(lit(1, gen_ai__operation__name=operation)).steps[0].kind == kind


def test_arguments_and_result_have_names_of_their_own():
    told = {"gen_ai__tool__arguments": "{'a': 1}", "gen_ai__tool__result": "ok"}
    step = only(one(lit(1, span__type="function", gen_ai__tool__name="find", **told)), "tool_call")
    assert (step.tool.name, step.tool.arguments, step.tool.result) == ("find", {"a": 1}, "ok")
    assert step.content_state["arguments"] == "repr"


def test_histories_without_the_asking_message_still_answer():
    first = [asked(call("call_abcdefghijkl", "find", {"a": 1}))]
    later = [text("user", "hi"), answer("call_abcdefghijkl", "ok")]
    trace = one(
        lit(1, gen_ai__operation__name="chat", gen_ai__output__messages=json.dumps(first)),
        lit(
            2,
            gen_ai__operation__name="chat",
            gen_ai__input__messages=json.dumps(later),
            at=9,
        ),
    )
    assert [step.tool.result for step in steps(trace, "tool_call")] == ["ok"]


def test_prompts_of_older_versions_are_one_text():
    events = (
        event("gen_ai.content.prompt", **{"gen_ai.prompt": "user: hi"}),
        event("gen_ai.content.completion", **{"gen_ai.completion": "Done."}),
    )
    step = only(one(lit(1, gen_ai__operation__name="chat", events=events)), "model_call")
    assert step.messages_in[0].parts[0].content == "user: hi"
    assert step.messages_out[0].parts[0].content == "Done."
