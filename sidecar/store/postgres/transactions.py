"""The ledger's transactions on Postgres: what must happen together, as jobs for the writer.

**Rules**
1. Policy revision, the requester's key, key claim, approval, holds and the signed authorisation are
   one transaction; whatever fails raises Undone and leaves nothing.
2. Receipt, end of the claim, holds and a restored approval are one transaction. Asked again after a
   commit whose answer was lost, it is done already.
3. A vote and what it resolves are one transaction, each in the audit chain.
"""

from typing import Any, Literal

from msgspec import structs

from processors.model.call import Approval
from sidecar.canonical import canonical
from sidecar.store import budget
from sidecar.store.budget import Moved, Over
from sidecar.store.durable import (
    DISPOSED,
    Accepted,
    Attempted,
    Disposal,
    disposed_body,
    ended_body,
    queued_body,
)
from sidecar.store.glass import PEOPLE, BreakGlass, GlassBallot
from sidecar.store.ledger import (
    Ballot,
    CallOutcome,
    ClaimEnd,
    Committed,
    Fence,
    Intent,
    IntentResult,
    NotCommitted,
    Occupied,
    Pace,
    Seen,
    resolved_body,
)
from sidecar.store.noted import Note
from sidecar.store.policy import (
    POLICY_OFFER,
    Activation,
    PolicyBallot,
    PolicyOffer,
    kept,
    may_activate,
    offered,
    offered_body,
    read_offer,
    used,
    vote_body,
    voted,
)
from sidecar.store.postgres import (
    approvals,
    budgets,
    calls,
    chain,
    claims,
    durables,
    glasses,
    stops,
    vault,
)
from sidecar.store.postgres.chain import Turn
from sidecar.store.reading import POLICY_REVISION
from sidecar.store.rollback import POLICY_NEWEST, is_rolled_back, newest
from sidecar.store.sealing import ApprovalRow
from sidecar.store.standing import (
    Undone,
    as_seen,
    asked_for,
    consumed_entry,
    execute_by,
    requested_entry,
    resolved_entry,
    vote_entry,
    why_not_counted,
)
from sidecar.store.step_up import CODE as STEP_UP
from sidecar.store.step_up import short_of
from sidecar.store.stop import LiftBallot, Stop, why_not_lifted


async def activate_policy(turn: Turn, wanted: Activation, now_ns: int) -> bool:
    """Set the revision intents must have been decided under; False where it is rolled back, or
    looser and not approved."""
    revision, sequence = wanted.revision, wanted.sequence
    numbered = {} if sequence is None else {"sequence": sequence}
    offer = read_offer(await vault.hold_state(turn.connection, POLICY_OFFER))
    active = (await vault.hold_state(turn.connection, POLICY_REVISION) or b"").decode()
    if wanted.loosens and not may_activate(offer, revision, active):
        return False
    if sequence is not None:
        state = await vault.get_state(turn.connection, POLICY_NEWEST)
        if is_rolled_back(state, revision, sequence):
            return False
        await vault.set_state(turn, POLICY_NEWEST, newest(revision, sequence))
    if await vault.set_state(turn, POLICY_REVISION, revision.encode()):
        body = {"revision": revision, **numbered}
        await _append(turn, "policy_activated", "", now_ns, body)
    if (after := used(offer, revision)) is not None:
        await vault.set_state(turn, POLICY_OFFER, kept(after))
    return True


async def note(turn: Turn, note: Note) -> bool:
    """Append the entry; False, and nothing is changed, where its state stands already."""
    if note.state is not None and not await vault.set_state(turn, *note.state):
        return False
    await _append(turn, note.kind, note.project, note.at_ns, note.body)
    return True


async def offer_policy(turn: Turn, made: PolicyOffer) -> PolicyOffer:
    """Have people vote on a looser revision; the offer that stands."""
    there = read_offer(await vault.hold_state(turn.connection, POLICY_OFFER))
    offer = offered(there, made)
    if await vault.set_state(turn, POLICY_OFFER, kept(offer)):
        await _append(turn, "policy_offered", "", made.offered_at_ns, offered_body(offer))
    return offer


