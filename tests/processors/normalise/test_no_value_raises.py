"""Whatever stands under any key, name or scope of any dialect: no span is lost, nothing raises."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from telemetry_rig import NOW, START, span
from tier import examples

from processors.model.span import Batch, LogRecord, Scope, SpanEvent
from processors.normalise import (
    ag2,
    autogen,
    claude_code,
    codex,
    crewai,
    dspy,
    gemini_cli,
    genkit,
    google_adk,
    governance,
    haystack,
    llama_index,
    mastra,
    mcp,
    semantic_kernel,
    smolagents,
)
from sidecar.pipeline.build import build

DIALECTS = (
    *(ag2, autogen, claude_code, crewai, dspy, genkit, google_adk, governance, haystack),
    *(llama_index, mastra, mcp, semantic_kernel, smolagents),
)
KEYS = sorted(
    {key for dialect in DIALECTS for key in dialect.MAPPED | dialect.FAMILIES}
    | {"input.value", "output.value", "message", "messaging.operation", "recipient_agent_class"}
    | {"openinference.span.kind", "traceloop.span.kind", "traceloop.entity.output", "input"}
    | {"output", "body", "tool.name", "tool.description", "gen_ai.tool.name", "crew_agents"}
    | {"crewai.task.id", "gen_ai.operation.name", "gen_ai.input.messages", "span.type"}
    | {"haystack.component.type", "policy.decision", "mcp.tool.name", "tool_name", "decision"}
)
NAMES = [
    *("call_llm", "invocation", "agent_run [a]", "execute_tool a", "invoke_agent a", "a.run"),
    *("haystack.agent.run", "haystack.component.run", "haystack.agent.step.llm", "Agent.run"),
    *("haystack.agent.step.tool", "autogen process x", "tools/call a", "ReAct.forward"),
    *("a.__call__", "FunctionAgent.run", "claude_code.tool", "claude_code.llm_request"),
    *("tool.invoke", "agt.policy.evaluate", "FinalAnswerTool", "ResponseStreamWriter", "x"),
]
SCOPES = ["", *(f"openinference.instrumentation.{word}" for word in ("dspy", "haystack", "crewai"))]
SCOPES += ["gcp.vertex.agent", "autogen SingleThreadedAgentRuntime", "semantic_kernel.x"]
SCOPES += ["opentelemetry.instrumentation.mcp", "opentelemetry.instrumentation.llamaindex"]
WORDS = [
    *("TOOL", "LLM", "AGENT", "CHAIN", "tool", "process", "RoundRobinGroupChatManager", "model"),
    *("flow", "model_step", "model.step", "tool_call", "agent_run", "human_input", "deny", "{", ""),
    *("messages", "content", "role", "parts", "tool_calls", "output", "result", "response", "raw"),
    *("inner_messages", "models_usage", "replies", "meta", "candidates", "usage", "toolCalls"),
    *("tool_output", "tool_id", "raw_output", "tool_name", "isError", "error", "kwargs", "text"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=8,
)
VALUES = JSON | JSON.map(json.dumps) | JSON.map(repr) | st.sampled_from(WORDS)
ATTRIBUTES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


@pytest.mark.requirement("NRM-01")
@settings(max_examples=examples(300))
@given(ATTRIBUTES, st.sampled_from(NAMES), st.sampled_from(SCOPES), ATTRIBUTES)
def test_no_span_is_lost(attributes, name, scope, shown):
    events = (SpanEvent(name="tool.output", attributes=shown),)
    odd = span(1, name, kind=3, attributes=attributes, scope=scope, events=events)
    (trace,) = build(Batch(spans=(odd,)), project="p", now_ns=NOW)
    assert odd.span_id in {source.span_id for step in trace.steps for source in step.sources}


RECORDS = sorted(
    {
        *(codex.PREFIX + event for event in ("tool_result", "tool_decision", "sse_event", "x")),
        *(codex.PREFIX + event for event in ("api_request", "user_prompt", "sandbox_outcome")),
        *(gemini_cli.PREFIX + event for event in ("tool_call", "api_response", "api_error")),
        *(gemini_cli.PREFIX + event for event in ("conseca.verdict", "agent.finish")),
        *(claude_code.PREFIX + event for event in ("tool_result", "tool_decision", "api_request")),
        *("gen_ai.choice", "gen_ai.client.inference.operation.details", "opentelemetry.x"),
    }
)
FIELDS = [
    *(
        "call_id",
        "tool_use_id",
        "tool_name",
        "decision",
        "source",
        "arguments",
        "output",
        "success",
    ),
    *("duration_ms", "input_token_count", "output_token_count", "event.kind", "function_args"),
    *("session.id", "conversation.id", "response_text", "verdict", "prompt", "tool_parameters"),
    *("http.response.status_code", "error.message", "gen_ai.usage.input_tokens", "input_tokens"),
]


@settings(max_examples=examples(200))
@given(
    st.sampled_from(RECORDS),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6),
    VALUES,
    st.booleans(),
)
def test_no_record_raises(event, fields, body, inside):
    record = LogRecord(
        trace_id="1" * 32 if inside else None,
        span_id="2" * 16 if inside else None,
        time_ns=START,
        event_name=event,
        body=body,
        attributes=fields,
        scope=Scope(name="x"),
        resource={"service.name": "s"},
    )
    build(Batch(logs=(record, record)), project="p", now_ns=NOW)
