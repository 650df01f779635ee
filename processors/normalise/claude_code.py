"""Claude Code: spans ``claude_code.*`` (beta) and log records, grouped by ``session.id``.

Rules
1. ``.interaction`` is the agent, ``.llm_request`` a model call, ``.tool`` a tool call;
   ``.tool.execution`` is that call again (same id, merged in assemble), ``.blocked_on_user`` what a
   person or a rule said of it.
2. Bare ``input_tokens`` leave cached tokens out: they are added.
3. A refused call is ``denied``; its decision is a step of its own.
4. Without spans the records are the steps; one ``tool_use_id`` is one call.

Source: code.claude.com/docs/en/monitoring-usage.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.fragment import (
    RANK_DECISION,
    RANK_DISCRIMINATOR,
    RANK_HANDOFF,
    Reading,
    Told,
)
from processors.model.names import ContentState, StepKind
from processors.model.records import effect_word, flag, outcome, told, usage
from processors.model.session import Entry
from processors.model.span import LogRecord, Span
from processors.model.step import (
    Agent,
    Message,
    Model,
    Part,
    StepDecision,
    StepError,
    Tool,
    Usage,
)
from processors.value import first, first_name, name, parse

DIALECT = "claude_code"
PREFIX = "claude_code."
FAMILIES = frozenset({"span.type", "tool_use_id", "agent_id"})
EVENTS: frozenset[str] = frozenset({"tool.output"})
MAPPED = frozenset({"span.type", "tool_use_id"})
PREFIXES: tuple[str, ...] = ()
KINDS: dict[str, tuple[StepKind, str | None, int]] = {
    "interaction": ("agent", None, RANK_DISCRIMINATOR),
    "llm_request": ("model_call", None, RANK_DISCRIMINATOR),
    "tool": ("tool_call", None, RANK_DISCRIMINATOR),
    "tool.execution": ("tool_call", None, RANK_DISCRIMINATOR),
    "tool.blocked_on_user": ("human_input", None, RANK_DECISION),
    "hook": ("other", "hook", RANK_HANDOFF),
}
USAGE = {
    "input": ("input_tokens",),
    "output": ("output_tokens",),
    "cache_read": ("cache_read_tokens", "cache_read_input_tokens"),
    "cache_write": ("cache_creation_tokens", "cache_creation_input_tokens"),
}
_ARGUMENTS = ("tool_input", "tool_parameters")
_AGENT = Agent(name="claude_code")


def read_span(span: Span) -> Reading | None:
    """What a span of Claude Code says; None for any other span."""
    if not span.name.startswith(PREFIX):
        return None
    kind, subtype, rank = KINDS.get(
        span.name.removeprefix(PREFIX), ("other", "step", RANK_DISCRIMINATOR)
    )
    attributes = span.attributes
    common = {"rank": rank, "subtype": subtype, "session": name(attributes.get("session.id"))}
    if kind == "model_call":
        return _reading(kind, **common, model=_model(attributes), usage=_usage(attributes))
    if kind == "human_input":
        return _decision(attributes, common["session"])
    if kind == "tool_call":
        output = next((e.attributes for e in span.events if e.name == "tool.output"), None)
        return _tool(attributes, common["session"], output)
    return _reading(kind, **common)


def read_session(record: LogRecord) -> Entry | None:
    """What a record of Claude Code tells of; None for any other record."""
    event = _event(record)
    if event is None:
        return None
    attributes = record.attributes
    session = name(attributes.get("session.id")) or first_name(record.resource, ("session.id",))
    found: Reading | None = None
    extra: tuple[Told, ...] = ()
    key = f"{event}:{record.time_ns}:{attributes.get('event.sequence', '')}"
    match event:
        case "tool_result":
            found = _tool(attributes, session, None)
            call_id = name(attributes.get("tool_use_id"))
            key = f"call:{call_id}" if call_id else key
        case "tool_decision":
            found = _decision(attributes, session)
            extra = _refused(record, session)
        case "api_request":
            found = _reading(
                "model_call", session=session, model=_model(attributes), usage=_usage(attributes)
            )
        case "api_error":
            found = _failed(attributes, session)
        case "user_prompt":
            found = _prompt(attributes, session)
    if found is None:
        return Entry(session=session or "", told=())
    return Entry(session=session or "", told=(told(record, event, key, found), *extra))


def _event(record: LogRecord) -> str | None:
    """The record's event without its prefix, which may stand in the body alone."""
    for text in (record.event_name, record.body):
        if isinstance(text, str) and text.startswith(PREFIX):
            return text.removeprefix(PREFIX)
    return record.event_name if "claude_code" in record.scope.name else None


