"""What we add to a span that is sent on: the newest GenAI attributes, and our own.

Rules
1. What the span says itself stands: a GenAI attribute is added only where the key is absent.
2. ``agenttwin.*`` is ours alone and always set from what we know now.
3. The step is one that has passed redaction; nothing is added that is not in it.

Source: OpenTelemetry semantic conventions for generative AI, spans and events.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from processors.model.names import (
    DECISION_EFFECT,
    DECISION_ID,
    DETECTION_CODES,
    OUTCOME_STATUS,
    RECEIPT_ID,
    STEP_KIND,
    StepKind,
)
from processors.model.span import Attributes
from processors.model.step import Agent, Message, Model, Part, Step, Tool, Usage
from processors.model.trace import AgentTrace

_OPERATIONS: Final[dict[StepKind, str]] = {
    "agent": "invoke_agent",
    "model_call": "chat",
    "tool_call": "execute_tool",
    "retrieval": "retrieval",
}
_SUBTYPES: Final = {
    "workflow": "invoke_workflow",
    "create_agent": "create_agent",
    "embedding": "embeddings",
}


def enriched(
    attributes: Attributes, step: Step, trace: AgentTrace, detected: Sequence[str] = ()
) -> Attributes:
    """A span's attributes with what its step and its trace say beside them.

    ``detected`` are the codes of the detections that name the step.
    """
    ours = dict(_ours(step, trace))
    if detected:
        ours[DETECTION_CODES] = list(detected)
    return {**dict(_genai(step, trace)), **attributes, **ours}


def _ours(step: Step, trace: AgentTrace) -> Iterator[tuple[str, Any]]:
    yield OUTCOME_STATUS, trace.outcome.status
    yield STEP_KIND, step.kind
    if step.decision is not None:
        yield DECISION_EFFECT, step.decision.effect
        if step.decision.decision_id:
            yield DECISION_ID, step.decision.decision_id
    if step.receipt_id:
        yield RECEIPT_ID, step.receipt_id


def _genai(step: Step, trace: AgentTrace) -> Iterator[tuple[str, Any]]:
    operation = _SUBTYPES.get(step.subtype or "") or _OPERATIONS.get(step.kind)
    if operation is None:
        return
    yield "gen_ai.operation.name", operation
    if trace.conversation_id:
        yield "gen_ai.conversation.id", trace.conversation_id
    if step.error is not None and step.error.type:
        yield "error.type", step.error.type
    for found in (
        _agent(step.agent),
        _model(step.model),
        _usage(step.usage),
        _tool(step.tool),
        _messages(step),
    ):
        for key, value in found:
            if value is not None:
                yield key, value


def _agent(agent: Agent | None) -> Iterator[tuple[str, Any]]:
    if agent is not None:
        yield "gen_ai.agent.name", agent.name
        yield "gen_ai.agent.id", agent.id
        yield "gen_ai.agent.version", agent.version


def _model(model: Model | None) -> Iterator[tuple[str, Any]]:
    if model is not None:
        yield "gen_ai.provider.name", model.provider
        yield "gen_ai.request.model", model.request_model
        yield "gen_ai.response.model", model.response_model
        yield "gen_ai.response.id", model.response_id
        yield "gen_ai.response.finish_reasons", list(model.finish_reasons) or None


def _usage(usage: Usage | None) -> Iterator[tuple[str, Any]]:
    if usage is not None:
        yield "gen_ai.usage.input_tokens", usage.input
        yield "gen_ai.usage.output_tokens", usage.output
        yield "gen_ai.usage.cache_read.input_tokens", usage.cache_read
        yield "gen_ai.usage.cache_creation.input_tokens", usage.cache_write
        yield "gen_ai.usage.reasoning.output_tokens", usage.reasoning


def _tool(tool: Tool | None) -> Iterator[tuple[str, Any]]:
    if tool is not None:
        yield "gen_ai.tool.name", tool.name
        yield "gen_ai.tool.call.id", tool.call_id
        yield "gen_ai.tool.type", tool.type
        yield "gen_ai.tool.call.arguments", _json(tool.arguments)
        yield "gen_ai.tool.call.result", _json(tool.result)


def _messages(step: Step) -> Iterator[tuple[str, Any]]:
    if step.messages_in:
        yield "gen_ai.input.messages", _json([_message(item) for item in step.messages_in])
    if step.messages_out:
        yield "gen_ai.output.messages", _json([_message(item) for item in step.messages_out])


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "parts": _parts(message.parts)}
    if message.name:
        plain["name"] = message.name
    if message.finish_reason:
        plain["finish_reason"] = message.finish_reason
    return plain


def _parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [_part(part) for part in parts]


def _part(part: Part) -> dict[str, Any]:
    if part.type == "tool_call":
        return {"type": part.type, "id": part.id, "name": part.name, "arguments": part.content}
    if part.type == "tool_call_response":
        return {"type": part.type, "id": part.id, "response": part.content}
    return {"type": part.type, "content": part.content}


def _json(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
