"""Calls nobody waits for: what a dead process left, and outcomes nobody knows yet.

**Rules**
1. A claim that was never sent is FAILED_SAFE, if no attempt before it was; one that was sent is
   UNKNOWN; both get the receipt that was still owed.
2. An unknown outcome is resolved by the tool's own recipe, with the evidence kept, or by a person
   (``rule``), with their name and reason; what neither tells stays unknown. Of a recipe, done
   counts at once, not done only as ``settling`` says. Nothing counts while somebody is at the call.
3. A resolution is an ``executed`` receipt of the call that made the attempt, code ``reconciled`` or
   ``resolved``, and an entry ``unknown_resolved`` of the chain.
4. A recipe is asked where the call went: in twin mode, in the call's own episode.
5. A gateway that lives ends its own claims that none of its calls is at any more, as those of the
   dead are ended: the ledger was away when their outcome was to be recorded.
6. Of many gateways on one ledger one leads; what two of them do at once is still recorded once.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from processors.model.call import EffectKnown, Receipt
from sidecar.canonical import sha256
from sidecar.clock import monotonic_ns
from sidecar.errors import StoreUnavailable
from sidecar.gateway import receipt
from sidecar.gateway.desk import Desk
from sidecar.gateway.events import Reconciled
from sidecar.gateway.idempotency import scope_of
from sidecar.gateway.native import upstream_key
from sidecar.gateway.problem import Refused
from sidecar.gateway.reconcile import (
    Question,
    Ruling,
    Unanswerable,
    evidence,
    judge,
    question,
    ruled,
)
from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.target import read_pairs
from sidecar.gateway.upstream import UpstreamFailed, UpstreamReply, UpstreamRequest
from sidecar.store.budget import Spent
from sidecar.store.ledger import (
    Answer,
    CallOutcome,
    Claim,
    ClaimEnd,
    ClaimState,
    Fence,
    HoldState,
    OpenedCall,
    Resolution,
)
from sidecar.telemetry import TASK_FAILURES, log

_LOG = log("gateway")
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.5, 60.0
_ORPHAN_SECONDS = 5.0
_FORGET_SECONDS, _FORGET_MAX = 600.0, 500
_SECOND_NS = 1_000_000_000
_POSSIBLE = (Spent(unit="calls", amount="1"), Spent(unit="seconds", amount=None))
"""What a call took that may have been made, whatever becomes of it."""
_EFFECTS: dict[ClaimState, tuple[EffectKnown, HoldState]] = {
    "failed_safe": ("not_executed", "released"),
    "unknown": ("unknown", "held"),
    "completed": ("not_executed", "settled"),  # a read: it may have cost
    "resolved_done": ("confirmed", "settled"),
    "resolved_not_done": ("not_executed", "released"),
}


async def take_orphans(desk: Desk) -> int:
    """End the open claims of dead owners; how many there were."""
    return await _take(desk, desk.ports.ledger.orphans())


async def take_abandoned(desk: Desk) -> int:
    """End this gateway's open claims that no call of it is at; how many there were."""
    found = desk.ports.ledger.open_claims(desk.owner)
    # Asked after the claims were read: a call that is over by now has ended its claim, or cannot.
    return await _take(desk, [claim for claim in found if claim.call_id not in desk.running])


async def _take(desk: Desk, found: Sequence[Claim]) -> int:
    for claim in found:
        state = _left(desk, claim)
        await _end(desk, claim, state, code="recovered")
        _LOG.warning("call recovered", call_id=claim.call_id, tool=claim.tool, state=state)
    return len(found)


def _left(desk: Desk, claim: Claim) -> ClaimState:
    if claim.state == "claimed" and not claim.possible:
        return "failed_safe"
    call = desk.ports.ledger.opened_call(claim.call_id)
    return "completed" if call is not None and call.class_ == "read" else "unknown"


async def reconcile_unresolved(desk: Desk) -> None:
    """Ask the recipes about every unknown outcome there is, again while one has yet to settle."""
    found = desk.ports.ledger.unresolved()
    waiting = [claim for claim in found if _has_recipe(desk, claim)]
    if len(found) > len(waiting):
        _LOG.warning("outcomes unknown and no recipe to ask", calls=len(found) - len(waiting))
    for claim in waiting:
        desk.settling.meet(claim, monotonic_ns())
    while waiting:
        said = [(claim, await _resolved(desk, claim)) for claim in waiting]
        unsettled = {each.claim_id: s for each, s in said if s is not None}
        waiting = [claim for claim in waiting if claim.claim_id in unsettled]
        if waiting:
            await asyncio.sleep(min(unsettled.values()))


