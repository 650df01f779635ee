"""MLflow tracing: every attribute a JSON-encoded string, the kind in ``mlflow.spanType``.

Rules
1. Every value is decoded first: ``"\\"TOOL\\""`` is TOOL, ``"null"`` says nothing.
2. A traced function of no type may be a tool: where a model asked for it. A chain is an agent only
   where LangGraph's metadata names it so.
3. A streamed reply whose calls MLflow lost is put together from its chunk events.
4. With its GenAI conventions switched on MLflow writes none of this; nothing is read then.

Source: mlflow/mlflow mlflow/tracing/{constant,otel}, mlflow/entities/span.py.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from processors.model.chunks import streamed
from processors.model.exchange import counts, prompt, response_facts, said
from processors.model.fragment import RANK_DISCRIMINATOR, RANK_NONE, Reading, filled
from processors.model.message import tool_message
from processors.model.names import ContentState, StepKind
from processors.model.span import Span
from processors.model.step import Agent, Message, Model, Tool, Usage
from processors.value import first_name, name, parse

DIALECT = "mlflow"
FAMILIES = frozenset({"mlflow"})
EVENTS: frozenset[str] = frozenset()

KINDS: dict[str, tuple[StepKind, str | None]] = {
    "CHAT_MODEL": ("model_call", None),
    "LLM": ("model_call", None),
    "TOOL": ("tool_call", None),
    "AGENT": ("agent", None),
    "CHAIN": ("other", "step"),
    "WORKFLOW": ("other", "workflow"),
    "TASK": ("other", "step"),
    "PARSER": ("other", "parser"),
    "MEMORY": ("other", "memory"),
    "EMBEDDING": ("other", "embedding"),
    "RETRIEVER": ("retrieval", None),
    "RERANKER": ("retrieval", "rerank"),
    "GUARDRAIL": ("guardrail", None),
    "EVALUATOR": ("evaluation", None),
    "UNKNOWN": ("other", "unknown"),
}
FIELDS: dict[str, tuple[str, ...]] = {
    "model": ("mlflow.llm.model", "model"),
    "provider": ("mlflow.llm.provider",),
    "call_id": ("tool_call_id",),
    "usage": ("mlflow.chat.tokenUsage", "mlflow.trace.tokenUsage"),
}
MAPPED = frozenset({"metadata", "tool_call_id"})
PREFIXES: tuple[str, ...] = ("mlflow.",)
_SCALAR = re.compile(r"-?(0|[1-9]\d{0,40})(\.\d{1,40})?|true|false|null")
_CHUNK = "mlflow.chunk.item."


def read_span(span: Span) -> Reading | None:
    """What the span says in MLflow's words; None when it has no span type of it."""
    attributes = span.attributes
    raw_kind = _text(attributes, "mlflow.spanType")
    if raw_kind is None and "mlflow.spanInputs" not in attributes:
        return None
    metadata = parse(attributes.get("metadata"))[0]
    metadata = metadata if isinstance(metadata, dict) else {}
    kind, subtype = KINDS.get((raw_kind or "").upper(), (None, None))
    if kind == "other" and span.name and metadata.get("lc_agent_name") == span.name:
        kind, subtype = "agent", None
    state: dict[str, ContentState] = {}
    rank = RANK_NONE if kind is None or subtype == "unknown" else RANK_DISCRIMINATOR
    base = Reading(
        dialect=DIALECT,
        kind=kind,
        rank=rank,
        subtype=subtype,
        conversation_id=first_name(metadata, ("session_id", "thread_id", "conversation_id")),
        content_state=state,
    )
    return _filled(span, base, state)


def _filled(span: Span, base: Reading, state: dict[str, ContentState]) -> Reading:
    attributes = span.attributes
    if base.kind == "tool_call":
        tool, failed = _tool(span.name, attributes, state)
        return replace(base, tool=tool, status="error" if failed else None)
    if base.kind == "model_call":
        return _model_call(span, base, state)
    output = attributes.get("mlflow.spanOutputs")
    if base.kind == "agent":
        value, _ = parse(output)
        return replace(
            base,
            agent=Agent(name=name(span.name)),
            messages_out=said(value),
            output=None if isinstance(value, dict) else output,
        )
    if base.rank == RANK_NONE and "mlflow.spanFunctionName" in attributes:
        return replace(base, kind="other", tool=_tool(span.name, attributes, state)[0])
    return replace(base, output=output)


def _model_call(span: Span, base: Reading, state: dict[str, ContentState]) -> Reading:
    attributes = span.attributes
    given, state["messages_in"] = _side(attributes, "mlflow.spanInputs")
    value, state["messages_out"] = _side(attributes, "mlflow.spanOutputs")
    response_id, model, reasons = response_facts(value)
    return replace(
        base,
        messages_in=prompt(given),
        messages_out=_reply(value, span),
        usage=_usage(attributes, value),
        model=Model(
            provider=_text(attributes, *FIELDS["provider"]),
            request_model=_text(attributes, "model") or _text(attributes, *FIELDS["model"]),
            response_model=model or _text(attributes, "mlflow.llm.model"),
            response_id=response_id,
            finish_reasons=reasons,
        ),
    )


def _side(attributes: Mapping[str, Any], key: str) -> tuple[Any, ContentState]:
    """What was put in or came out: JSON always, so ``0`` and ``false`` are no text."""
    raw = attributes.get(key)
    if isinstance(raw, str) and _SCALAR.fullmatch(raw):
        value = json.loads(raw)
        return value, "null" if value is None else "captured"
    return parse(raw) if raw is not None else (None, "absent")


def _reply(value: Any, span: Span) -> tuple[Message, ...] | None:
    whole = said(value)
    if any(part.type == "tool_call" for message in whole or () for part in message.parts):
        return whole
    chunks = [
        event.attributes.get("mlflow.chunk.value")
        for event in span.events
        if event.name.startswith(_CHUNK)
    ]
    return streamed(parse(chunk)[0] for chunk in chunks) or whole if chunks else whole


def _usage(attributes: Mapping[str, Any], reply: Any) -> Usage | None:
    declared = next((attributes[key] for key in FIELDS["usage"] if key in attributes), None)
    told = counts(reply.get("usage")) if isinstance(reply, dict) else None
    return filled((counts(parse(declared)[0]), told))


def _text(attributes: Mapping[str, Any], *keys: str) -> str | None:
    for key in keys:
        if key in attributes and (found := name(parse(attributes[key])[0])) is not None:
            return found
    return None


def _tool(
    span_name: str, attributes: Mapping[str, Any], state: dict[str, ContentState]
) -> tuple[Tool, bool]:
    given, state["arguments"] = _side(attributes, "mlflow.spanInputs")
    result, state["result"] = _side(attributes, "mlflow.spanOutputs")
    call_id, failed = _text(attributes, *FIELDS["call_id"]), False
    dumped = tool_message(result)
    if dumped is not None:
        result, state["result"] = parse(dumped[0])
        call_id, failed = call_id or dumped[1], dumped[2]
    tool = Tool(name=name(span_name), call_id=call_id, arguments=given, result=result)
    return tool, failed
