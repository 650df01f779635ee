"""Codex CLI: OTLP log records ``codex.*``, grouped by ``conversation.id``.

Rules
1. ``codex.tool_result`` is a tool call, ``codex.tool_decision`` a decision on it: one ``call_id``.
2. A model call is ``codex.sse_event`` of the kind ``response.completed``; a request that failed is
   one too, a request that did not says nothing more.
3. Counts are texts; cached tokens are part of the input.

Source: openai/codex codex-rs/otel/src/events/session_telemetry.rs.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.fragment import RANK_DECISION, RANK_DISCRIMINATOR, Reading
from processors.model.names import ContentState, StepKind
from processors.model.records import effect_word, flag, outcome, told, usage, whole
from processors.model.session import Entry
from processors.model.span import LogRecord
from processors.model.step import Agent, Message, Model, Part, StepDecision, StepError, Tool
from processors.value import first_name, name, parse

DIALECT = "codex"
PREFIX = "codex."
USAGE = {
    "input": ("input_token_count",),
    "output": ("output_token_count",),
    "cache_read": ("cached_token_count", "cached_input_token_count"),
    "reasoning": ("reasoning_token_count",),
}
_AGENT = Agent(name="codex")
_MODEL = ("model", "slug")
_FAILED_STATUS = 400


def read_session(record: LogRecord) -> Entry | None:
    """What a record of Codex tells of; None for any other record."""
    if not record.event_name.startswith(PREFIX):
        return None
    attributes = record.attributes
    session = first_name(attributes, ("conversation.id", "session.id", "thread.id"))
    event = record.event_name.removeprefix(PREFIX)
    found: Reading | None = None
    extra: tuple[Any, ...] = ()
    key = f"{event}:{record.time_ns}"
    match event:
        case "tool_result":
            found = _tool(attributes, session)
            key = _call_key(attributes, key)
        case "tool_decision":
            found = _decision(attributes, session)
            extra = _refused(record, attributes, session)
        case "sse_event" | "websocket_event":
            found = _completed(attributes, session)
        case "api_request" | "websocket_request":
            found = _request(attributes, session)
        case "user_prompt":
            found = _prompt(attributes, session)
        case "conversation_starts" | "sandbox_outcome":
            found = _reading("other", session, subtype=event, attributes=dict(attributes))
    if found is None:
        return Entry(session=session or "", told=())
    return Entry(session=session or "", told=(told(record, event, key, found), *extra))


def _reading(kind: StepKind, session: str | None, **fields: Any) -> Reading:
    fields.setdefault("rank", RANK_DISCRIMINATOR)
    return Reading(dialect=DIALECT, kind=kind, agent=_AGENT, conversation_id=session, **fields)


def _call_key(attributes: Mapping[str, Any], otherwise: str) -> str:
    call_id = name(attributes.get("call_id"))
    return f"call:{call_id}" if call_id else otherwise


def _tool(attributes: Mapping[str, Any], session: str | None) -> Reading:
    arguments, given = parse(attributes.get("arguments"))
    output, gave = parse(attributes.get("output"))
    states: dict[str, ContentState] = {}
    if "arguments" in attributes:
        states["arguments"] = given
    if "output" in attributes:
        states["result"] = gave
    status, error = outcome(flag(attributes.get("success")), attributes.get("output"), None)
    return _reading(
        "tool_call",
        session,
        tool=Tool(
            name=name(attributes.get("tool_name")),
            namespace=name(attributes.get("mcp_server")),
            call_id=name(attributes.get("call_id")),
            arguments=arguments,
            result=output,
        ),
        status=status,
        error=error,
        content_state=states,
    )


def _verdict(attributes: Mapping[str, Any]) -> StepDecision:
    source = name(attributes.get("source"))
    return StepDecision(
        effect=effect_word(name(attributes.get("decision"))),
        reasons=(source,) if source else (),
        source="emitter",
    )


def _decision(attributes: Mapping[str, Any], session: str | None) -> Reading:
    person = (name(attributes.get("source")) or "").lower().startswith("user")
    call = {
        "decision.tool": attributes.get("tool_name"),
        "decision.call_id": attributes.get("call_id"),
    }
    return _reading(
        "human_input" if person else "policy_decision",
        session,
        rank=RANK_DECISION,
        decision=_verdict(attributes),
        attributes={key: value for key, value in call.items() if value},
    )


def _refused(
    record: LogRecord, attributes: Mapping[str, Any], session: str | None
) -> tuple[Any, ...]:
    """The call that a refusal kept from running, where its id tells which."""
    decision, call_id = _verdict(attributes), name(attributes.get("call_id"))
    if decision.effect != "deny" or call_id is None:
        return ()
    tool = Tool(name=name(attributes.get("tool_name")), call_id=call_id)
    reading = _reading("tool_call", session, tool=tool, status="denied", decision=decision)
    return (told(record, "tool_result", f"call:{call_id}", reading),)


def _completed(attributes: Mapping[str, Any], session: str | None) -> Reading | None:
    if attributes.get("event.kind") not in ("response.completed", "response.failed"):
        return None
    failed = attributes["event.kind"] == "response.failed"
    message = name(attributes.get("error.message"))
    return _reading(
        "model_call",
        session,
        model=_model(attributes),
        usage=usage(attributes, USAGE, apart=False),
        status="error" if failed else None,
        error=StepError(message=message) if failed else None,
    )


def _request(attributes: Mapping[str, Any], session: str | None) -> Reading | None:
    message = name(attributes.get("error.message"))
    code = whole(attributes.get("http.response.status_code")) or 0
    if message is None and code < _FAILED_STATUS and flag(attributes.get("success")) is not False:
        return None
    return _reading(
        "model_call",
        session,
        model=_model(attributes),
        status="error",
        error=StepError(type=str(code) if code else None, message=message),
    )


def _model(attributes: Mapping[str, Any]) -> Model:
    return Model(
        provider=name(attributes.get("provider_name")), request_model=first_name(attributes, _MODEL)
    )


def _prompt(attributes: Mapping[str, Any], session: str | None) -> Reading:
    written, state = parse(attributes.get("prompt"))
    said = Message(role="user", parts=(Part(type="text", content=written),))
    return _reading(
        "other",
        session,
        subtype="user_prompt",
        messages_in=(said,) if isinstance(written, str) and written else None,
        content_state={"messages_in": state} if "prompt" in attributes else {},
    )
