"""LangSmith's OTLP export: ``langsmith.span.kind``, GenAI keys with the input of any run.

Rules
1. ``langsmith.span.kind`` decides before ``gen_ai.operation.name``: the exporter writes the
   operation ``embeddings`` on a retriever and ``chat`` on a prompt.
2. ``gen_ai.prompt`` and ``gen_ai.completion`` are the run's JSON input and output: arguments and
   result of a tool, messages of a model, state of a chain.
3. ``langsmith.trace.session_id`` and ``session_name`` name the project, never a conversation.
4. A chain is an agent only where LangGraph's metadata names it so.

Source: langchain-ai/langsmith-sdk python/langsmith/_internal/otel/_otel_exporter.py.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from processors.model.exchange import counts, prompt, response_facts, said
from processors.model.fragment import RANK_OPERATION, Reading
from processors.model.message import tool_message
from processors.model.names import ContentState, StepKind
from processors.model.span import Span
from processors.model.step import Agent, Model, Tool
from processors.value import first_name, name, parse

DIALECT = "langsmith"
FAMILIES = frozenset({"langsmith"})
EVENTS: frozenset[str] = frozenset()

KINDS: dict[str, tuple[StepKind, str | None]] = {
    "llm": ("model_call", None),
    "tool": ("tool_call", None),
    "chain": ("other", "step"),
    "retriever": ("retrieval", None),
    "embedding": ("other", "embedding"),
    "prompt": ("other", "prompt"),
    "parser": ("other", "parser"),
}
_METADATA = "langsmith.metadata."
FIELDS: dict[str, tuple[str, ...]] = {
    "conversation_id": tuple(
        _METADATA + key for key in ("session_id", "thread_id", "conversation_id")
    ),
    "agent": (_METADATA + "lc_agent_name",),
    "usage": (_METADATA + "usage_metadata",),
}
MAPPED = frozenset({"langsmith.span.kind", "gen_ai.prompt", "gen_ai.completion"})
PREFIXES: tuple[str, ...] = ()


def read_span(span: Span) -> Reading | None:
    """What the run says; None for a span that only carries LangSmith's metadata."""
    attributes = span.attributes
    raw_kind = name(attributes.get("langsmith.span.kind"))
    if raw_kind is None:
        return None
    kind, subtype = KINDS.get(raw_kind.lower(), ("other", "step"))
    if kind == "other" and span.name and first_name(attributes, FIELDS["agent"]) == span.name:
        kind, subtype = "agent", None
    state: dict[str, ContentState] = {}
    base = Reading(
        dialect=DIALECT,
        kind=kind,
        rank=RANK_OPERATION,
        subtype=subtype,
        conversation_id=first_name(attributes, FIELDS["conversation_id"]),
        content_state=state,
    )
    if kind == "tool_call":
        tool, failed = _tool(span.name, attributes, state)
        return replace(base, tool=tool, status="error" if failed else None)
    if kind == "model_call":
        return _model_call(attributes, base, state)
    output = attributes.get("gen_ai.completion")
    if kind == "agent":
        said_last = said(parse(output)[0])
        return replace(base, agent=Agent(name=name(span.name)), messages_out=said_last)
    return replace(base, output=output)


def _model_call(
    attributes: Mapping[str, Any], base: Reading, state: dict[str, ContentState]
) -> Reading:
    given, state["messages_in"] = _side(attributes, "gen_ai.prompt")
    value, state["messages_out"] = _side(attributes, "gen_ai.completion")
    response_id, model, reasons = response_facts(value)
    usage = next((attributes[key] for key in FIELDS["usage"] if key in attributes), None)
    return replace(
        base,
        model=Model(response_id=response_id, response_model=model, finish_reasons=reasons),
        usage=counts(parse(usage)[0]),
        messages_in=prompt(given),
        messages_out=said(value),
    )


def _side(attributes: Mapping[str, Any], key: str) -> tuple[Any, ContentState]:
    return parse(attributes[key]) if key in attributes else (None, "absent")


def _tool(
    span_name: str, attributes: Mapping[str, Any], state: dict[str, ContentState]
) -> tuple[Tool, bool]:
    given, state["arguments"] = _side(attributes, "gen_ai.prompt")
    result, state["result"] = _side(attributes, "gen_ai.completion")
    if result == {}:  # what the exporter writes for a run without output
        result, state["result"] = None, "absent"
    if isinstance(given, dict) and given.keys() == {"input"}:
        given = parse(given["input"])[0]
    if isinstance(result, dict) and result.keys() == {"output"}:
        result = parse(result["output"])[0]
    dumped = tool_message(result)
    call_id, failed = None, False
    if dumped is not None:
        (result, state["result"]), call_id, failed = parse(dumped[0]), dumped[1], dumped[2]
    tool = Tool(name=name(span_name), call_id=call_id, arguments=given, result=result)
    return tool, failed
