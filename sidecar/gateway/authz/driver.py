"""Policy's word on a call that somebody else would make.

**Rules**
1. A call is opened as every other: its action, stops, limits and budgets are looked at; then policy
   is asked, and that is all. Nothing is claimed, reserved, sent or settled.
2. A refusal leaves a receipt. A permission does not: nobody here knows what became of it.
"""

from msgspec import Struct

from processors.model.principal import Principal
from sidecar.gateway.action import ToolRequest
from sidecar.gateway.authz.check import beyond
from sidecar.gateway.commands import Decide, Record, Reply
from sidecar.gateway.driver import Gateway
from sidecar.gateway.events import Decided, Malformed
from sidecar.gateway.outcome import denied, policy_failed, store_failed
from sidecar.gateway.performer.driver import Performer
from sidecar.gateway.problem import Refusal
from sidecar.gateway.request import ToolReply
from sidecar.telemetry import CALLS


class Judgement(Struct, frozen=True, kw_only=True):
    """``refusal``: the answer for the caller, with ``code``; None where the call may be made."""

    decision_id: str
    refusal: ToolReply | None = None
    code: str = ""


async def judge(
    gateway: Gateway, request: ToolRequest, principal: Principal, *, irreversible: bool
) -> Judgement:
    """Whether a call may be made by a proxy beside us; ``irreversible``: such calls too."""
    performer = gateway.open(request, principal)
    refusal = await _refusal(performer, irreversible=irreversible)
    status = refusal.status if refusal is not None else 200
    CALLS.labels(performer.call.class_, performer.decided, str(status)).inc()
    if refusal is None:
        return Judgement(decision_id=performer.decision_id)
    record = Record(phase="refused", effect="not_executed", status=status, code=refusal.code)
    await performer.perform(record)
    reply = performer.reply(Reply(refusal=refusal))
    return Judgement(decision_id=performer.decision_id, refusal=reply, code=refusal.code)


async def _refusal(performer: Performer, *, irreversible: bool) -> Refusal | None:
    first = performer.first
    if isinstance(first, Malformed) or first.refusal is not None:
        return first.refusal
    event = await performer.perform(Decide())
    if not isinstance(event, Decided):
        return store_failed()
    if first.observe:
        return None
    decision = event.decision
    if decision.error is not None:
        return policy_failed()
    if decision.effect == "deny":
        return denied(decision.reasons[0] if decision.reasons else None)
    if event.exceeded is not None:
        return denied(event.exceeded)
    return event.no_room or beyond(
        decision,
        reserves=event.reserves,
        class_=performer.call.class_,
        irreversible=irreversible,
    )
