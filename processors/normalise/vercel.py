"""The AI SDK's own spans (``ai.*``): versions 3 to 6, and 7 with its legacy telemetry.

Rules
1. ``ai.operationId`` decides: the inner ``doGenerate`` or ``doStream`` is the model call, what is
   around it the agent; its tokens are a sum, or the last step's, and never added to theirs.
2. Arguments and results are JSON strings, or objects; a token count of NaN is no count.
3. ``ai.result.*`` is what ``ai.response.*`` was called before version 4.
4. Messages that were cut stay under their own key, state ``truncated``.
5. A call the provider carried out itself is a call of its own: no span of ours runs it.

Source: vercel/ai packages/otel/src/legacy-open-telemetry.ts; its telemetry.mdx.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from processors.model.exchange import prompt
from processors.model.fragment import RANK_DISCRIMINATOR, RANK_NONE, Reading
from processors.model.message import parts
from processors.model.names import ContentState, StepKind
from processors.model.span import Span
from processors.model.step import Agent, Message, Model, Part, Tool, Usage
from processors.value import first, first_integer, first_name, name, parse

DIALECT = "vercel"
FAMILIES = frozenset({"ai"})
EVENTS: frozenset[str] = frozenset()

_INNER: dict[str, tuple[StepKind, str | None]] = {
    "doGenerate": ("model_call", None),
    "doStream": ("model_call", None),
    "doEmbed": ("other", "embedding"),
    "doRerank": ("retrieval", "rerank"),
}
_OUTER: dict[str, tuple[StepKind, str | None]] = {
    "ai.toolCall": ("tool_call", None),
    "ai.embed": ("other", "embedding"),
    "ai.embedMany": ("other", "embedding"),
    "ai.rerank": ("other", "step"),
}
_AGENTS = ("ai.generate", "ai.stream", "ai.agent")
FIELDS: dict[str, tuple[str, ...]] = {
    "conversation_id": (
        *("ai.telemetry.metadata.sessionId", "ai.settings.context.sessionId"),
        *("ai.telemetry.metadata.threadId", "ai.telemetry.metadata.conversationId"),
    ),
    "agent.name": ("ai.telemetry.functionId", "resource.name"),
    "model.provider": ("ai.model.provider", "ai.settings.provider"),
    "model.request_model": ("ai.model.id",),
    "model.response_model": ("ai.response.model",),
    "model.response_id": ("ai.response.id",),
    "model.finish_reasons": ("ai.response.finishReason", "ai.finishReason"),
    "usage.input": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
    "usage.output": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
    "usage.cache_read": (
        *("ai.usage.cachedInputTokens", "ai.usage.inputTokenDetails.cacheReadTokens"),
    ),
    "usage.cache_write": ("ai.usage.inputTokenDetails.cacheWriteTokens",),
    "usage.reasoning": (
        *("ai.usage.reasoningTokens", "ai.usage.outputTokenDetails.reasoningTokens"),
    ),
    "messages_in": ("ai.prompt.messages", "ai.prompt"),
    "text": ("ai.response.text", "ai.result.text"),
    "object": ("ai.response.object", "ai.result.object"),
    "calls": ("ai.response.toolCalls", "ai.result.toolCalls"),
    "reasoning": ("ai.response.reasoning",),
    "tool.name": ("ai.toolCall.name",),
    "tool.call_id": ("ai.toolCall.id",),
    "tool.arguments": ("ai.toolCall.args", "ai.toolCall.input"),
    "tool.result": ("ai.toolCall.result", "ai.toolCall.output"),
}
MAPPED = frozenset(key for keys in FIELDS.values() for key in keys) - frozenset(
    FIELDS["messages_in"]
) | {"ai.operationId", "operation.name", "ai.prompt.tools", "ai.usage.totalTokens"}
PREFIXES: tuple[str, ...] = ("ai.usage.",)


def read_span(span: Span) -> Reading | None:
    """What the span says in the AI SDK's words; None for a span of anything else."""
    attributes = span.attributes
    operation = name(attributes.get("ai.operationId"))
    if operation is None and not any(key.startswith("ai.toolCall.") for key in attributes):
        return None
    kind, subtype = _kind(operation or "ai.toolCall")
    state: dict[str, ContentState] = {}
    base = Reading(
        dialect=DIALECT,
        kind=kind,
        rank=RANK_DISCRIMINATOR if kind else RANK_NONE,
        subtype=subtype,
        agent=_agent(attributes) if kind == "agent" else None,
        model=_model(attributes) if kind in ("agent", "model_call") else None,
        usage=_usage(attributes),
        conversation_id=first_name(attributes, FIELDS["conversation_id"]),
        content_state=state,
    )
    if kind == "tool_call":
        tool = _tool(attributes, state)
        denied = isinstance(tool.result, dict) and tool.result.get("denied") is True
        return replace(base, tool=tool, status="denied" if denied else None)
    if kind == "model_call":
        said = _said(attributes, base.model, with_calls=True)
        return _with_prompt(attributes, replace(base, messages_out=said), state)
    said = _said(attributes, base.model, with_calls=False)
    output = first(attributes, FIELDS["text"] + FIELDS["object"])
    return replace(base, messages_out=said if kind == "agent" else None, output=output)


