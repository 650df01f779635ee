"""OpenTelemetry GenAI conventions up to 1.36: one event or log record per message.

Rules
1. The order of messages is time, then role (system, user, assistant, tool), then text: never
   arrival.
2. Events repeat the whole history on every call; they make messages, never steps.
3. On a tool's span the tool message is what it was given and the choice what it gave back.
4. Content switched off leaves events without bodies: ids still count, the content state is
   ``absent``.

Source: semantic-conventions v1.36 docs/gen-ai/gen-ai-events.md; v1.27 for ``gen_ai.content.*``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from processors.model.exchange import prompt
from processors.model.exchange import said as spoken
from processors.model.fragment import RANK_MODEL, RANK_NONE, Reading
from processors.model.message import call_part, messages, parts
from processors.model.names import ContentState
from processors.model.span import LogRecord, Span, SpanEvent
from processors.model.step import Message, Model, Part, Tool, Usage
from processors.shapes import groups_of
from processors.value import first_integer, first_name, name, parse

DIALECT = "gen_ai_legacy"
FAMILIES = frozenset(
    {
        *("gen_ai.system", "gen_ai.prompt", "gen_ai.completion", "llm.usage"),
        *("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
        *("events", "all_messages_events"),
    }
)
CHOICE = "gen_ai.choice"
TOOL_MESSAGE = "gen_ai.tool.message"
CONTENT_PROMPT = "gen_ai.content.prompt"
CONTENT_COMPLETION = "gen_ai.content.completion"
ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    TOOL_MESSAGE: "tool",
    CHOICE: "assistant",
}
EVENTS = frozenset(ROLES) | {CONTENT_PROMPT, CONTENT_COMPLETION}

FIELDS: dict[str, tuple[str, ...]] = {
    "model.provider": ("gen_ai.system",),
    "usage.input": ("gen_ai.usage.prompt_tokens",),
    "usage.output": ("gen_ai.usage.completion_tokens",),
    "usage.reasoning": ("llm.usage.reasoning_tokens",),
    "messages_in": ("gen_ai.prompt",),
    "messages_out": ("gen_ai.completion",),
    "events": ("events", "all_messages_events"),
}
MAPPED = frozenset(key for keys in FIELDS.values() for key in keys)
PREFIXES: tuple[str, ...] = ()
_CLIENT = 3
_groups = groups_of(FIELDS)


def read_span(span: Span) -> Reading | None:
    """What the span's own attributes and message events say; None when there are none."""
    attributes = span.attributes
    state: dict[str, ContentState] = {}
    events = [event for event in span.events if event.name in EVENTS]
    if not events and not _groups(attributes):
        return None
    on_tool = attributes.get("gen_ai.operation.name") == "execute_tool"
    tool = _tool_events(events, state) if on_tool else None
    shown, said = ((), ()) if on_tool else _event_messages(events, attributes)
    usage = _usage(attributes)
    calls = usage is not None and span.kind == _CLIENT
    found = Reading(
        dialect=DIALECT,
        kind="model_call" if calls else None,
        rank=RANK_MODEL if calls else RANK_NONE,
        model=_model(attributes),
        usage=usage,
        messages_in=shown or _content(attributes, "messages_in", "user", state),
        messages_out=said or _content(attributes, "messages_out", "assistant", state),
        tool=tool,
        content_state=state,
    )
    return None if found == Reading(dialect=DIALECT) else found


def read_log(record: LogRecord) -> Reading | None:
    """The one message a log record holds; None when it is no message event."""
    if record.event_name not in ROLES:
        return None
    body, _ = parse(record.body)
    node = body if isinstance(body, dict) else {}
    shown, said = _messages(record.event_name, node)
    state: dict[str, ContentState] = {} if body else {"messages_in": "absent"}
    if not shown and not said:
        return Reading(dialect=DIALECT, content_state=state)
    return Reading(
        dialect=DIALECT,
        messages_in=shown or None,
        messages_out=said or None,
        content_state=state,
    )


