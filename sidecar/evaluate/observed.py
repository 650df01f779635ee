"""What is known of one episode when it is judged: one trace, the receipts, the twins' own record.

Rules
1. A call of a twin's tool counts only with a receipt (or the evidence of one, in a recording) or a
   twin event behind it; a span alone proves nothing about it.
2. ``executed`` means forwarded and not answered from a stored key.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from processors.model.call import Receipt
from processors.model.evidence import Evidence
from processors.model.names import SideEffectClass
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.model.twin import Change, TwinEvent
from sidecar.evaluate.matching import matches


class WorldView(Protocol):
    """The twins' final world, for state expectations."""

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """What CEL may call (``row``, ``rows``, ``count``, …)."""
        ...

    @property
    def flags(self) -> Mapping[str, Any]:
        """The flags by name."""
        ...

    def row(self, entity: str, key: Any) -> Any:
        """The row, or None."""
        ...


class Observed(Struct, frozen=True, kw_only=True):
    """One episode, ended. ``world`` is None where no twin took part (recorded behaviour)."""

    trace: AgentTrace
    tools: dict[str, SideEffectClass]
    receipts: dict[str, Receipt] = {}
    events: tuple[TwinEvent, ...] = ()
    changes: tuple[Change, ...] = ()
    world: WorldView | None = None


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call of a tool, and whether it went through; ``approved`` when an approval was used
    up.
    """

    step: Step
    tool: str
    arguments: Any
    executed: bool
    approved: bool


def tool_calls(observed: Observed) -> list[ToolCall]:
    """The calls of the episode in order; those that prove nothing are left out."""
    found = []
    by_call = {event.call_id: event for event in observed.events if event.kind != "fault_fired"}
    by_step = {item.step_id: item for item in observed.trace.evidence if item.source == "receipt"}
    for step in observed.trace.steps:
        if step.kind != "tool_call" or step.tool is None or step.status == "requested_only":
            continue
        name = step.tool.name or step.name
        receipt = observed.receipts.get(step.receipt_id or "")
        event = by_call.get(step.tool.call_id or "")
        told = by_step.get(step.step_id) if receipt is None else None
        if name in observed.tools and receipt is None and event is None and told is None:
            continue
        found.append(
            ToolCall(
                step=step,
                tool=name,
                arguments=step.tool.arguments,
                executed=_executed(step, receipt, event, told),
                approved=_approved(step, receipt, told),
            )
        )
    return found


def matching(calls: list[ToolCall], tool: str, arguments: Mapping[str, Any]) -> list[ToolCall]:
    """The calls of that tool (any, when empty) with these arguments."""
    return [
        call
        for call in calls
        if (not tool or call.tool == tool) and (not arguments or matches(call.arguments, arguments))
    ]


def _executed(
    step: Step, receipt: Receipt | None, event: TwinEvent | None, told: Evidence | None
) -> bool:
    if receipt is not None:
        return receipt.phase == "executed"
    if told is not None:
        return bool(told.data.get("phase") == "executed")
    if event is not None:
        return event.kind in ("answered", "unanswered", "refused")
    return step.status in ("ok", "error", "unset")


def _approved(step: Step, receipt: Receipt | None, told: Evidence | None) -> bool:
    if receipt is not None:
        return receipt.approval_id is not None
    # A recording keeps the decision; what went through although it required approval, had one.
    decided = step.decision is not None and step.decision.effect == "require_approval"
    return decided and told is not None and told.data.get("phase") == "executed"