def _kind(operation: str) -> tuple[StepKind | None, str | None]:
    inner = _INNER.get(operation.rpartition(".")[2])
    if inner is not None:
        return inner
    if operation in _OUTER:
        return _OUTER[operation]
    return ("agent", None) if operation.startswith(_AGENTS) else ("other", "step")


def _agent(attributes: Mapping[str, Any]) -> Agent | None:
    named = first_name(attributes, FIELDS["agent.name"])
    return Agent(name=named) if named else None


def _model(attributes: Mapping[str, Any]) -> Model:
    reason = first_name(attributes, FIELDS["model.finish_reasons"])
    return Model(
        provider=first_name(attributes, FIELDS["model.provider"]),
        request_model=first_name(attributes, FIELDS["model.request_model"]),
        response_model=first_name(attributes, FIELDS["model.response_model"]),
        response_id=first_name(attributes, FIELDS["model.response_id"]),
        finish_reasons=(reason,) if reason else (),
    )


def _usage(attributes: Mapping[str, Any]) -> Usage | None:
    counts = {
        field: first_integer(attributes, FIELDS[f"usage.{field}"])
        for field in ("input", "output", "cache_read", "cache_write", "reasoning")
    }
    if counts["input"] is None and counts["output"] is None:
        return None
    if counts["cache_read"] is None:
        counts["cache_read"] = _told_by_provider(attributes, "cachedPromptTokens")
    if counts["reasoning"] is None:
        counts["reasoning"] = _told_by_provider(attributes, "reasoningTokens")
    return Usage(**counts, scope="own")


def _told_by_provider(attributes: Mapping[str, Any], field: str) -> int | None:
    """A count that version 4 leaves in the provider's own metadata."""
    told, _ = parse(attributes.get("ai.response.providerMetadata"))
    nodes = (
        [node for node in told.values() if isinstance(node, dict)] if isinstance(told, dict) else []
    )
    return next((n for node in nodes if (n := first_integer(node, (field,))) is not None), None)


def _with_prompt(
    attributes: Mapping[str, Any], reading: Reading, state: dict[str, ContentState]
) -> Reading:
    key = next((key for key in FIELDS["messages_in"] if key in attributes), None)
    if key is None:
        return reading
    value, state["messages_in"] = parse(attributes[key])
    shown = prompt(value) if state["messages_in"] in ("captured", "repr") else None
    return replace(
        reading,
        messages_in=shown,
        attributes={} if shown is not None else {key: attributes[key]},
    )


def _said(
    attributes: Mapping[str, Any], model: Model | None, *, with_calls: bool
) -> tuple[Message, ...] | None:
    found: list[Part] = []
    reasoning = attributes.get("ai.response.reasoning")
    if reasoning and with_calls:
        found.append(Part(type="reasoning", content=reasoning))
    found.extend(parts(first(attributes, FIELDS["text"])))
    made = first(attributes, FIELDS["object"])
    if made is not None and not any(part.type == "text" for part in found):
        found.append(Part(type="text", content=made))
    if with_calls:
        found.extend(_calls(first(attributes, FIELDS["calls"])))
    if not found:
        return None
    reason = model.finish_reasons[0] if model and model.finish_reasons else None
    return (Message(role="assistant", parts=tuple(found), finish_reason=reason),)


def _calls(raw: Any) -> tuple[Part, ...]:
    listed, _ = parse(raw)
    if not isinstance(listed, list):
        return ()
    calls = [call for call in listed if isinstance(call, dict)]
    return parts([{**call, "type": "tool-call"} for call in calls])


def _tool(attributes: Mapping[str, Any], state: dict[str, ContentState]) -> Tool:
    found: dict[str, Any] = {}
    for field in ("arguments", "result"):
        raw = first(attributes, FIELDS[f"tool.{field}"])
        if raw is not None:
            found[field], state[field] = parse(raw)
    return Tool(
        name=first_name(attributes, FIELDS["tool.name"]),
        call_id=first_name(attributes, FIELDS["tool.call_id"]),
        **found,
    )
