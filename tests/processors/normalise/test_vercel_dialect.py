"""The AI SDK: operations, versions of its keys, provider-executed calls, what was cut."""

import json

import pytest
from telemetry_rig import one, only, span, steps

pytestmark = pytest.mark.requirement("NRM-01")

ARGUMENTS = {"city": "Oslo"}


def inner(number, *, at=2, operation="ai.generateText.doGenerate", **attributes):
    told = {
        "ai.operationId": operation,
        "ai.model.provider": "openai.chat",
        "ai.model.id": "m-1",
        "ai.usage.inputTokens": 10,
        "ai.usage.outputTokens": 3,
        **attributes,
    }
    return span(number, operation, parent=1, at=at, took=2, scope="ai", attributes=told)


def outer(operation="ai.generateText", **attributes):
    told = {
        "ai.operationId": operation,
        "ai.telemetry.functionId": "helper",
        "ai.telemetry.metadata.sessionId": "s-1",
        "ai.usage.inputTokens": 10,
        "ai.usage.outputTokens": 3,
        **attributes,
    }
    return span(1, operation, took=50, scope="ai", attributes=told)


def tool(number, at, **attributes):
    told = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "weather", **attributes}
    return span(number, "ai.toolCall", parent=1, at=at, scope="ai", attributes=told)


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(
            [{"toolCallId": "c1", "toolName": "weather", "args": '{"city":"Oslo"}'}], id="4"
        ),
        pytest.param(
            [{"toolCallId": "c1", "toolName": "weather", "input": '{"city":"Oslo"}'}], id="5"
        ),
        pytest.param([{"toolCallId": "c1", "toolName": "weather", "input": ARGUMENTS}], id="7"),
    ],
)
def test_a_call_joins_its_execution_in_every_version(calls):
    trace = one(
        outer(**{"ai.response.text": "Sunny."}),
        inner(
            2,
            **{
                "ai.response.toolCalls": json.dumps(calls),
                "ai.response.finishReason": "tool-calls",
            },
        ),
        tool(
            3,
            5,
            **{
                "ai.toolCall.id": "c1",
                "ai.toolCall.args": '{"city":"Oslo"}',
                "ai.toolCall.result": '{"sky":"clear"}',
            },
        ),
        inner(4, at=7, **{"ai.response.text": "Sunny."}),
    )
    step = only(trace, "tool_call")
    assert (step.tool.name, step.tool.arguments, step.tool.result) == (
        "weather",
        ARGUMENTS,
        {"sky": "clear"},
    )
    assert step.tool.requested_by.endswith("2")
    assert only(trace, "agent").agent.name == "helper"
    assert steps(trace, "model_call")[0].model.provider == "openai"
    assert steps(trace, "model_call")[0].model.finish_reasons == ("tool_call",)
    assert (trace.final_output, trace.conversation_id) == ("Sunny.", "s-1")


@pytest.mark.parametrize(
    ("root", "inner_counts", "total"),
    [
        pytest.param(
            {"ai.usage.inputTokens": 23, "ai.usage.outputTokens": 6},
            (10, 13),
            23,
            id="B4 B5 traceroot#1610 root sums",
        ),
        pytest.param(
            {"ai.usage.inputTokens": 13, "ai.usage.outputTokens": 3},
            (10, 13),
            23,
            id="B5 root shows its last step",
        ),
    ],
)
def test_tokens_of_the_root_are_never_added(root, inner_counts, total):
    trace = one(
        outer(**root),
        *(
            inner(number + 2, at=number * 5 + 1, **{"ai.usage.inputTokens": count})
            for number, count in enumerate(inner_counts)
        ),
    )
    assert trace.usage_total.input == total
    assert only(trace, "agent").usage.scope == "aggregated"


def cut_prompt():
    text = '[{"role":"user","content":[{"type":"text","text":"Hi, my'
    return (
        {"ai.prompt.messages": text},
        lambda step: (
            step.messages_in is None
            and step.content_state["messages_in"] == "truncated"
            and step.attributes["ai.prompt.messages"] == text
            and step.messages_out[0].parts[0].content == "Yes."
        ),
    )


@pytest.mark.parametrize(
    ("attributes", "holds"),
    [
        pytest.param(*cut_prompt(), id="B24 langfuse#6517 trigger.dev#2691 prompt cut"),
        pytest.param(
            {"ai.usage.inputTokens": None, "ai.usage.outputTokens": None},
            lambda step: step.usage is None and step.messages_out,
            id="B26 vercel/ai#6546 NaN counts",
        ),
        pytest.param(
            {"ai.usage.inputTokens": "12", "ai.usage.outputTokens": 3.0},
            lambda step: (step.usage.input, step.usage.output) == (12, 3),
            id="B25 langfuse#14068 counts as text",
        ),
        pytest.param(
            {"ai.response.text": None, "ai.result.text": "Old."},
            lambda step: step.messages_out[0].parts[0].content == "Old.",
            id="B45 langfuse#4443 ai.result",
        ),
        pytest.param(
            {"ai.response.text": None, "ai.response.object": '{"a":1}'},
            lambda step: step.messages_out[0].parts[0].content == '{"a":1}',
            id="an object is the answer",
        ),
        pytest.param(
            {"ai.response.reasoning": "because"},
            lambda step: (
                [part.type for part in step.messages_out[0].parts] == ["reasoning", "text"]
            ),
            id="reasoning is kept",
        ),
    ],
)
def test_one_odd_field_costs_that_field_only(attributes, holds):
    told = {"ai.response.text": "Yes.", **attributes}
    told = {key: value for key, value in told.items() if value is not None or "usage" in key}
    assert holds(only(one(outer(), inner(2, **told)), "model_call"))