async def _resolved(desk: Desk, claim: Claim) -> int | None:
    """Seconds until it is worth asking again; None when it is not."""
    try:
        said = await resolve(desk, claim)
    except (StoreUnavailable, asyncio.CancelledError):
        raise
    except Exception as error:
        _LOG.error("not reconciled", call_id=claim.call_id, why=error)
        return None
    if said.settles_in_s is None:
        _LOG.info("call reconciled", call_id=claim.call_id, tool=claim.tool, done=said.done)
    return said.settles_in_s


async def keep_recovering(desk: Desk) -> None:
    """Where this gateway leads: take what dead gateways left, and ask about what is unknown.

    A gateway that becomes the leader asks about every unknown outcome once, and again when it has
    taken an orphan. It also forgets what has expired. Runs until it is cancelled.
    """
    unasked = asyncio.Event()
    await asyncio.gather(
        _keep_taking(desk, unasked), _keep_asking(desk, unasked), _keep_forgetting(desk)
    )


async def _keep_forgetting(desk: Desk) -> None:
    pause, since_ns, ledger = _PAUSE_SECONDS_MIN, 0, desk.ports.ledger
    while True:
        try:
            led, now_ns = ledger.leads("recovery"), desk.now_ns()
            more = led and await ledger.forget(now_ns, _FORGET_MAX, since_ns) >= _FORGET_MAX
            pause = _PAUSE_SECONDS_MIN if more else _FORGET_SECONDS
            if led and not more:  # an hour again, for clocks that were set
                since_ns = max(0, now_ns - 3600 * _SECOND_NS)
        except Exception as error:
            pause = _failed("forget", error, pause)
        await asyncio.sleep(pause)


async def _keep_taking(desk: Desk, unasked: asyncio.Event) -> None:
    led, pause = False, _PAUSE_SECONDS_MIN
    while True:
        try:
            if await take_abandoned(desk):
                unasked.set()
            leads = desk.ports.ledger.leads("recovery")
            if leads and (await take_orphans(desk) or not led):
                unasked.set()
            led, pause = leads, _ORPHAN_SECONDS
        except Exception as error:
            pause = _failed("recovery", error, pause)
        await asyncio.sleep(pause)


async def _keep_asking(desk: Desk, unasked: asyncio.Event) -> None:
    pause = _PAUSE_SECONDS_MIN
    while True:
        await unasked.wait()
        unasked.clear()
        try:
            await reconcile_unresolved(desk)
            pause = _PAUSE_SECONDS_MIN
        except Exception as error:
            unasked.set()
            pause = _failed("reconcile", error, pause)
            await asyncio.sleep(pause)


def _failed(task: str, error: Exception, pause: float) -> float:
    """Counted and told; how long to wait, ever longer."""
    TASK_FAILURES.labels(task).inc()
    longer = min(2 * pause, _PAUSE_SECONDS_MAX)
    _LOG.error(f"{task} failed", why=error, again_in_seconds=longer)
    return longer