def _event_messages(
    events: Iterable[SpanEvent], attributes: Mapping[str, Any]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    shown: list[Message] = []
    said: list[Message] = []
    bodies = [(event.name, event.attributes) for event in events]
    for event_name, body in (*bodies, *_listed(attributes)):
        before, after = _messages(event_name, body)
        shown.extend(before)
        said.extend(after)
    return tuple(shown), tuple(said)


def _listed(attributes: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """(name, body) of events that Pydantic AI and Logfire keep as one JSON list on the span."""
    for key in FIELDS["events"]:
        raw = attributes.get(key)
        if isinstance(raw, str) and raw.startswith("["):
            listed, _ = parse(raw)
            for body in listed if isinstance(listed, list) else ():
                if isinstance(body, dict) and body.get("event.name") in ROLES:
                    yield body["event.name"], body


def _messages(
    event: str, body: Mapping[str, Any]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Messages shown to the model and said by it, of one event body."""
    if event == CONTENT_PROMPT:
        return prompt(parse(body.get("gen_ai.prompt"))[0]) or (), ()
    if event == CONTENT_COMPLETION:
        return (), spoken(parse(body.get("gen_ai.completion"))[0]) or ()
    if event == CHOICE:
        return (), _choice(body)
    if event == TOOL_MESSAGE:
        return (_answer(body),), ()
    content = parts(_content_value(body.get("content")))
    found = (*content, *_calls(body.get("tool_calls")))
    if not found:
        return (), ()
    role = name(body.get("role")) or ROLES[event]
    if all(part.type == "tool_call_response" for part in found):
        role = "tool"
    return (Message(role=role, parts=found),), ()


def _answer(body: Mapping[str, Any]) -> Message:
    content = _content_value(body.get("content"))
    blocks = parts(content) if isinstance(content, list) else ()
    if blocks and all(part.type == "tool_call_response" for part in blocks):
        return Message(role="tool", parts=blocks)
    answer = Part(type="tool_call_response", id=name(body.get("id")), content=body.get("content"))
    return Message(role="tool", parts=(answer,))


def _choice(body: Mapping[str, Any]) -> tuple[Message, ...]:
    inner, _ = parse(body.get("message"))
    node = inner if isinstance(inner, dict) else {"content": inner}
    found = (
        *parts(_content_value(node.get("content"))),
        *_calls(node.get("tool_calls")),
        *_calls(body.get("tool_calls")),
    )
    if not found:
        return ()
    reason = name(body.get("finish_reason"))
    return (Message(role="assistant", parts=found, finish_reason=reason),)


def _content_value(raw: Any) -> Any:
    """A list of content blocks where a string holds one; else the value untouched."""
    if isinstance(raw, str) and raw.lstrip().startswith("[{"):
        parsed, _ = parse(raw)
        return parsed if isinstance(parsed, list) else raw
    return raw


def _calls(raw: Any) -> tuple[Part, ...]:
    parsed, _ = parse(raw)
    listed = parsed if isinstance(parsed, list) else ()
    return tuple(call_part(parse(call)[0]) for call in listed if call)


def _tool_events(events: Iterable[SpanEvent], state: dict[str, ContentState]) -> Tool | None:
    arguments = result = call_id = None
    for event in events:
        if event.name == TOOL_MESSAGE:
            arguments, state["arguments"] = parse(event.attributes.get("content"))
            call_id = name(event.attributes.get("id"))
        elif event.name == CHOICE:
            result, state["result"] = parse(event.attributes.get("message"))
    if "arguments" not in state and "result" not in state:
        return None
    return Tool(call_id=call_id, arguments=arguments, result=_only_text(result))


def _only_text(result: Any) -> Any:
    """The value of a single text or JSON content block; anything else as it is."""
    if isinstance(result, list) and len(result) == 1 and isinstance(result[0], dict):
        block = result[0]
        if block.keys() == {"text"}:
            return parse(block["text"])[0]
        if block.keys() == {"json"}:
            return block["json"]
    return result


def _content(
    attributes: Mapping[str, Any], field: str, role: str, state: dict[str, ContentState]
) -> tuple[Message, ...] | None:
    raw = attributes.get(FIELDS[field][0])
    if raw is None:
        return None
    parsed, state[field] = parse(raw)
    return messages(parsed, role)


def _model(attributes: Mapping[str, Any]) -> Model | None:
    provider = first_name(attributes, FIELDS["model.provider"])
    return Model(provider=provider) if provider else None


def _usage(attributes: Mapping[str, Any]) -> Usage | None:
    counts = {
        field: first_integer(attributes, FIELDS[f"usage.{field}"])
        for field in ("input", "output", "reasoning")
    }
    return (
        Usage(**counts, scope="own")
        if any(count is not None for count in counts.values())
        else None
    )