async def vote_policy(turn: Turn, ballot: PolicyBallot) -> str | None:
    """Count a vote on the offer: None, or the code of why it does not count."""
    if await approvals.is_revoked(turn.connection, ballot.voter):
        return "approver_not_eligible"
    found = voted(read_offer(await vault.hold_state(turn.connection, POLICY_OFFER)), ballot)
    if isinstance(found, str):
        return found
    await vault.set_state(turn, POLICY_OFFER, kept(found))
    await _append(turn, "policy_vote", "", ballot.now_ns, vote_body(ballot, found))
    return None


async def commit_intent(turn: Turn, intent: Intent, arguments: bytes | None) -> IntentResult:
    """The one final transaction. Raises Undone."""
    connection = turn.connection
    if intent.distinct_since_ns is not None and await claims.same(connection, intent) is not None:
        raise Undone(NotCommitted(code="possible_duplicate"), written=False)
    if intent.expected is None:
        fence = await claims.make(connection, intent)
    else:
        fence = await claims.ground(connection, intent) or await _taken_over(turn, intent)
    if isinstance(fence, str):
        raise Undone(NotCommitted(code=fence), written=False)
    if fence is None:
        raise Undone(Occupied(), written=False)
    await _consume(turn, intent)
    await _reserve(turn, intent)
    await calls.write(turn, intent.call, intent.receipt, arguments, intent.now_ns)
    return Committed(claim=fence)


async def record(
    turn: Turn, outcome: CallOutcome, arguments: bytes | None, answer: bytes | None
) -> bool:
    """A receipt and the end of its claim; False when the claim is another's or has ended."""
    receipt = outcome.receipt
    if outcome.end is not None:
        holds = await claims.end(
            turn.connection,
            outcome.end,
            now_ns=outcome.now_ns,
            receipt_id=receipt.receipt_id,
            answer=answer,
        )
        if holds is None:
            return await calls.has_receipt(turn.connection, receipt.receipt_id)
        if holds:
            await _settle(turn, outcome, outcome.end)
        if outcome.end.restore_approval:
            await _restore(turn, outcome.end.call_id, outcome.call.project, outcome.now_ns)
    elif await calls.has_receipt(turn.connection, receipt.receipt_id):
        return True
    if outcome.resolution is not None:
        project, body = outcome.call.project, resolved_body(outcome)
        await _append(turn, "unknown_resolved", project, outcome.now_ns, body)
    await calls.write(turn, outcome.call, receipt, arguments, outcome.now_ns)
    return True


async def ask(
    turn: Turn,
    wanted: Approval,
    summary: bytes,
    pace: Pace | None = None,
    seen: Seen | None = None,
) -> ApprovalRow | Literal["key_moved"] | None:
    """The request for this action and key: ``wanted`` if there is none yet, None where who asks
    asks too often; ``key_moved`` where the key's claim is not as ``seen``."""
    found = await approvals.find_asked(turn.connection, wanted)
    if found is not None:
        return found
    claim = await claims.find(turn.connection, asked_for(wanted))
    if not as_seen(claim[0] if claim else None, seen):
        return "key_moved"
    if pace is not None:
        since_ns = wanted.requested_at_ns - pace.window_ns
        if await approvals.asked_since(turn.connection, wanted, since_ns) >= pace.most:
            return None
    await approvals.insert(turn, wanted, summary)
    body = requested_entry(wanted)
    await _append(turn, "approval_requested", wanted.project, wanted.requested_at_ns, body)
    await approvals.tell(turn, wanted.approval_id)
    return wanted, summary


async def vote(turn: Turn, ballot: Ballot) -> str | None:
    """Count a vote: None, or the code of why it does not count."""
    row = await approvals.find(turn.connection, ballot.project, ballot.approval_id)
    revision = await vault.get_state(turn.connection, POLICY_REVISION)
    code = why_not_counted(
        row[0] if row else None,
        ballot,
        revision=None if revision is None else revision.decode(),
        recent=await _approved_of_late(turn, ballot),
        mark_ns=await chain.latest(turn.connection),
    )
    if code is None and await approvals.is_revoked(turn.connection, ballot.voter):
        code = "approver_not_eligible"
    if row is None:
        return code
    if code == "approval_expired":
        await _resolve(turn, ballot, row[0], "expired")
    if code is not None:
        return code
    if not await approvals.add_vote(turn, ballot):
        return "vote_repeated"
    body = vote_entry(ballot)
    await _append(turn, "approval_vote", ballot.project, ballot.now_ns, body)
    await approvals.tell(turn, ballot.approval_id)
    if ballot.decision == "deny":
        await _resolve(turn, ballot, row[0], "denied")
    elif (
        await approvals.standing(turn.connection, ballot.approval_id, ballot.now_ns)
        >= row[0].approvers_min
    ):
        await _resolve(turn, ballot, row[0], "approved")
    return None


