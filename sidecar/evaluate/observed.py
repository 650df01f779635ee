"""What is known of one episode when it is judged: one trace, the receipts, the twins' own record.

Rules
1. A call of a twin's tool counts only with the evidence of a receipt; a span alone proves nothing
   about it. What a tape recorded counts: it is the record of the call itself.
2. ``executed`` means forwarded and not answered from a stored key.
3. A recording has the fidelity of what it lacks: L0 names, times and status; L1 what was asked can
   be compared; L2 arguments, results and texts; L3 every seam. Where twins took part it is L2.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, json

from processors.model.call import Receipt
from processors.model.evidence import Evidence
from processors.model.names import SideEffectClass
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.model.twin import Change, TwinEvent
from sidecar.evaluate.matching import matches
from sidecar.evaluate.opinion import Opinion

Fidelity = Literal["L0", "L1", "L2", "L3"]
FIDELITIES: Final[tuple[Fidelity, ...]] = ("L0", "L1", "L2", "L3")
_KEPT: Final = frozenset({"captured", "redacted", "recovered", "empty", "null"})


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

    @property
    def secrets(self) -> Mapping[str, tuple[str, ...]]:
        """The fields that twins declare secret, by entity."""
        ...

    def row(self, entity: str, key: Any) -> Any:
        """The row, or None."""
        ...


class Observed(Struct, frozen=True, kw_only=True):
    """One episode, ended. ``world`` is None where no twin took part (recorded behaviour).

    ``opinions`` are a judge's, by the expectation's id; ``said`` the agent's answers before the
    last, in a conversation.
    """

    trace: AgentTrace
    tools: dict[str, SideEffectClass]
    receipts: dict[str, Receipt] = {}
    events: tuple[TwinEvent, ...] = ()
    changes: tuple[Change, ...] = ()
    world: WorldView | None = None
    opinions: Mapping[str, Opinion] = {}
    said: tuple[str, ...] = ()

    @property
    def fidelity(self) -> Fidelity:
        """How much is known of it."""
        tools = [step for step in self.trace.steps if step.kind == "tool_call" and step.tool]
        if self.world is not None or all(_has_arguments(step) for step in tools):
            return "L2"
        signed = {item.step_id for item in self.trace.evidence if item.data.get("action")}
        return "L1" if all(step.step_id in signed for step in tools) else "L0"


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call of a tool, and whether it went through; ``approved`` when an approval was used
    up.

    ``status`` is the HTTP status the agent got, ``held`` whether an effect is known to be there,
    ``key`` names the idempotency key (never the key itself), ``sign`` is equal for equal arguments;
    each None where it is not known.
    """

    step: Step
    tool: str
    arguments: Any
    executed: bool
    approved: bool
    status: int | None = None
    held: bool | None = None
    key: str | None = None
    sign: str | None = None
    call_id: str | None = None
    waits: bool = False

    @property
    def failed(self) -> bool:
        """Whether the agent was told that it failed, or was told nothing; waiting is no failure."""
        if self.waits:
            return False
        if self.status is not None:
            return self.status >= 400
        return self.step.status in ("error", "denied", "cancelled")


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
        elif step.status != "requested_only" and (taped(step) or _name(step) not in observed.tools):
            found.append(_unreceipted(step))
    return found


def matching(calls: list[ToolCall], tool: str, arguments: Mapping[str, Any]) -> list[ToolCall]:
    """The calls of that tool (any, when empty) with these arguments."""
    return [
        call
        for call in calls
        if (not tool or call.tool == tool) and (not arguments or matches(call.arguments, arguments))
    ]


def step_of(event: TwinEvent, observed: Observed) -> str | None:
    """The step whose call an event of a twin answered."""
    receipts = {
        one.receipt_id for one in observed.receipts.values() if one.call_id == event.call_id
    }
    for step in observed.trace.steps:
        tool_call_id = step.tool.call_id if step.tool else None
        if step.receipt_id in receipts or (event.call_id and tool_call_id == event.call_id):
            return step.step_id
    return None


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
        status=told.data.get("status"),
        held=told.held,
        key=receipt.key_hash if receipt is not None else told.data.get("key"),
        sign=_sign(told.data.get("arguments", step.tool.arguments), told.data.get("action")),
        call_id=receipt.call_id if receipt is not None else step.tool.call_id,
        waits=receipt is not None and receipt.code == "approval_required",
    )


def _unreceipted(step: Step) -> ToolCall:
    """A call of a tool that no twin declares, or of a tape: there only its step tells of it."""
    assert step.tool is not None
    return ToolCall(
        step=step,
        tool=_name(step),
        arguments=step.tool.arguments,
        executed=step.status in ("ok", "error", "unset"),
        approved=False,
        sign=_sign(step.tool.arguments, None),
    )


def _sign(arguments: Any, action: Any) -> str | None:
    if arguments is not None:
        return json.encode(arguments, order="sorted").decode()
    return action if isinstance(action, str) else None


def taped(step: Step) -> bool:
    """Whether a tape tells of it."""
    return any(one.kind == "tape" for one in step.sources)


def _has_arguments(step: Step) -> bool:
    state = step.content_state.get("arguments")
    if state == "redacted" and (step.tool is None or step.tool.arguments is None):
        return False  # all of it was taken, where content is not kept
    return state in _KEPT or (state is None and step.tool is not None)


def _name(step: Step) -> str:
    return (step.tool.name if step.tool is not None else None) or step.name
