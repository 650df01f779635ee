"""Gemini CLI: OTLP log records ``gemini_cli.*``, grouped by ``session.id``.

Rules
1. ``tool_call`` holds call, result's success and decision in one record; there is no call id.
2. ``api_response`` is a model call, ``api_error`` a failed one; ``api_request`` says nothing more.
3. Cached tokens are part of the input; thoughts are counted into the output.
4. ``conseca.verdict`` is a policy's decision; both of its spellings are read.

Source: google-gemini/gemini-cli docs/cli/telemetry.md, packages/core/src/telemetry/types.ts.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from processors.model.fragment import RANK_DECISION, RANK_DISCRIMINATOR, Reading
from processors.model.message import messages
from processors.model.names import ContentState, StepKind
from processors.model.records import effect_word, flag, outcome, told, usage
from processors.model.session import Entry
from processors.model.span import LogRecord
from processors.model.step import Agent, Message, Model, Part, StepDecision, StepError, Tool, Usage
from processors.value import first_name, name, parse

DIALECT = "gemini_cli"
PREFIX = "gemini_cli."
USAGE = {
    "input": ("input_token_count",),
    "output": ("output_token_count",),
    "cache_read": ("cached_content_token_count",),
    "reasoning": ("thoughts_token_count",),
}
_AGENT = Agent(name="gemini_cli")


def read_session(record: LogRecord) -> Entry | None:
    """What a record of Gemini CLI tells of; None for any other record."""
    if not record.event_name.startswith(PREFIX):
        return None
    attributes = record.attributes
    session = first_name(attributes, ("session.id", "session_id")) or first_name(
        record.resource, ("session.id",)
    )
    event = record.event_name.removeprefix(PREFIX)
    found: Reading | None = None
    match event:
        case "tool_call":
            found = _tool(attributes, session)
        case "api_response":
            found = _response(attributes, session)
        case "api_error":
            found = _failed(attributes, session)
        case "user_prompt":
            found = _prompt(attributes, session)
        case "conseca.verdict":
            found = _verdict(attributes, session)
        case "agent.finish":
            found = _agent(attributes, session)
        case "hook_call" | "approval_mode_switch" | "agent.start":
            found = _reading("other", session, subtype=event, attributes=dict(attributes))
    if found is None:
        return Entry(session=session or "", told=())
    key = f"{event}:{record.time_ns}:{attributes.get('function_name', '')}"
    return Entry(session=session or "", told=(told(record, event, key, found),))


def _reading(kind: StepKind, session: str | None, **fields: Any) -> Reading:
    fields.setdefault("rank", RANK_DISCRIMINATOR)
    fields.setdefault("agent", _AGENT)
    return Reading(dialect=DIALECT, kind=kind, conversation_id=session, **fields)


def _tool(attributes: Mapping[str, Any], session: str | None) -> Reading:
    arguments, state = parse(attributes.get("function_args"))
    written = name(attributes.get("decision"))
    decision = (
        StepDecision(effect=effect_word(written), reasons=(written,), source="emitter")
        if written
        else None
    )
    states: dict[str, ContentState] = {"arguments": state} if "function_args" in attributes else {}
    status, error = outcome(flag(attributes.get("success")), attributes.get("error"), decision)
    kind = name(attributes.get("error_type"))
    return _reading(
        "tool_call",
        session,
        tool=Tool(
            name=name(attributes.get("function_name")),
            namespace=name(attributes.get("mcp_server_name")),
            arguments=arguments,
        ),
        status=status,
        error=StepError(type=kind, message=error.message) if error else None,
        decision=decision,
        content_state=states,
    )


def _response(attributes: Mapping[str, Any], session: str | None) -> Reading:
    counted = usage(attributes, USAGE, apart=False)
    text, state = parse(attributes.get("response_text"))
    reason = name(attributes.get("finish_reason"))
    return _reading(
        "model_call",
        session,
        model=Model(
            provider="gcp.gemini",
            request_model=name(attributes.get("model")),
            finish_reasons=(reason,) if reason else (),
        ),
        usage=_with_thoughts(counted),
        messages_out=_said(text),
        content_state={"messages_out": state} if text else {},
    )


def _with_thoughts(counted: Usage | None) -> Usage | None:
    if counted is None or counted.output is None:
        return counted
    return msgspec.structs.replace(counted, output=counted.output + (counted.reasoning or 0))


def _said(text: Any) -> tuple[Message, ...] | None:
    """The reply: Gemini's own JSON (``candidates``), or plain text."""
    body = text[0] if isinstance(text, list) and text else text
    candidates = body.get("candidates") if isinstance(body, dict) else None
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        return messages(candidates[0].get("content"), "assistant")
    if isinstance(text, str) and text:
        return (Message(role="assistant", parts=(Part(type="text", content=text),)),)
    return None


def _failed(attributes: Mapping[str, Any], session: str | None) -> Reading:
    message = first_name(attributes, ("error", "error.message", "error_message"))
    kind = first_name(attributes, ("error_type", "error.type"))
    return _reading(
        "model_call",
        session,
        model=Model(provider="gcp.gemini", request_model=name(attributes.get("model"))),
        status="error",
        error=StepError(type=kind, message=message),
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


def _verdict(attributes: Mapping[str, Any], session: str | None) -> Reading:
    written = first_name(attributes, ("verdict", "decision"))
    reason = first_name(attributes, ("verdict_rationale", "reason", "error"))
    tool = first_name(attributes, ("tool_name",))
    return _reading(
        "policy_decision",
        session,
        rank=RANK_DECISION,
        decision=StepDecision(
            effect=effect_word(written), reasons=(reason,) if reason else (), source="emitter"
        ),
        attributes={"decision.tool": tool} if tool else {},
    )


def _agent(attributes: Mapping[str, Any], session: str | None) -> Reading:
    agent = name(attributes.get("agent_name"))
    return _reading("agent", session, agent=Agent(name=agent, id=name(attributes.get("agent_id"))))
