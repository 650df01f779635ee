"""A span's kind is that of its strongest evidence; fields are the first dialect's that has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telemetry_rig import event, one, only, span, steps

from processors.model.span import Batch
from processors.normalise import gen_ai, gen_ai_legacy, openinference, openllmetry
from processors.normalise.detect import normalise

KEYS = sorted(
    {
        key
        for dialect in (gen_ai, gen_ai_legacy, openinference, openllmetry)
        for keys in dialect.FIELDS.values()
        for key in keys
    }
    | {"gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "input.value"}
    | {"output.value", "metadata", "tool.parameters", "llm.request.type", "error.type"}
    | {"llm.input_messages.0.message.content", "gen_ai.prompt.0.tool_calls.0.name"}
    | {"llm.output_messages.1.message.tool_calls.0.tool_call.id", "gen_ai.completion.0.content"}
)
WORDS = ["chat", "execute_tool", "LLM", "TOOL", "tool", "agent", "{", '{"a": 1}', "[1]", '"x"', ""]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner),
    max_leaves=5,
)


def kind(**attributes):
    name = attributes.pop("span_name", "x")
    number = attributes.pop("span_kind", 1)
    keys = {key.replace("__", "."): value for key, value in attributes.items()}
    return one(span(1, name, kind=number, attributes=keys)).steps[0].kind


@pytest.mark.requirement("NRM-01")
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8), st.sampled_from(WORDS))
def test_no_value_under_any_known_key_raises_or_loses_the_span(attributes, name):
    (fragment,) = normalise(Batch(spans=(span(1, name, kind=3, attributes=attributes),)))
    assert fragment.span_id == f"{1:016x}"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"gen_ai__operation__name": "chat", "gen_ai__agent__name": "a"}, "model_call"),
        ({"gen_ai__operation__name": "invoke_agent", "openinference__span__kind": "LLM"}, "agent"),
        ({"gen_ai__operation__name": "unknown", "openinference__span__kind": "TOOL"}, "tool_call"),
        ({"gen_ai__operation__name": "create_agent", "traceloop__span__kind": "agent"}, "other"),
        ({"gen_ai__operation__name": "handoff"}, "handoff"),
        ({"openinference__span__kind": "retriever"}, "retrieval"),
        ({"openinference__span__kind": "GUARDRAIL"}, "guardrail"),
        ({"traceloop__span__kind": "workflow"}, "other"),
        ({"llm__request__type": "chat"}, "model_call"),
        ({"gen_ai__tool__name": "t", "gen_ai__tool__call__id": "c"}, "tool_call"),
        ({"span_name": "execute_tool t"}, "tool_call"),
        ({"span_name": "execute_tool t", "gen_ai__tool__name": "t"}, "tool_call"),
        ({"gen_ai__request__model": "m"}, "other"),
        ({"gen_ai__request__model": "m", "gen_ai__usage__output_tokens": 1}, "other"),
        (
            {"gen_ai__request__model": "m", "gen_ai__usage__output_tokens": 1, "span_kind": 3},
            "model_call",
        ),
        ({"gen_ai__agent__name": "a"}, "agent"),
        ({"http__method": "GET"}, "other"),
        ({}, "other"),
    ],
)
@pytest.mark.requirement("NRM-01")
def test_the_strongest_evidence_decides_the_kind(attributes, expected):
    assert kind(**attributes) == expected


def test_two_dialects_on_one_span_make_one_step_with_the_fields_of_both():
    step = only(
        one(
            span(
                1,
                attributes={
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m1",
                    "openinference.span.kind": "LLM",
                    "llm.model_name": "m2",
                    "llm.token_count.prompt": 7,
                    "llm.token_count.completion": 3,
                },
            )
        ),
        "model_call",
    )
    assert (step.model.request_model, step.usage.input, step.usage.output) == ("m1", 7, 3)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, "unset"),
        ({"status_code": 1}, "ok"),
        ({"status_code": 2}, "error"),
        ({"status_code": 1, "attributes": {"error.type": "Timeout"}}, "error"),
        ({"status_code": 1, "events": (event("exception", **{"exception.type": "E"}),)}, "error"),
        ({"attributes": {"error.type": "asyncio.CancelledError"}}, "cancelled"),
        ({"status_code": 2, "status_message": "langgraph.errors.ParentCommand()"}, "unset"),
    ],
)
def test_failure_is_found_where_it_is_written_and_ok_is_never_guessed(more, status):
    assert one(span(1, **more)).steps[0].status == status


def test_an_emitter_cannot_speak_for_us_but_may_claim():
    attributes = {
        "agenttwin.outcome.status": "verified_success",
        "agenttwin.receipt.id": "r1",
        "agenttwin.claim.status": "success",
    }
    kept = one(span(1, attributes=attributes)).steps[0].attributes
    assert kept == {"agenttwin.claim.status": "success"}


def test_tokens_on_an_agent_are_a_sum_whatever_the_dialect():
    attributes = {"openinference.span.kind": "AGENT", "llm.token_count.prompt": 9}
    step = only(one(span(1, attributes=attributes)), "agent")
    assert step.usage.scope == "aggregated"


def test_what_no_dialect_knows_stays_in_the_attributes():
    (step,) = steps(one(span(1, attributes={"http.method": "GET"})), "other")
    assert step.attributes == {"http.method": "GET"}
    assert step.subtype == "unknown"
