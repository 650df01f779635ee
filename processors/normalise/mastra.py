"""Mastra: ``mastra.span.type``; before 1.0 also bare keys ``input`` and ``output``.

Rules
1. Before 1.0 one ``chat`` span holds the whole loop: each ``step`` in it is the model call. From
   1.0 the call is the ``model_inference`` inside the step.
2. Chunks of a stream are no calls.
3. A reply's id, model and token counts stand in the provider's raw ``body``.

Source: mastra-ai/mastra observability/otel-exporter, packages/core/src/ai-tracing.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.exchange import counts, prompt, response_facts
from processors.model.fragment import RANK_DISCRIMINATOR, RANK_HANDOFF, Reading
from processors.model.message import call_part, parts
from processors.model.names import ContentState, StepKind
from processors.model.span import Span
from processors.model.step import Agent, Message, Model, Tool
from processors.value import first, first_name, name, parse

DIALECT = "mastra"
FAMILIES = frozenset({"mastra.span.type"})
EVENTS: frozenset[str] = frozenset()
MAPPED = frozenset(
    {"mastra.span.type", "gen_ai.tool.input", "gen_ai.tool.output", "mastra.agent_run.output"}
)
PREFIXES: tuple[str, ...] = ()
TYPES: dict[str, tuple[StepKind, str | None, int]] = {
    "agent_run": ("agent", None, RANK_HANDOFF),
    "tool_call": ("tool_call", None, RANK_DISCRIMINATOR),
    "mcp_tool_call": ("tool_call", None, RANK_DISCRIMINATOR),
    "model_chunk": ("other", "chunk", RANK_HANDOFF),
    "workflow_run": ("other", "workflow", RANK_HANDOFF),
    "workflow_step": ("other", "step", RANK_HANDOFF),
    "processor_run": ("guardrail", None, RANK_HANDOFF),
    "workflow_sleep": ("other", "step", RANK_HANDOFF),
    "workflow_conditional": ("other", "step", RANK_HANDOFF),
}
_STEP = "model.step"


def read_span(span: Span) -> Reading | None:
    """What a Mastra span says; None for any other span."""
    attributes = span.attributes
    written = name(attributes.get("mastra.span.type"))
    if written == "model_step" and attributes.get("gen_ai.operation.name") == _STEP:
        return _step(attributes)
    if written not in TYPES:
        return None
    kind, subtype, rank = TYPES[written]
    if kind == "tool_call":
        return _tool(span.name, attributes, rank)
    if kind == "agent":
        return _agent(span.name, attributes, rank)
    return Reading(dialect=DIALECT, kind=kind, rank=rank, subtype=subtype)


def _agent(span_name: str, attributes: Mapping[str, Any], rank: int) -> Reading:
    named = first_name(attributes, ("gen_ai.agent.name", "gen_ai.agent.id", "agent.id"))
    gave, _ = parse(first(attributes, ("mastra.agent_run.output", "output")))
    answer = gave.get("text") if isinstance(gave, dict) else gave
    return Reading(
        dialect=DIALECT,
        kind="agent",
        rank=rank,
        agent=Agent(name=named or name(span_name.removeprefix("agent."))),
        output=answer if isinstance(answer, str) else None,
    )


def _tool(span_name: str, attributes: Mapping[str, Any], rank: int) -> Reading:
    state: dict[str, ContentState] = {}
    given = first(attributes, ("gen_ai.tool.call.arguments", "gen_ai.tool.input", "input"))
    gave = first(attributes, ("gen_ai.tool.call.result", "gen_ai.tool.output", "output"))
    arguments, state_in = parse(given)
    result, state_out = parse(gave)
    if given is not None:
        state["arguments"] = state_in
    if gave is not None:
        state["result"] = state_out
    named = first_name(attributes, ("gen_ai.tool.name",))
    return Reading(
        dialect=DIALECT,
        kind="tool_call",
        rank=rank,
        tool=Tool(
            name=named or name(span_name.rpartition(" ")[2]), arguments=arguments, result=result
        ),
        content_state=state,
    )


def _step(attributes: Mapping[str, Any]) -> Reading:
    """A step before 1.0: request, reply and the provider's raw reply on one span."""
    given, _ = parse(attributes.get("input"))
    gave, _ = parse(attributes.get("output"))
    raw, _ = parse(attributes.get("body"))
    response_id, model, reasons = response_facts(raw)
    return Reading(
        dialect=DIALECT,
        kind="model_call",
        rank=RANK_HANDOFF,
        model=Model(
            response_model=name(attributes.get("modelId")) or model,
            response_id=name(attributes.get("id")) or response_id,
            finish_reasons=reasons,
        ),
        usage=counts(raw.get("usage")) if isinstance(raw, dict) else None,
        messages_in=prompt(given.get("body", given)) if isinstance(given, dict) else None,
        messages_out=_said(gave),
    )


def _said(gave: Any) -> tuple[Message, ...] | None:
    if not isinstance(gave, dict):
        return None
    calls = gave.get("toolCalls")
    asked = tuple(call_part(call) for call in calls if call) if isinstance(calls, list) else ()
    found = (*parts(gave.get("text")), *asked)
    return (Message(role="assistant", parts=found),) if found else None