def _reading(kind: StepKind, *, session: Any = None, **fields: Any) -> Reading:
    fields.setdefault("rank", RANK_DISCRIMINATOR)
    return Reading(dialect=DIALECT, kind=kind, agent=_AGENT, conversation_id=session, **fields)


def _model(attributes: Mapping[str, Any]) -> Model:
    reason = name(attributes.get("stop_reason"))
    return Model(
        provider="anthropic",
        request_model=name(attributes.get("model")),
        response_id=first_name(attributes, ("gen_ai.response.id", "request_id")),
        finish_reasons=(reason,) if reason else (),
    )


def _usage(attributes: Mapping[str, Any]) -> Usage | None:
    return usage(attributes, USAGE, apart=True)


def _tool(attributes: Mapping[str, Any], session: Any, output: Mapping[str, Any] | None) -> Reading:
    raw = first(attributes, _ARGUMENTS)
    arguments, given = parse(raw)
    states: dict[str, ContentState] = {"arguments": given} if raw is not None else {}
    gave = first(output or {}, ("output", "content", "tool_output"))
    result, seen = parse(gave)
    if gave is not None:
        states["result"] = seen
    decision = _verdict(attributes) if "decision" in attributes else None
    message = first(attributes, ("error", "error_message"))
    status, error = outcome(flag(attributes.get("success")), message, decision)
    tool, server = name(attributes.get("tool_name")), None
    if isinstance(arguments, dict) and name(arguments.get("mcp_tool_name")):
        tool, server = name(arguments["mcp_tool_name"]), name(arguments.get("mcp_server_name"))
    return _reading(
        "tool_call",
        session=session,
        tool=Tool(
            name=tool,
            namespace=server,
            call_id=first_name(attributes, ("tool_use_id", "gen_ai.tool.call.id")),
            arguments=arguments if arguments is not None else _details(attributes, states),
            result=result,
        ),
        status=status,
        error=error,
        decision=decision,
        content_state=states,
    )


def _details(attributes: Mapping[str, Any], states: dict[str, ContentState]) -> Any:
    """The one argument that a span names by itself."""
    found = {key: attributes[key] for key in ("full_command", "file_path") if key in attributes}
    if found:
        states["arguments"] = "captured"
    return found or None


def _verdict(attributes: Mapping[str, Any]) -> StepDecision:
    source = name(attributes.get("source")) or name(attributes.get("decision_source"))
    return StepDecision(
        effect=effect_word(name(attributes.get("decision"))),
        reasons=(source,) if source else (),
        source="emitter",
    )


def _decision(attributes: Mapping[str, Any], session: Any) -> Reading:
    source = name(attributes.get("source")) or ""
    call = {
        "decision.tool": attributes.get("tool_name"),
        "decision.call_id": attributes.get("tool_use_id"),
    }
    return _reading(
        "human_input" if source.startswith("user") else "policy_decision",
        session=session,
        rank=RANK_DECISION,
        decision=_verdict(attributes),
        attributes={key: value for key, value in call.items() if value},
    )


def _refused(record: LogRecord, session: Any) -> tuple[Told, ...]:
    """The call that a refusal kept from running, where its id tells which."""
    attributes = record.attributes
    decision, call_id = _verdict(attributes), name(attributes.get("tool_use_id"))
    if decision.effect != "deny" or call_id is None:
        return ()
    tool = Tool(name=name(attributes.get("tool_name")), call_id=call_id)
    reading = _reading("tool_call", session=session, tool=tool, status="denied", decision=decision)
    return (told(record, "tool_result", f"call:{call_id}", reading),)


def _failed(attributes: Mapping[str, Any], session: Any) -> Reading:
    code = first(attributes, ("status_code", "error_type"))
    return _reading(
        "model_call",
        session=session,
        model=_model(attributes),
        status="error",
        error=StepError(type=str(code) if code else None, message=name(attributes.get("error"))),
    )


def _prompt(attributes: Mapping[str, Any], session: Any) -> Reading:
    written, state = parse(attributes.get("prompt"))
    said = Message(role="user", parts=(Part(type="text", content=written),))
    return _reading(
        "other",
        session=session,
        subtype="user_prompt",
        messages_in=(said,) if isinstance(written, str) and written else None,
        content_state={"messages_in": state} if "prompt" in attributes else {},
    )