async def expire(turn: Turn, now_ns: int) -> None:
    """Resolve what has run out."""
    for approval_id, project in await approvals.run_out(turn, now_ns):
        body = {"approval_id": approval_id, "status": "expired"}
        await _append(turn, "approval_resolved", project, now_ns, body)
        await approvals.tell(turn, approval_id)


async def _approved_of_late(turn: Turn, ballot: Ballot) -> int:
    if ballot.pace is None:
        return 0
    since_ns = ballot.now_ns - ballot.pace.window_ns
    return await approvals.approved_since(turn.connection, ballot, since_ns)


async def open_glass(turn: Turn, wanted: BreakGlass, ballot: GlassBallot) -> str | None:
    """Sign a glass and keep it with its first vote: None, or the code of why not."""
    kid, signature = turn.sign(wanted.signed())
    signed = structs.replace(wanted, kid=kid, signature=signature)
    return await glasses.open_(turn, signed, ballot, _append)


async def break_glass(turn: Turn, ballot: GlassBallot, lasts_ns: int) -> str | None:
    """The second vote on a glass: None, or the code of why it does not count."""
    return await glasses.break_(turn, ballot, lasts_ns, _append)


async def review_glass(turn: Turn, ballot: GlassBallot) -> str | None:
    """Close a glass's review: None, or the code of why it stays open."""
    return await glasses.review(turn, ballot, _append)


async def set_stop(turn: Turn, stop: Stop) -> Stop:
    """The stop, set; or the one like it that stands already, whose lifting begins anew."""
    added = await stops.add(turn.connection, stop)
    if added:
        await _append(turn, "stop_set", stop.project, stop.set_at_ns, stop.document())
    found = await stops.find_like(turn.connection, stop)
    assert found is not None, "it was set, or there was one like it"
    if added or not found.lifts:
        return found
    await stops.forget_lifts(turn.connection, found.stop_id)
    body = {**stop.document(), "stop_id": found.stop_id}
    await _append(turn, "stop_set", stop.project, stop.set_at_ns, body)
    return structs.replace(found, lifts=())


async def lift_stop(turn: Turn, ballot: LiftBallot) -> str | None:
    """Count a vote to lift a stop: None, or the code of why it does not count."""
    found = await stops.find(turn.connection, ballot.project, ballot.stop_id)
    code = why_not_lifted(found)
    if code is not None or found is None:
        return code
    if await approvals.is_revoked(turn.connection, ballot.lifter):
        return "approver_not_eligible"
    lifted = await stops.lift(turn.connection, ballot, found.kind)
    if lifted is None:
        return "vote_repeated"
    body = {"by": ballot.lifter, "reason": ballot.reason, "stop_id": ballot.stop_id}
    await _append(turn, "stop_lift_vote", ballot.project, ballot.now_ns, body)
    if lifted:
        body = {"stop_id": ballot.stop_id}
        await _append(turn, "stop_lifted", ballot.project, ballot.now_ns, body)
    return None


async def _taken_over(turn: Turn, intent: Intent) -> Fence | None:
    assert intent.expected is not None
    before = await claims.call_of(turn.connection, intent.expected)
    fence = await claims.take_over(turn.connection, intent)
    if fence is not None and before is not None:
        await _let_go(turn, intent, before)
    return fence


async def queue(turn: Turn, taken: Accepted, sealed: bytes) -> bool:
    """Take a durable call on; False when there is one with its key."""
    call = taken.call
    if not await durables.add(turn.connection, call, sealed):
        return False
    await calls.write(turn, taken.opened, taken.receipt, None, call.created_at_ns)
    await _append(turn, "durable_queued", call.project, call.created_at_ns, queued_body(call))
    return True