async def resolve(desk: Desk, claim: Claim) -> Reconciled:
    """Whether the call of a claim happened, by its tool's recipe, recorded.

    Raises StoreUnavailable.
    """
    tool = desk.ports.registry.tools.get(claim.tool)
    call = desk.ports.ledger.opened_call(claim.call_id)
    unknown = Reconciled(done=None)
    if tool is None or tool.done is None or tool.config.reconcile is None or call is None:
        return unknown
    if claim.state in ("claimed", "sent") and desk.runs(claim):
        return unknown
    desk.settling.meet(claim, monotonic_ns())
    form = tool.config.idempotency.upstream_form
    key = upstream_key(desk.house.secret, claim.key_hash, form) if claim.key_hash else ""
    reply = await _ask(desk, tool, call, key)
    done = judge(tool.done, reply, idempotency_key=key) if reply else None
    if done is None or reply is None:
        return unknown
    if not done:
        left_ns = desk.settling.not_done(claim, tool.settle_ns, monotonic_ns())
        if left_ns > 0:
            return Reconciled(done=None, settles_in_s=-(-left_ns // _SECOND_NS))
    state: ClaimState = "resolved_done" if done else "resolved_not_done"
    answer = evidence(reply, claim.call_id) if done else None
    said = Resolution(by="recipe", reason=tool.config.reconcile.get)
    # Where it is not written, another has resolved it just now.
    await _end(desk, claim, state, code="reconciled", answer=answer, resolution=said)
    desk.settling.forget(claim)
    return Reconciled(done=done)


def _has_recipe(desk: Desk, claim: Claim) -> bool:
    tool = desk.ports.registry.tools.get(claim.tool)
    return tool is not None and tool.done is not None


async def _ask(
    desk: Desk, tool: RegisteredTool, call: OpenedCall, key: str
) -> UpstreamReply | None:
    assert tool.config.reconcile is not None
    try:
        asked = question(
            tool.config.reconcile.get, idempotency_key=key, arguments=call.arguments or {}
        )
        return await desk.ports.upstreams.send(_request(desk, tool, call, asked))
    except (Unanswerable, UpstreamFailed) as error:
        _LOG.warning("recipe gave no answer", tool=tool.name, call_id=call.call_id, why=error)
        return None


def _request(
    desk: Desk, tool: RegisteredTool, call: OpenedCall, asked: Question
) -> UpstreamRequest:
    upstream = tool.config.upstream
    arguments: dict[str, Any] = dict(read_pairs(asked.query_raw))
    try:
        matched = desk.ports.registry.match(upstream, "GET", asked.path)
        asked_tool = matched.tool.name
        arguments |= matched.path_arguments
    except Refused:
        asked_tool = f"reconcile:{tool.name}"  # a name no tool has: nobody takes it for the call
    return UpstreamRequest(
        tool=asked_tool,
        class_="read",
        upstream=upstream,
        method="GET",
        path=asked.path,
        query_raw=asked.query_raw,
        headers=(("accept", "application/json"),),
        arguments=arguments,
        episode=_authorised(desk, call.call_id).episode,
        timeout_ns=tool.timeout_ns,
        call_id=call.call_id,
    )


def _authorised(desk: Desk, call_id: str) -> Receipt:
    """The receipt from before the attempt: it is committed with the intent."""
    row = desk.ports.ledger.get_call(call_id)
    assert row is not None, "an intent is committed with its call"
    found = desk.ports.ledger.get_receipt(row.receipts[0])
    assert found is not None
    return found


async def rule(desk: Desk, ruling: Ruling) -> str | None:
    """Record what a person says became of an unknown outcome; None, or the code of why not.

    Raises StoreUnavailable.
    """
    row = desk.ports.ledger.get_call(ruling.call_id, ruling.project)
    claim = _claim_of(desk, ruling.call_id) if row is not None else None
    if claim is None:
        return "no_such_call" if row is None else "not_unknown"
    if claim.state in ("claimed", "sent") and desk.runs(claim):
        return "in_flight"
    if claim.state not in ("unknown", "sent"):
        return "not_unknown"
    state: ClaimState = "resolved_done" if ruling.done else "resolved_not_done"
    answer = ruled(claim.call_id) if ruling.done else None
    said = Resolution(by=ruling.by, reason=ruling.reason)
    if not await _end(desk, claim, state, code="resolved", answer=answer, resolution=said):
        return "not_unknown"
    desk.settling.forget(claim)
    return None


def _claim_of(desk: Desk, call_id: str) -> Claim | None:
    """The claim a call is about: its own, or that of its key, on which it met another's."""
    ledger = desk.ports.ledger
    call = ledger.opened_call(call_id)
    scope = scope_of(call) if call is not None else None
    return ledger.find_claim(scope) if scope is not None else ledger.claim_of(call_id)


async def _end(
    desk: Desk,
    claim: Claim,
    state: ClaimState,
    *,
    code: str,
    answer: Answer | None = None,
    resolution: Resolution | None = None,
) -> bool:
    ledger, now_ns = desk.ports.ledger, desk.now_ns()
    call = ledger.opened_call(claim.call_id)
    assert call is not None, "an intent is committed with its call"
    authorised = _authorised(desk, claim.call_id)
    effect, holds = _EFFECTS[state]
    filled = structs.replace(
        authorised,
        receipt_id=desk.new_id(),
        phase="executed",
        effect=effect,
        status=answer.status if answer else 0,
        code=code,
        finished_at_ns=now_ns,
        response_digest=sha256(answer.body) if answer else None,
    )
    ended = ClaimEnd(
        claim=Fence(claim_id=claim.claim_id, fence=claim.fence),
        call_id=claim.call_id,
        state=state,
        reason=code,
        answer=answer,
        restore_approval=state in ("failed_safe", "resolved_not_done"),
        holds=holds,
        spent=() if state == "failed_safe" else _POSSIBLE,
    )
    outcome = CallOutcome(
        call=call,
        receipt=receipt.sign(filled, desk.signer),
        now_ns=now_ns,
        end=ended,
        resolution=resolution,
    )
    return await ledger.record(outcome)
