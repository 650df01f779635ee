"""Genkit: ``genkit:…`` keys, one span for each action.

Rules
1. ``genkit:metadata:subtype`` decides the kind; a ``generate`` around the others is glue.
2. A model's reply, its usage and the provider's raw reply stand in ``genkit:output``.
3. A flow is the run of an agent: its output is the answer.
4. A tool that interrupts its run has not failed: it waits for someone (``deferred``).

Source: firebase/genkit js/core/src/tracing/instrumentation.ts, js/ai/src/model-types.ts.
"""

from typing import Any

from processors.model.exchange import response_facts
from processors.model.fragment import RANK_DISCRIMINATOR, Reading
from processors.model.message import messages
from processors.model.names import ContentState, StepKind, StepStatus
from processors.model.span import Span
from processors.model.step import Agent, Message, Model, Tool, Usage
from processors.value import first_integer, name, parse

DIALECT = "genkit"
FAMILIES = frozenset({"genkit:type", "genkit:name"})
EVENTS: frozenset[str] = frozenset()
MAPPED = frozenset(
    {
        *("genkit:type", "genkit:metadata:subtype", "genkit:key", "genkit:name", "genkit:path"),
        *("genkit:input", "genkit:output", "genkit:state", "genkit:isRoot"),
    }
)
PREFIXES: tuple[str, ...] = ()

SUBTYPES: dict[str, tuple[StepKind, str | None]] = {
    **dict.fromkeys(("model", "background-model"), ("model_call", None)),
    **dict.fromkeys(("tool", "tool.v2"), ("tool_call", None)),
    **dict.fromkeys(("flow", "agent", "session-flow"), ("agent", None)),
    **dict.fromkeys(("prompt", "executable-prompt"), ("other", "prompt")),
    "retriever": ("retrieval", None),
    "reranker": ("retrieval", "rerank"),
    "embedder": ("other", "embedding"),
    "evaluator": ("evaluation", None),
}
USAGE = {
    "input": ("inputTokens",),
    "output": ("outputTokens",),
    "cache_read": ("cachedContentTokens",),
    "reasoning": ("thoughtsTokens",),
}
_PLUGINS = {"googleai": "gcp.gemini", "googlegenai": "gcp.gemini", "vertexai": "gcp.vertex_ai"}
_INTERRUPT = "ToolInterruptError"


def read_span(span: Span) -> Reading | None:
    """What a Genkit action's span says; None for any other span."""
    attributes = span.attributes
    action = name(attributes.get("genkit:name"))
    if "genkit:type" not in attributes and action is None:
        return None
    subtype = name(attributes.get("genkit:metadata:subtype"))
    kind, refined = SUBTYPES.get(subtype or "", ("other", "step"))
    given, given_state = parse(attributes.get("genkit:input"))
    gave, gave_state = parse(attributes.get("genkit:output"))
    state: dict[str, ContentState] = {}
    tool: Tool | None = None
    if kind == "tool_call":
        tool = Tool(name=action, arguments=given, result=gave)
        states = (("arguments", "input", given_state), ("result", "output", gave_state))
        state = {field: seen for field, key, seen in states if f"genkit:{key}" in attributes}
    model = kind == "model_call"
    return Reading(
        dialect=DIALECT,
        kind=kind,
        rank=RANK_DISCRIMINATOR,
        subtype=refined,
        agent=Agent(name=action) if kind == "agent" and action else None,
        model=_model(action, gave) if model else None,
        usage=_usage(gave) if model else None,
        messages_in=_shown(given) if model else None,
        messages_out=_said(gave) if model else None,
        output=None if model or tool else attributes.get("genkit:output"),
        tool=tool,
        status=_status(span),
        content_state=state,
    )


def _model(action: str | None, reply: Any) -> Model:
    """``plugin/model``: the plugin is the provider's."""
    plugin, _, model = (action or "").rpartition("/")
    body = reply if isinstance(reply, dict) else {}
    response_id, response_model, _ = response_facts(body.get("raw") or body.get("custom"))
    reason = name(body.get("finishReason"))
    return Model(
        provider=_PLUGINS.get(plugin.lower(), plugin.partition("/")[0] or None),
        request_model=model or action,
        response_model=response_model,
        response_id=response_id,
        finish_reasons=(reason,) if reason else (),
    )


def _usage(reply: Any) -> Usage | None:
    usage = reply.get("usage") if isinstance(reply, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = {field: first_integer(usage, keys) for field, keys in USAGE.items()}
    return (
        Usage(**counts, scope="own")
        if any(count is not None for count in counts.values())
        else None
    )


def _shown(request: Any) -> tuple[Message, ...] | None:
    return messages(request.get("messages")) if isinstance(request, dict) else None


def _said(reply: Any) -> tuple[Message, ...] | None:
    if not isinstance(reply, dict):
        return None
    candidates = reply.get("candidates")  # before 0.9: a list of candidates
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        reply = candidates[0]
    return messages(reply.get("message"), "assistant")


def _status(span: Span) -> StepStatus | None:
    words = [span.status_message, *(str(e.attributes.get("exception.type")) for e in span.events)]
    if any(_INTERRUPT in word for word in words):
        return "deferred"
    return "error" if span.attributes.get("genkit:state") == "error" else None