async def end_durable(turn: Turn, ended: Attempted) -> bool:
    """What came of a durable call's attempt; False when the lease is another's."""
    if not await durables.end(turn.connection, ended):
        return False
    if ended.state != "waiting":
        await _append(turn, "durable_ended", ended.call.project, ended.now_ns, ended_body(ended))
    return True


async def dispose(turn: Turn, disposal: Disposal) -> bool:
    """A person's word on a dead letter; False when it is none."""
    if not await durables.dispose(turn.connection, disposal):
        return False
    kind, body = f"durable_{DISPOSED[disposal.action]}", disposed_body(disposal)
    await _append(turn, kind, disposal.project, disposal.due_at_ns, body)
    return True


async def _consume(turn: Turn, intent: Intent) -> None:
    if intent.approval is None:
        return
    code = await approvals.consume(
        turn,
        intent.approval,
        project=intent.call.project,
        requester=intent.call.principal,
        by=intent.call.call_id,
        now_ns=intent.now_ns,
    )
    if code is not None:
        raise Undone(NotCommitted(code=code))
    call, used = intent.call, intent.approval
    found = await approvals.find(turn.connection, call.project, used.approval_id)
    assert found is not None, "it was there to be spent"
    spent, least = found[0], found[0].approvers_min
    if spent.glass_id:
        broken = await glasses.find(turn.connection, call.project, spent.glass_id)
        assert broken is not None, "a request is approved by a glass that is there"
        spent, least = structs.replace(spent, votes=broken.as_votes()), PEOPLE
    if short_of(spent.votes, used.step_up, least):
        raise Undone(NotCommitted(code=STEP_UP))
    body = consumed_entry(spent, call.call_id)
    await _append(turn, "approval_consumed", call.project, intent.now_ns, body)
    await approvals.tell(turn, used.approval_id)


async def _reserve(turn: Turn, intent: Intent) -> None:
    call = intent.call
    held = await budgets.reserve(
        turn.connection, call.call_id, call.project, intent.holds, intent.now_ns
    )
    if isinstance(held, Over):
        raise Undone(NotCommitted(code="budget_exceeded", over=held))
    await _budgeted(turn, call.call_id, call.project, intent.now_ns, held)


async def _settle(turn: Turn, outcome: CallOutcome, ended: ClaimEnd) -> None:
    now_ns = outcome.now_ns
    moved = await budgets.end(turn.connection, ended.call_id, ended.holds, ended.spent, now_ns)
    await _budgeted(turn, ended.call_id, outcome.call.project, now_ns, moved)


async def _budgeted(turn: Turn, call_id: str, project: str, at_ns: int, moved: list[Moved]) -> None:
    for kind, said in budget.documents(moved):
        await _append(turn, kind, project, at_ns, {"call_id": call_id, "holds": said})


async def _let_go(turn: Turn, intent: Intent, before: str) -> None:
    """What the attempt taken over still holds: its amounts, and an approval never used."""
    project, now_ns = intent.call.project, intent.now_ns
    released = await budgets.end(turn.connection, before, "released", (), now_ns)
    await _budgeted(turn, before, project, now_ns, released)
    assert intent.expected is not None
    if intent.expected.state == "claimed":
        await _restore(turn, before, intent.call.project, intent.now_ns)


async def _restore(turn: Turn, call_id: str, project: str, at_ns: int) -> None:
    restored = await approvals.restore(turn, call_id)
    if restored is not None:
        body = {"approval_id": restored, "call_id": call_id}
        await _append(turn, "approval_restored", project, at_ns, body)
        await approvals.tell(turn, restored)


async def _resolve(turn: Turn, ballot: Ballot, found: Approval, status: str) -> None:
    approved, named = status == "approved", ballot.approval_id
    until_ns = execute_by(found, ballot.now_ns)
    if (
        await approvals.set_approved(turn, named, until_ns)
        if approved
        else await approvals.set_status(turn, named, status)
    ):
        body = resolved_entry(found, status, ballot.now_ns)
        await _append(turn, "approval_resolved", ballot.project, ballot.now_ns, body)


async def _append(turn: Turn, kind: str, project: str, at_ns: int, body: dict[str, Any]) -> None:
    text = canonical(body).decode()
    await turn.append(at_ns=at_ns, project=project, kind=kind, body=text)
