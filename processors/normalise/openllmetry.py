"""OpenLLMetry and Traceloop: ``traceloop.*`` kinds and entities, indexed prompts and completions.

Rules
1. ``traceloop.entity.name`` names an agent only on an agent, a tool only on a tool.
2. Dumped Python calls are unwrapped: ``{"args", "kwargs"}``, ``{"inputs"}``, ``{"input_str"}``,
   ``{"output"}``.
3. ``llm.request.type`` makes a model call only of a span that has no traceloop kind.
4. Values may be cut by the SDK on purpose: broken JSON stays text, state ``truncated``.

Source: traceloop/openllmetry packages/opentelemetry-semantic-conventions-ai,
packages/traceloop-sdk.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.fragment import (
    RANK_DISCRIMINATOR,
    RANK_HANDOFF,
    RANK_MODEL,
    RANK_NONE,
    Reading,
)
from processors.model.message import call_part, parts, tool_message
from processors.model.names import ContentState, StepKind, StepStatus
from processors.model.span import Span
from processors.model.step import Agent, Message, Part, Tool
from processors.value import first_name, name, parse, slots

DIALECT = "openllmetry"
FAMILIES = frozenset({"traceloop", "llm.request", "gen_ai.prompt", "gen_ai.completion"})
EVENTS: frozenset[str] = frozenset()

KINDS: dict[str, tuple[StepKind, str | None]] = {
    "workflow": ("other", "workflow"),
    "task": ("other", "step"),
    "agent": ("agent", None),
    "tool": ("tool_call", None),
    "session": ("other", "mcp"),
    "handoff": ("handoff", None),
}
REQUESTS: dict[str, tuple[StepKind, str | None]] = {
    "chat": ("model_call", None),
    "completion": ("model_call", None),
    "embedding": ("other", "embedding"),
    "rerank": ("retrieval", "rerank"),
}
_ASSOCIATION = "traceloop.association.properties."
FIELDS: dict[str, tuple[str, ...]] = {
    "conversation_id": tuple(
        _ASSOCIATION + key for key in ("session_id", "thread_id", "conversation_id")
    ),
    "entity.name": ("traceloop.entity.name",),
    "tool.arguments": ("gen_ai.tool.call.arguments", "traceloop.entity.input"),
    "tool.result": ("gen_ai.tool.call.result", "traceloop.entity.output"),
}
PROMPT, COMPLETION = "gen_ai.prompt.", "gen_ai.completion."
MAPPED = frozenset(key for keys in FIELDS.values() for key in keys) | {
    *("traceloop.span.kind", "traceloop.workflow.name", "traceloop.entity.path"),
    *("llm.request.type", "llm.usage.total_tokens", "gen_ai.usage.total_tokens"),
}
PREFIXES: tuple[str, ...] = (PROMPT, COMPLETION, "llm.request.functions.")


def read_span(span: Span) -> Reading | None:
    """What the span says in OpenLLMetry's words; None when it carries nothing of them."""
    attributes = span.attributes
    raw_kind = name(attributes.get("traceloop.span.kind"))
    request = name(attributes.get("llm.request.type"))
    flattened = any(key.startswith(PREFIXES) for key in attributes)
    if raw_kind is None and request is None and not flattened:
        return None
    kind, subtype = KINDS.get(raw_kind or "", REQUESTS.get(request or "", (None, None)))
    if kind is None and flattened:
        kind, rank = "model_call", RANK_MODEL
    else:
        rank = _rank(kind)
    state: dict[str, ContentState] = {}
    entity = first_name(attributes, FIELDS["entity.name"])
    tool, status = (
        _tool(span.name, entity, attributes, state)
        if kind == "tool_call" or (raw_kind == "task" and _is_call(attributes))
        else (None, None)
    )
    return Reading(
        dialect=DIALECT,
        kind=kind,
        rank=rank,
        subtype=subtype,
        agent=Agent(name=entity or name(span.name.removesuffix(".agent")))
        if kind == "agent"
        else None,
        messages_in=_messages(attributes, PROMPT, "user") if flattened else None,
        messages_out=_messages(attributes, COMPLETION, "assistant") if flattened else None,
        output=None if kind == "tool_call" else attributes.get("traceloop.entity.output"),
        tool=tool,
        conversation_id=first_name(attributes, FIELDS["conversation_id"]),
        status=status,
        content_state=state,
    )


