"""Redaction of one step: which of its fields are names, which are content.

Rules
1. Ids of spans, steps, receipts and decisions are references and are never touched.
2. A content field that loses anything has the state ``redacted``; a field that held nothing keeps
   the state it had.
"""

from typing import Any, Final

from msgspec.structs import replace

from processors.model.names import ContentState
from processors.model.step import Agent, Model, Source, Step, StepDecision, StepError, Tool
from processors.redact.keeping import Keeping

_TAKEN: Final[ContentState] = "redacted"
_EMPTY: Final[tuple[object, ...]] = ("", {}, [], ())


def redact_step(step: Step, keep: Keeping) -> Step:
    """The step as it may be kept."""
    states = dict(step.content_state)
    messages_in = _content("messages_in", step.messages_in, keep.messages, states)
    messages_out = _content("messages_out", step.messages_out, keep.messages, states)
    return replace(
        step,
        name=keep.name(step.name),
        subtype=_name(step.subtype, keep),
        agent=_agent(step.agent, keep),
        error=_error(step.error, keep),
        model=_model(step.model, keep),
        messages_in=messages_in,
        messages_out=messages_out,
        output=_content("output", step.output, keep.value, states),
        tool=_tool(step.tool, keep, states),
        decision=_decision(step.decision, keep),
        attributes=keep.attributes(step.attributes),
        sources=tuple(_source(source, keep) for source in step.sources),
        content_state=states,
    )


def _content(field: str, value: Any, kept: Any, states: dict[str, ContentState]) -> Any:
    if value is None:
        return None
    after = kept(value)
    if after != value and value not in _EMPTY:
        states[field] = _TAKEN
    return after


def _name(text: str | None, keep: Keeping) -> str | None:
    return keep.name(text) if text else text


def _agent(agent: Agent | None, keep: Keeping) -> Agent | None:
    if agent is None:
        return None
    return Agent(
        name=_name(agent.name, keep), id=_name(agent.id, keep), version=_name(agent.version, keep)
    )


def _error(error: StepError | None, keep: Keeping) -> StepError | None:
    if error is None:
        return None
    return StepError(
        type=keep.code(error.type) if error.type else error.type,
        message=keep.text(error.message) if error.message else error.message,
        inferred=error.inferred,
    )


def _model(model: Model | None, keep: Keeping) -> Model | None:
    if model is None:
        return None
    return Model(
        provider=_name(model.provider, keep),
        request_model=_name(model.request_model, keep),
        response_model=_name(model.response_model, keep),
        response_id=_name(model.response_id, keep),
        finish_reasons=tuple(keep.name(reason) for reason in model.finish_reasons),
    )


def _tool(tool: Tool | None, keep: Keeping, states: dict[str, ContentState]) -> Tool | None:
    if tool is None:
        return None
    return replace(
        tool,
        name=_name(tool.name, keep),
        namespace=_name(tool.namespace, keep),
        call_id=_name(tool.call_id, keep),
        type=_name(tool.type, keep),
        arguments=_content("arguments", tool.arguments, keep.value, states),
        result=_content("result", tool.result, keep.value, states),
    )


def _decision(decision: StepDecision | None, keep: Keeping) -> StepDecision | None:
    if decision is None:
        return None
    reasons = (keep.code(reason) for reason in decision.reasons)
    return replace(decision, reasons=tuple(reason for reason in reasons if reason is not None))


def _source(source: Source, keep: Keeping) -> Source:
    if source.ref is None or source.kind == "receipt":
        return source
    return replace(source, ref=keep.code(source.ref))
