"""Langfuse SDKs: ``langfuse.observation.*``, one JSON string for input and one for output.

Rules
1. ``langfuse.observation.type`` decides the kind; a plain ``span`` is a tool call when its metadata
   holds a tool-call id (callbacks of SDK 3), and may be one when it is a decorated function: where
   a model asked for it.
2. A Python call dumped as ``{"args", "kwargs"}`` is its keyword arguments; a dumped tool message is
   its content, and the call id inside it the call's.
3. Level ERROR is an error, WARNING and DEFAULT are none whatever the status message says: LangGraph
   reports its handovers there.
4. A chain is an agent only where its own metadata says so.

Source: langfuse/langfuse packages/shared/src/server/otel/*; langfuse-python, langfuse-js.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.exchange import counts, prompt, said
from processors.model.fragment import RANK_DISCRIMINATOR, RANK_NONE, RANK_TOOL, Reading
from processors.model.message import tool_message
from processors.model.names import ContentState, StepKind
from processors.model.span import Span
from processors.model.step import Agent, Model, Tool
from processors.value import first_name, name, parse

DIALECT = "langfuse"
FAMILIES = frozenset({"langfuse"})
EVENTS: frozenset[str] = frozenset()

KINDS: dict[str, tuple[StepKind, str | None]] = {
    "generation": ("model_call", None),
    "tool": ("tool_call", None),
    "agent": ("agent", None),
    "chain": ("other", "step"),
    "span": ("other", None),
    "event": ("other", "event"),
    "retriever": ("retrieval", None),
    "embedding": ("other", "embedding"),
    "guardrail": ("guardrail", None),
    "evaluator": ("evaluation", None),
}
_OBSERVATION = "langfuse.observation."
_METADATA = "langfuse.observation.metadata."
FIELDS: dict[str, tuple[str, ...]] = {
    "conversation_id": (
        *("langfuse.session.id", "session.id"),
        *(_METADATA + key for key in ("session_id", "thread_id", "conversation_id")),
        *("langfuse.trace.metadata.session_id", "langfuse.trace.metadata.thread_id"),
    ),
    "model": ("langfuse.observation.model.name", "langfuse.observation.model"),
    "finish_reasons": (_METADATA + "finish_reason",),
    "provider": (_METADATA + "ls_provider",),
    "agent": (_METADATA + "lc_agent_name",),
    "call_id": (_METADATA + "tool_call_id",),
}
MAPPED = frozenset({"session.id"}) | {
    _OBSERVATION + key
    for key in ("type", "input", "output", "level", "usage_details", "model.name")
}
PREFIXES: tuple[str, ...] = ()


def read_span(span: Span) -> Reading | None:
    """What the span says in Langfuse's words; None when it is no observation."""
    attributes = span.attributes
    raw_kind = name(attributes.get("langfuse.observation.type"))
    if raw_kind is None and not any(key.startswith(_OBSERVATION) for key in attributes):
        return None
    kind, subtype, rank = _kind(raw_kind, attributes, span.name)
    state: dict[str, ContentState] = {}
    failed = attributes.get("langfuse.observation.level") == "ERROR"
    called = kind == "tool_call" or (raw_kind == "span" and _is_call(attributes))
    tool, tool_failed = _tool(span.name, attributes, state) if called else (None, False)
    call = kind == "model_call"
    return Reading(
        dialect=DIALECT,
        kind=kind,
        rank=rank,
        subtype=subtype,
        agent=Agent(name=_quoted(attributes, "agent") or name(span.name))
        if kind == "agent"
        else None,
        model=_model(attributes) if call else None,
        usage=counts(parse(attributes.get("langfuse.observation.usage_details"))[0])
        if call
        else None,
        messages_in=_content(attributes, "input", state) if call else None,
        messages_out=_content(attributes, "output", state)
        if kind in ("model_call", "agent")
        else None,
        output=attributes.get("langfuse.observation.output")
        if kind not in ("model_call", "tool_call")
        else None,
        tool=tool,
        conversation_id=_quoted(attributes, "conversation_id"),
        status="error" if failed or tool_failed else None,
        content_state=state,
    )


def _is_call(attributes: Mapping[str, Any]) -> bool:
    """Whether the input is that of a decorated function, which may be a tool."""
    given = attributes.get("langfuse.observation.input")
    return isinstance(given, str) and given.startswith('{"args":')


def _kind(
    raw: str | None, attributes: Mapping[str, Any], span_name: str
) -> tuple[StepKind | None, str | None, int]:
    kind, subtype = KINDS.get((raw or "").lower(), (None, None))
    if kind == "other" and _quoted(attributes, "call_id"):
        return "tool_call", None, RANK_TOOL
    if kind == "other" and span_name and _quoted(attributes, "agent") == span_name:
        return "agent", None, RANK_DISCRIMINATOR
    if kind is None or raw == "span":
        return kind, subtype, RANK_NONE
    return kind, subtype, RANK_DISCRIMINATOR


def _quoted(attributes: Mapping[str, Any], field: str) -> str | None:
    """A metadata name: SDK 5 writes it as JSON, SDK 3 bare."""
    found = first_name(attributes, FIELDS[field])
    return name(parse(found)[0]) if found and found[0] == '"' else found


def _model(attributes: Mapping[str, Any]) -> Model:
    reason = _quoted(attributes, "finish_reasons")
    return Model(
        provider=_quoted(attributes, "provider"),
        request_model=first_name(attributes, FIELDS["model"]),
        finish_reasons=(reason,) if reason else (),
    )


def _content(attributes: Mapping[str, Any], side: str, state: dict[str, ContentState]) -> Any:
    raw = attributes.get(_OBSERVATION + side)
    if raw is None:
        return None
    value, found = parse(raw)
    state["messages_in" if side == "input" else "messages_out"] = found
    return prompt(value) if side == "input" else said(value)


def _tool(
    span_name: str, attributes: Mapping[str, Any], state: dict[str, ContentState]
) -> tuple[Tool, bool]:
    given = result = None
    call_id, failed = _quoted(attributes, "call_id"), False
    if "langfuse.observation.input" in attributes:
        given, state["arguments"] = parse(attributes["langfuse.observation.input"])
    if "langfuse.observation.output" in attributes:
        result, state["result"] = parse(attributes["langfuse.observation.output"])
        dumped = tool_message(result)
        if dumped is not None:
            result, state["result"] = parse(dumped[0])
            call_id, failed = call_id or dumped[1], dumped[2]
    tool = Tool(name=name(span_name), call_id=call_id, arguments=_arguments(given), result=result)
    return tool, failed


def _arguments(given: Any) -> Any:
    if not isinstance(given, dict) or given.keys() != {"args", "kwargs"}:
        return given
    args, kwargs = given["args"], given["kwargs"]
    if not args:
        return kwargs
    only = isinstance(args, list) and len(args) == 1 and not kwargs
    return args[0] if only else given
