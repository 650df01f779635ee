"""Pydantic AI beside the GenAI conventions: what its first versions call things, and its result.

Rules
1. ``agent run`` and ``running tool`` are what versions 1 and 2 call an agent and a tool call.
2. ``final_result`` is the agent's answer, whatever its last message says.
3. A deferred call is ``deferred``, although older versions report an error.

Source: pydantic-ai pydantic_ai_slim/pydantic_ai/{_instrumentation,capabilities/instrumentation}.py.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.fragment import RANK_DISCRIMINATOR, RANK_NONE, RANK_TOOL, Reading
from processors.model.names import ContentState, StepKind
from processors.model.span import Span
from processors.model.step import Agent, Model, Tool
from processors.value import first_name, name, parse

DIALECT = "pydantic_ai"
FAMILIES = frozenset(
    {
        *("pydantic_ai", "agent_name", "final_result", "tool_arguments", "tool_response"),
        *("tools", "model_name"),
    }
)
EVENTS: frozenset[str] = frozenset()
SCOPES = frozenset({"pydantic-ai", "pydantic_ai"})
DEFERRAL = "pydantic_ai.tool.deferral.name"
MAPPED = frozenset({"agent_name", "model_name", "tool_arguments", "tool_response", DEFERRAL})
PREFIXES: tuple[str, ...] = ()


def read_span(span: Span) -> Reading | None:
    """What Pydantic AI says in words of its own; None for a span of anybody else."""
    if span.scope.name not in SCOPES:
        return None
    attributes = span.attributes
    kind, subtype, rank = _kind(span.name, attributes)
    state: dict[str, ContentState] = {}
    return Reading(
        dialect=DIALECT,
        kind=kind,
        rank=rank,
        subtype=subtype,
        agent=_agent(attributes),
        model=Model(request_model=name(attributes.get("model_name")))
        if kind == "model_call"
        else None,
        output=attributes.get("final_result"),
        tool=_tool(attributes, state),
        status="deferred" if DEFERRAL in attributes else None,
        content_state=state,
    )


def _kind(span_name: str, attributes: Mapping[str, Any]) -> tuple[StepKind | None, str | None, int]:
    if span_name.startswith("running tool") and "gen_ai.tool.name" in attributes:
        return "tool_call", None, RANK_TOOL
    if span_name.startswith("running ") and "gen_ai.tool.name" not in attributes:
        return "other", "step", RANK_DISCRIMINATOR
    if "agent_name" in attributes and "gen_ai.tool.name" not in attributes:
        return "agent", None, RANK_DISCRIMINATOR
    return None, None, RANK_NONE


def _agent(attributes: Mapping[str, Any]) -> Agent | None:
    found = first_name(attributes, ("gen_ai.agent.name", "agent_name"))
    return Agent(name=found) if found else None


def _tool(attributes: Mapping[str, Any], state: dict[str, ContentState]) -> Tool | None:
    found: dict[str, Any] = {}
    for field, key in (("arguments", "tool_arguments"), ("result", "tool_response")):
        if key in attributes:
            found[field], state[field] = parse(attributes[key])
    named, call_id = attributes.get("gen_ai.tool.name"), attributes.get("gen_ai.tool.call.id")
    return Tool(name=name(named), call_id=name(call_id), **found) if found or named else None
