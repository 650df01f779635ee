"""OpenLIT: the GenAI conventions with keys and operations of its own.

Rules
1. ``span.type`` of an OpenAI Agents span decides before the operation, which is ``chat`` on all.
2. What it calls ``gen_ai.tool.{args,arguments}`` and ``.{result,output}`` are arguments and result.
3. Its histories leave out messages that hold nothing but tool calls: an answer's id alone tells
   which call it answers.

Source: openlit/openlit sdk/python/src/openlit/{semcov,instrumentation/*}.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.fragment import RANK_HANDOFF, RANK_NONE, RANK_OPERATION, Reading
from processors.model.names import ContentState, StepKind
from processors.model.span import Span
from processors.model.step import Agent, Tool
from processors.value import first, first_name, name, parse

DIALECT = "openlit"
FAMILIES = frozenset({"telemetry", "openlit"})
EVENTS: frozenset[str] = frozenset()

TYPES: dict[str, tuple[StepKind, str | None, int]] = {
    "agent": ("agent", None, RANK_OPERATION),
    "generation": ("model_call", None, RANK_OPERATION),
    "response": ("model_call", None, RANK_OPERATION),
    "function": ("tool_call", None, RANK_OPERATION),
    "tool": ("tool_call", None, RANK_OPERATION),
    "handoff": ("handoff", None, RANK_HANDOFF),
    "guardrail": ("guardrail", None, RANK_OPERATION),
}
OPERATIONS: dict[str, tuple[StepKind, str | None, int]] = {
    "framework": ("other", "workflow", RANK_OPERATION),
    "vectordb": ("retrieval", None, RANK_OPERATION),
    "agent": ("agent", None, RANK_OPERATION),
    "task": ("other", "step", RANK_OPERATION),
}
FIELDS: dict[str, tuple[str, ...]] = {
    "arguments": ("gen_ai.tool.arguments", "gen_ai.tool.args", "gen_ai.tool.input"),
    "result": ("gen_ai.tool.result", "gen_ai.tool.output"),
    "output": ("gen_ai.agent.actual_output", "gen_ai.workflow.output", "gen_ai.agent.output"),
    "handoff.to": ("gen_ai.handoff.target_agent",),
    "agent.name": ("gen_ai.agent.name", "gen_ai.agent.role"),
}
MAPPED = frozenset(key for keys in FIELDS.values() for key in keys)
PREFIXES: tuple[str, ...] = ()


def read_span(span: Span) -> Reading | None:
    """What OpenLIT writes in its own way; None for a span of anybody else."""
    attributes = span.attributes
    if "openlit" not in (attributes.get("telemetry.sdk.name"), span.scope.name.partition(".")[0]):
        return None
    kind, subtype, rank = _kind(attributes)
    state: dict[str, ContentState] = {}
    target = first_name(attributes, FIELDS["handoff.to"])
    named = first_name(attributes, FIELDS["agent.name"])
    return Reading(
        dialect=DIALECT,
        kind=kind,
        rank=rank,
        subtype=subtype,
        agent=Agent(name=named) if named else None,
        output=first(attributes, FIELDS["output"]),
        tool=_tool(attributes, state),
        content_state=state,
        attributes={"handoff.to": target} if target else {},
    )


def _kind(attributes: Mapping[str, Any]) -> tuple[StepKind | None, str | None, int]:
    typed = TYPES.get(name(attributes.get("span.type")) or "")
    if typed is not None:
        return typed
    operation = name(attributes.get("gen_ai.operation.name")) or ""
    return OPERATIONS.get(operation, (None, None, RANK_NONE))


def _tool(attributes: Mapping[str, Any], state: dict[str, ContentState]) -> Tool | None:
    found: dict[str, Any] = {}
    for field in ("arguments", "result"):
        raw = first(attributes, FIELDS[field])
        if raw is not None:
            found[field], state[field] = parse(raw)
    called = name(attributes.get("gen_ai.tool.name"))
    return Tool(name=called, **found) if found or called else None