def test_version_4_keeps_cached_tokens_in_the_providers_metadata():
    told = {
        "ai.usage.promptTokens": 10,
        "ai.response.providerMetadata": '{"openai":{"cachedPromptTokens":4,"reasoningTokens":2}}',
    }
    usage = only(one(outer(), inner(2, **told)), "model_call").usage
    assert (usage.input, usage.cache_read, usage.reasoning) == (10, 4, 2)


def history(output, **block):
    call = {
        "type": "tool-call",
        "toolCallId": "call_1234567890",
        "toolName": "weather",
        "input": ARGUMENTS,
    }
    result = {
        "type": "tool-result",
        "toolCallId": "call_1234567890",
        "toolName": "weather",
        **output,
    }
    return json.dumps(
        [
            {"role": "assistant", "content": [{**call, **block}]},
            {"role": "tool", "content": [result]},
        ]
    )


def asked(**block):
    call = {"toolCallId": "call_1234567890", "toolName": "weather", "input": ARGUMENTS, **block}
    return {"ai.response.toolCalls": json.dumps([call])}


@pytest.mark.parametrize(
    ("output", "status", "result"),
    [
        ({"result": {"sky": "clear"}}, "unset", {"sky": "clear"}),
        ({"output": {"type": "json", "value": {"sky": "clear"}}}, "unset", {"sky": "clear"}),
        ({"output": {"type": "text", "value": "clear"}}, "unset", "clear"),
        ({"output": {"type": "error-text", "value": "no service"}}, "error", "no service"),
        ({"result": "no service", "isError": True}, "error", "no service"),
        (
            {"output": {"type": "execution-denied", "reason": "no"}},
            "denied",
            {"denied": True, "reason": "no"},
        ),
    ],
)
def test_a_call_without_span_is_read_from_the_next_prompt(output, status, result):
    trace = one(
        outer(), inner(2, **asked()), inner(3, at=9, **{"ai.prompt.messages": history(output)})
    )
    step = only(trace, "tool_call")
    assert (step.status, step.tool.result, step.tool.arguments) == (status, result, ARGUMENTS)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(shown, id=f"B11 vercel/ai#19007 {shown}")
        for shown in ("answered", "never shown")
    ],
)
def test_a_call_the_provider_ran_is_executed(shown):
    later = history({"output": {"type": "json", "value": 1}}, providerExecuted=True)
    after = [inner(3, at=9, **{"ai.prompt.messages": later})] if shown == "answered" else []
    step = only(one(outer(), inner(2, **asked(providerExecuted=True)), *after), "tool_call")
    assert (step.status, step.tool.type) == ("unset", "extension")
    assert step.tool.result == (1 if shown == "answered" else None)


def test_calls_that_start_in_the_same_millisecond_run_as_asked():
    calls = [{"toolCallId": f"c{n}", "toolName": f"t{n}", "input": {}} for n in (1, 2, 3)]
    spans = [
        tool(number, 5, **{"ai.toolCall.id": f"c{n}", "ai.toolCall.name": f"t{n}"})
        for number, n in ((30, 3), (31, 1), (32, 2))
    ]
    trace = one(outer(), inner(2, **{"ai.response.toolCalls": json.dumps(calls)}), *spans)
    assert [step.tool.name for step in steps(trace, "tool_call")] == ["t1", "t2", "t3"]


@pytest.mark.parametrize(
    ("operation", "kind", "subtype"),
    [
        ("ai.streamObject", "agent", None),
        ("ai.streamText.doStream", "model_call", None),
        ("ai.embedMany", "other", "embedding"),
        ("ai.embed.doEmbed", "other", "embedding"),
        ("ai.rerank.doRerank", "retrieval", "rerank"),
        ("ai.somethingNew", "other", "step"),
    ],
)
def test_every_operation_has_a_kind(operation, kind, subtype):
    step = one(span(1, operation, attributes={"ai.operationId": operation})).steps[0]
    assert (step.kind, step.subtype) == (kind, subtype)


def test_a_sub_agent_inside_a_tool_keeps_its_own_answer_below():
    nested = span(
        9,
        "ai.generateText",
        parent=3,
        at=6,
        scope="ai",
        attributes={"ai.operationId": "ai.generateText", "ai.response.text": "inner"},
    )
    trace = one(outer(**{"ai.response.text": "outer"}), tool(3, 5), nested)
    assert trace.final_output == "outer"
    assert len(steps(trace, "agent")) == 2
