"""Redaction of one step: which of its fields are names, which are content.

Rules
1. Ids of spans, steps, receipts and decisions are references and are never touched.
2. A content field that loses anything has the state ``redacted``; a field that held nothing keeps
   the state it had.
"""

from operator import is_
from typing import Any, Final

from msgspec.structs import replace

from processors.model.names import ContentState
from processors.model.step import Agent, Model, Source, Step, StepDecision, StepError, Tool
from processors.redact.keeping import Keeping

_TAKEN: Final[ContentState] = "redacted"
_EMPTY: Final[tuple[object, ...]] = ("", {}, [], ())


def redact_step(step: Step, keep: Keeping) -> Step:
    """The step as it may be kept."""
    states: dict[str, ContentState] = {}
    fields: dict[str, Any] = {
        "name": keep.name(step.name),
        "attributes": keep.attributes(step.attributes),
    }
    if step.messages_in is not None:
        fields["messages_in"] = _content("messages_in", step.messages_in, keep.messages, states)
    if step.messages_out is not None:
        fields["messages_out"] = _content("messages_out", step.messages_out, keep.messages, states)
    if step.output is not None:
        fields["output"] = _content("output", step.output, keep.value, states)
    if step.tool is not None:
        fields["tool"] = _tool(step.tool, keep, states)
    if step.subtype:
        fields["subtype"] = keep.name(step.subtype)
    if step.agent is not None:
        fields["agent"] = _agent(step.agent, keep)
    if step.error is not None:
        fields["error"] = _error(step.error, keep)
    if step.model is not None:
        fields["model"] = _model(step.model, keep)
    if step.decision is not None:
        fields["decision"] = _decision(step.decision, keep)
    sources = tuple([_source(source, keep) for source in step.sources])
    if not all(map(is_, sources, step.sources)):
        fields["sources"] = sources
    if states:
        fields["content_state"] = {**step.content_state, **states}
    return replace(step, **fields)


def _content(field: str, value: Any, kept: Any, states: dict[str, ContentState]) -> Any:
    if value is None:
        return None
    after = kept(value)
    if after is not value and after != value and value not in _EMPTY:
        states[field] = _TAKEN
    return after


def _name(text: str | None, keep: Keeping) -> str | None:
    return keep.name(text) if text else text


def _agent(agent: Agent, keep: Keeping) -> Agent:
    name, id_ = _name(agent.name, keep), _name(agent.id, keep)
    version = _name(agent.version, keep)
    if name is agent.name and id_ is agent.id and version is agent.version:
        return agent
    return Agent(name=name, id=id_, version=version)


def _error(error: StepError, keep: Keeping) -> StepError:
    return StepError(
        type=keep.code(error.type) if error.type else error.type,
        message=keep.text(error.message) if error.message else error.message,
        inferred=error.inferred,
    )


def _model(model: Model, keep: Keeping) -> Model:
    before = (model.provider, model.request_model, model.response_model, model.response_id)
    provider, request_model, response_model, response_id = after = [
        keep.name(text) if text else text for text in before
    ]
    reasons = tuple([keep.name(reason) for reason in model.finish_reasons])
    if all(map(is_, after, before)) and all(map(is_, reasons, model.finish_reasons)):
        return model
    return Model(
        provider=provider,
        request_model=request_model,
        response_model=response_model,
        response_id=response_id,
        finish_reasons=reasons,
    )


def _tool(tool: Tool, keep: Keeping, states: dict[str, ContentState]) -> Tool:
    return replace(
        tool,
        name=_name(tool.name, keep),
        namespace=_name(tool.namespace, keep),
        call_id=_name(tool.call_id, keep),
        type=_name(tool.type, keep),
        arguments=_content("arguments", tool.arguments, keep.value, states),
        result=_content("result", tool.result, keep.value, states),
    )


def _decision(decision: StepDecision, keep: Keeping) -> StepDecision:
    reasons = (keep.code(reason) for reason in decision.reasons)
    return replace(decision, reasons=tuple(reason for reason in reasons if reason is not None))


def _source(source: Source, keep: Keeping) -> Source:
    if source.ref is None or source.kind == "receipt":
        return source
    ref = keep.code(source.ref)
    return source if ref is source.ref else replace(source, ref=ref)
