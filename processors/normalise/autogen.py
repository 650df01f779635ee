"""AutoGen: the runtime's messaging spans, and the messages they carry between agents.

Rules
1. Creating, sending, publishing and acknowledging messages is no work: kept as ``other``.
2. A reply that reaches the manager of a team holds the agent's messages: each that a model paid
   for (``models_usage``) is a model call, told; executions answer it.
3. Whoever instruments the model's client is heard instead (``processors.assemble.told``).

Source: microsoft/autogen python/packages/autogen-core/src/autogen_core/_telemetry;
autogen-agentchat messages.py, teams/_group_chat/_events.py.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from processors.model.exchange import counts
from processors.model.fragment import RANK_DISCRIMINATOR, RANK_NOISE, Reading, Told
from processors.model.message import call_part
from processors.model.span import Span
from processors.model.step import Agent, Message, Part
from processors.value import name, parse

DIALECT = "autogen"
FAMILIES = frozenset({"recipient_agent_type", "messaging"})
EVENTS: frozenset[str] = frozenset()
MAPPED: frozenset[str] = frozenset()
PREFIXES: tuple[str, ...] = ()
_SPAN = "autogen "
_MANAGER = "GroupChatManager"
_NOT_SAID = frozenset({"MemoryQueryEvent", "UserInputRequestedEvent", "CodeGenerationEvent"})


def read_span(span: Span) -> Reading | None:
    """What a span of AutoGen's runtime says; None for any other span."""
    if not span.name.startswith(_SPAN) or "messaging.operation" not in span.attributes:
        return None
    to = span.attributes.get("recipient_agent_class")
    told: tuple[Told, ...] = ()
    if span.attributes["messaging.operation"] == "process" and str(to).endswith(_MANAGER):
        body, _ = parse(span.attributes.get("message"))
        reply = body.get("response", body.get("agent_response")) if isinstance(body, dict) else None
        if isinstance(reply, dict):
            told = tuple(_calls(list(_messages(reply)), span.start_ns))
    return Reading(dialect=DIALECT, kind="other", rank=RANK_NOISE, subtype="message", told=told)


def _messages(reply: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    inner = reply.get("inner_messages")
    last = reply.get("chat_message")
    for item in (*(inner if isinstance(inner, list) else ()), last):
        if isinstance(item, dict) and item.get("type") not in _NOT_SAID:
            yield item


def _calls(items: list[Mapping[str, Any]], start_ns: int) -> Iterator[Told]:
    shown: list[Message] = []
    thought: tuple[Part, ...] = ()
    for number, item in enumerate(items):
        parts = _parts(item)
        if item.get("type") == "ThoughtEvent":
            thought = parts
            continue
        answered = any(part.type == "tool_call_response" for part in parts)
        said = Message(role="tool" if answered else "assistant", parts=(*thought, *parts))
        thought = ()
        usage = counts(item.get("models_usage"))
        if usage is not None:
            at_ns = _moment(item.get("created_at")) or start_ns + number
            source = name(item.get("source"))
            reading = Reading(
                dialect=DIALECT,
                kind="model_call",
                rank=RANK_DISCRIMINATOR,
                subtype="told",
                agent=Agent(name=source) if source else None,
                usage=usage,
                messages_in=tuple(shown) or None,
                messages_out=(said,),
            )
            told_id = name(item.get("id")) or str(number)
            yield Told(id=told_id, name="reply", start_ns=at_ns, end_ns=at_ns, reading=reading)
            shown = []
        shown.append(said)


def _parts(item: Mapping[str, Any]) -> tuple[Part, ...]:
    content = item.get("content")
    if isinstance(content, str):
        return (Part(type="text", content=content),) if content else ()
    return tuple(_part(block) for block in content) if isinstance(content, list) else ()


def _part(block: Any) -> Part:
    if not isinstance(block, dict):
        return Part(type="text", content=block)
    if "call_id" in block:
        return Part(
            type="tool_call_response",
            id=name(block["call_id"]),
            name=name(block.get("name")),
            content=block.get("content"),
            failed=block.get("is_error") is True,
        )
    return call_part(block) if "arguments" in block else Part(type="generic", content=block)


def _moment(written: Any) -> int | None:
    """Nanoseconds of an ISO time; None without one."""
    try:
        moment = datetime.fromisoformat(written) if isinstance(written, str) else None
    except ValueError:
        return None
    if moment is None or moment.tzinfo is None:
        return None
    return int(moment.timestamp() * 1_000_000) * 1_000