def _is_call(attributes: Mapping[str, Any]) -> bool:
    """Whether a task's input is that of a decorated function, which may be a tool."""
    given = attributes.get("traceloop.entity.input")
    return isinstance(given, str) and given.startswith('{"args":')


def _rank(kind: StepKind | None) -> int:
    if kind == "handoff":
        return RANK_HANDOFF
    return RANK_DISCRIMINATOR if kind else RANK_NONE


def _messages(attributes: Mapping[str, Any], prefix: str, role: str) -> tuple[Message, ...] | None:
    return tuple(_message(slot, role) for slot in slots(attributes, prefix)) or None


def _message(slot: Mapping[str, Any], role: str) -> Message:
    content = _content(slot.get("content"))
    calls = _calls(slot)
    call_id = name(slot.get("tool_call_id"))
    said = name(slot.get("role")) or role
    if call_id or said == "tool":
        answer = Part(type="tool_call_response", id=call_id, content=slot.get("content"))
        return Message(role="tool", parts=(answer,))
    return Message(
        role=said, parts=(*parts(content), *calls), finish_reason=name(slot.get("finish_reason"))
    )


def _content(raw: Any) -> Any:
    """A list of content blocks where a string holds one; else the value untouched."""
    if isinstance(raw, str) and raw.lstrip().startswith("[{"):
        parsed, _ = parse(raw)
        return parsed if isinstance(parsed, list) else raw
    return raw


def _calls(slot: Mapping[str, Any]) -> tuple[Part, ...]:
    found = [
        call_part({key.removeprefix("function."): value for key, value in call.items()})
        for call in slots(slot, "tool_calls.")
    ]
    old = name(slot.get("function_call.name"))
    if not found and old:
        found = [Part(type="tool_call", name=old, content=slot.get("function_call.arguments"))]
    return tuple(found)


def _tool(
    span_name: str,
    entity: str | None,
    attributes: Mapping[str, Any],
    state: dict[str, ContentState],
) -> tuple[Tool, StepStatus | None]:
    result, call_id, failed = _result(attributes, state)
    tool = Tool(
        name=entity or name(span_name.removesuffix(".tool").removesuffix(".task")),
        call_id=call_id,
        arguments=_arguments(attributes, state),
        result=result,
    )
    return tool, "error" if failed else None


def _arguments(attributes: Mapping[str, Any], state: dict[str, ContentState]) -> Any:
    raw = next((attributes[key] for key in FIELDS["tool.arguments"] if key in attributes), None)
    if raw is None:
        return None
    value, state["arguments"] = parse(raw)
    if not isinstance(value, dict):
        return value
    if "input_str" in value or isinstance(value.get("inputs"), dict):
        inputs = value.get("inputs")
        return inputs if isinstance(inputs, dict) and inputs else parse(value.get("input_str"))[0]
    if value.keys() == {"args", "kwargs"}:
        return _python_call(value)
    return value


def _python_call(value: Mapping[str, Any]) -> Any:
    args, kwargs = value["args"], value["kwargs"]
    if not args:
        return kwargs
    if not kwargs and isinstance(args, list) and len(args) == 1:
        return args[0]
    return dict(value)


def _result(
    attributes: Mapping[str, Any], state: dict[str, ContentState]
) -> tuple[Any, str | None, bool]:
    raw = next((attributes[key] for key in FIELDS["tool.result"] if key in attributes), None)
    if raw is None:
        return None, None, False
    value, state["result"] = parse(raw)
    if isinstance(value, dict) and "output" in value and value.keys() <= {"output", "kwargs"}:
        value = parse(value["output"])[0]
    dumped = tool_message(value)
    if dumped is None:
        return value, None, False
    return parse(dumped[0])[0], dumped[1], dumped[2]
