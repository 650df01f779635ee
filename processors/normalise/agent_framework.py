"""Microsoft Agent Framework: workflow spans beside the GenAI conventions.

Rules
1. Building a workflow and moving its messages is no work of the agent: kept as ``other``.
2. An executor is a step of the workflow; the agent inside it has its own span.
3. Edges are span links; they never make parents.

Source: microsoft/agent-framework python/packages/core/agent_framework/observability.py.
"""

from processors.model.fragment import RANK_DISCRIMINATOR, RANK_NOISE, RANK_NONE, Reading
from processors.model.names import StepKind
from processors.model.span import Span
from processors.value import name

DIALECT = "agent_framework"
FAMILIES = frozenset({"workflow", "workflow_builder", "executor", "edge_group", "message"})
EVENTS: frozenset[str] = frozenset()
MAPPED: frozenset[str] = frozenset()
PREFIXES: tuple[str, ...] = ()

NAMES: dict[str, tuple[StepKind, str, int]] = {
    "workflow.build": ("other", "noise", RANK_NOISE),
    "workflow.run": ("other", "workflow", RANK_DISCRIMINATOR),
    "executor.process": ("other", "step", RANK_DISCRIMINATOR),
    "edge_group.process": ("other", "noise", RANK_NOISE),
    "message.send": ("other", "message", RANK_NOISE),
}
_EVIDENCE = ("workflow.id", "workflow.definition", "executor.id", "edge_group.id", "message.type")


def read_span(span: Span) -> Reading | None:
    """What a workflow span is; None for any other span."""
    known = NAMES.get(span.name.split(" ", 1)[0])
    if known is None or not any(key in span.attributes for key in _EVIDENCE):
        return None
    kind, subtype, rank = known
    executor = name(span.attributes.get("executor.id"))
    return Reading(
        dialect=DIALECT,
        kind=kind,
        rank=rank if kind else RANK_NONE,
        subtype=subtype,
        output=span.attributes.get("executor.output"),
        attributes={"executor.id": executor} if executor else {},
    )
