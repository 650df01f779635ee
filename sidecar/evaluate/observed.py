"""What is known of one episode when it is judged: one trace, the receipts, the twins' own record.

Rules
1. A call of a twin's tool counts only with the evidence of a receipt; a span alone proves nothing
   about it.
2. ``executed`` means forwarded and not answered from a stored key.
"""

from collections import defaultdict
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
    """The calls of the episode in order; those that prove nothing are left out.

    A step counts as often as the gateway was called for it: a retry is a call.
    """
    found = []
    receipted: dict[str | None, list[Evidence]] = defaultdict(list)
    for item in observed.trace.evidence:
        if item.source == "receipt":
            receipted[item.step_id].append(item)
    for step in observed.trace.steps:
        if step.kind != "tool_call" or step.tool is None:
            continue
        if step.step_id in receipted:
            found += [_receipted(step, item, observed) for item in receipted[step.step_id]]
        elif step.status != "requested_only" and _name(step) not in observed.tools:
            found.append(_unreceipted(step))
    return found


def matching(calls: list[ToolCall], tool: str, arguments: Mapping[str, Any]) -> list[ToolCall]:
    """The calls of that tool (any, when empty) with these arguments."""
    return [
        call
        for call in calls
        if (not tool or call.tool == tool) and (not arguments or matches(call.arguments, arguments))
    ]


def _receipted(step: Step, told: Evidence, observed: Observed) -> ToolCall:
    assert step.tool is not None
    receipt = observed.receipts.get(told.receipt_id or "")
    executed = told.data.get("phase") in ("executed", "authorised")
    # A recording keeps the decision; what went through although it required approval, had one.
    decided = step.decision is not None and step.decision.effect == "require_approval"
    return ToolCall(
        step=step,
        tool=told.subject or _name(step),
        arguments=told.data.get("arguments", step.tool.arguments),
        executed=executed,
        approved=decided and executed if receipt is None else receipt.approval_id is not None,
    )


def _unreceipted(step: Step) -> ToolCall:
    """A call of a tool that no twin declares: there only its span tells of it."""
    assert step.tool is not None
    return ToolCall(
        step=step,
        tool=_name(step),
        arguments=step.tool.arguments,
        executed=step.status in ("ok", "error", "unset"),
        approved=False,
    )


def _name(step: Step) -> str:
    return (step.tool.name if step.tool is not None else None) or step.name
