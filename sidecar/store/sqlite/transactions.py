"""The ledger's transactions: what must happen together, as jobs for the writer.

**Rules**
1. Policy revision, the requester's key, key claim, approval, holds and the signed authorisation are
   one transaction; whatever fails raises Undone and leaves nothing.
2. Receipt, end of the claim, holds and a restored approval are one transaction.
3. A vote and what it resolves are one transaction, each in the audit chain.
"""

import sqlite3
from functools import partial
from typing import Any, Literal

from msgspec import structs

from processors.model.call import Approval, Receipt
from sidecar.canonical import canonical
from sidecar.store import budget, receipts
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
    Intent,
    IntentResult,
    NotCommitted,
    Occupied,
    OpenedCall,
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
from sidecar.store.reading import POLICY_REVISION
from sidecar.store.rollback import POLICY_NEWEST, is_rolled_back, newest
from sidecar.store.sealing import ApprovalRow
from sidecar.store.sqlite import approvals, budgets, calls, claims, durables, glasses, stops, vault
from sidecar.store.sqlite.chain import Chain, latest
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


class Transactions:
    """Jobs over one chain. Sealed bytes are made before a job, never inside."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def activate_policy(
        self, connection: sqlite3.Connection, wanted: Activation, now_ns: int
    ) -> bool:
        """Set the revision intents must have been decided under; False where it is rolled back, or
        looser and not approved."""
        revision, sequence = wanted.revision, wanted.sequence
        numbered = {} if sequence is None else {"sequence": sequence}
        offer = read_offer(vault.get_state(connection, POLICY_OFFER))
        active = (vault.get_state(connection, POLICY_REVISION) or b"").decode()
        if wanted.loosens and not may_activate(offer, revision, active):
            return False
        if sequence is not None:
            state = vault.get_state(connection, POLICY_NEWEST)
            if is_rolled_back(state, revision, sequence):
                return False
            vault.set_state(connection, POLICY_NEWEST, newest(revision, sequence))
        if vault.set_state(connection, POLICY_REVISION, revision.encode()):
            body = {"revision": revision, **numbered}
            self._append(connection, "policy_activated", "", now_ns, body)
        if (after := used(offer, revision)) is not None:
            vault.set_state(connection, POLICY_OFFER, kept(after))
        return True

    def note(self, connection: sqlite3.Connection, note: Note) -> bool:
        """Append the entry; False, and nothing is changed, where its state stands already."""
        if note.state is not None and not vault.set_state(connection, *note.state):
            return False
        self._append(connection, note.kind, note.project, note.at_ns, note.body)
        return True

    def offer_policy(self, connection: sqlite3.Connection, made: PolicyOffer) -> PolicyOffer:
        """Have people vote on a looser revision; the offer that stands."""
        there = read_offer(vault.get_state(connection, POLICY_OFFER))
        offer = offered(there, made)
        if vault.set_state(connection, POLICY_OFFER, kept(offer)):
            body = offered_body(offer)
            self._append(connection, "policy_offered", "", made.offered_at_ns, body)
        return offer

    def vote_policy(self, connection: sqlite3.Connection, ballot: PolicyBallot) -> str | None:
        """Count a vote on the offer: None, or the code of why it does not count."""
        if approvals.is_revoked(connection, ballot.voter):
            return "approver_not_eligible"
        found = voted(read_offer(vault.get_state(connection, POLICY_OFFER)), ballot)
        if isinstance(found, str):
            return found
        vault.set_state(connection, POLICY_OFFER, kept(found))
        body = vote_body(ballot, found)
        self._append(connection, "policy_vote", "", ballot.now_ns, body)
        return None

    def commit_intent(
        self, connection: sqlite3.Connection, intent: Intent, arguments: bytes | None
    ) -> IntentResult:
        """The one final transaction. Raises Undone."""
        against = claims.against(connection, intent)
        if against is not None:
            raise Undone(NotCommitted(code=against))
        if intent.distinct_since_ns is not None and claims.same(connection, intent) is not None:
            raise Undone(NotCommitted(code="possible_duplicate"))
        before = claims.call_of(connection, intent.expected) if intent.expected else None
        fence = claims.take(connection, intent)
        if fence is None:
            raise Undone(Occupied())
        if before is not None:
            self._let_go(connection, intent, before)
        self._consume(connection, intent)
        self._reserve(connection, intent)
        self._append_receipt(connection, intent.call, intent.receipt, arguments, intent.now_ns)
        return Committed(claim=fence)

    def record(
        self,
        connection: sqlite3.Connection,
        outcome: CallOutcome,
        arguments: bytes | None,
        answer: bytes | None,
    ) -> bool:
        """A receipt and the end of its claim; False when the claim is another's or has ended."""
        if outcome.end is not None:
            done = claims.end(
                connection,
                outcome.end,
                now_ns=outcome.now_ns,
                receipt_id=outcome.receipt.receipt_id,
                answer=answer,
            )
            if not done:
                return False
            self._settle(connection, outcome, outcome.end)
        if outcome.resolution is not None:
            project, body = outcome.call.project, resolved_body(outcome)
            self._append(connection, "unknown_resolved", project, outcome.now_ns, body)
        self._append_receipt(connection, outcome.call, outcome.receipt, arguments, outcome.now_ns)
        return True

    def ask(
        self,
        connection: sqlite3.Connection,
        wanted: Approval,
        summary: bytes,
        pace: Pace | None = None,
        seen: Seen | None = None,
    ) -> ApprovalRow | Literal["key_moved"] | None:
        """The request for this action and key: ``wanted`` if there is none yet, None where its
        requester asks too often; ``key_moved`` where the key's claim is not as ``seen``."""
        found = approvals.find_asked(connection, wanted)
        if found is not None:
            return found
        claim = claims.find(connection, asked_for(wanted))
        if not as_seen(claim[0] if claim else None, seen):
            return "key_moved"
        if pace is not None:
            since_ns = wanted.requested_at_ns - pace.window_ns
            if approvals.asked_since(connection, wanted, since_ns) >= pace.most:
                return None
        approvals.insert(connection, wanted, summary)
        body = requested_entry(wanted)
        at_ns = wanted.requested_at_ns
        self._append(connection, "approval_requested", wanted.project, at_ns, body)
        return wanted, summary

    def vote(self, connection: sqlite3.Connection, ballot: Ballot) -> str | None:
        """Count a vote: None, or the code of why it does not count."""
        row = approvals.find(connection, ballot.project, ballot.approval_id)
        revision = vault.get_state(connection, POLICY_REVISION)
        since_ns = ballot.now_ns - (ballot.pace.window_ns if ballot.pace else 0)
        code = why_not_counted(
            row[0] if row else None,
            ballot,
            revision=None if revision is None else revision.decode(),
            recent=approvals.approved_since(connection, ballot, since_ns) if ballot.pace else 0,
            mark_ns=latest(connection),
        )
        if code is None and approvals.is_revoked(connection, ballot.voter):
            code = "approver_not_eligible"
        if row is None:
            return code
        if code == "approval_expired":
            self._resolve(connection, ballot, row[0], "expired")
        if code is not None:
            return code
        if not approvals.add_vote(connection, ballot):
            return "vote_repeated"
        body = vote_entry(ballot)
        self._append(connection, "approval_vote", ballot.project, ballot.now_ns, body)
        if ballot.decision == "deny":
            self._resolve(connection, ballot, row[0], "denied")
        elif (
            approvals.standing(connection, ballot.approval_id, ballot.now_ns)
            >= row[0].approvers_min
        ):
            self._resolve(connection, ballot, row[0], "approved")
        return None

    def expire(self, connection: sqlite3.Connection, now_ns: int) -> list[str]:
        """Resolve what has run out; which requests those were."""
        found = approvals.run_out(connection, now_ns)
        for approval_id, project in found:
            body = {"approval_id": approval_id, "status": "expired"}
            self._append(connection, "approval_resolved", project, now_ns, body)
        return [approval_id for approval_id, _ in found]

    def open_glass(
        self, connection: sqlite3.Connection, wanted: BreakGlass, ballot: GlassBallot
    ) -> str | None:
        """Sign a glass and keep it with its first vote: None, or the code of why not."""
        kid, signature = self._chain.sign(wanted.signed())
        signed = structs.replace(wanted, kid=kid, signature=signature)
        return glasses.open_(connection, signed, ballot, self._append)

    def break_glass(
        self, connection: sqlite3.Connection, ballot: GlassBallot, lasts_ns: int
    ) -> str | None:
        """The second vote on a glass: None, or the code of why it does not count."""
        return glasses.break_(connection, ballot, lasts_ns, self._append)

    def review_glass(self, connection: sqlite3.Connection, ballot: GlassBallot) -> str | None:
        """Close a glass's review: None, or the code of why it stays open."""
        return glasses.review(connection, ballot, self._append)

    def set_stop(self, connection: sqlite3.Connection, stop: Stop) -> Stop:
        """The stop, set; or the one like it that stands already, whose lifting begins anew."""
        added = stops.add(connection, stop)
        if added:
            self._append(connection, "stop_set", stop.project, stop.set_at_ns, stop.document())
        found = stops.find_like(connection, stop)
        assert found is not None, "it was set, or there was one like it"
        if added or not found.lifts:
            return found
        stops.forget_lifts(connection, found.stop_id)
        body = {**stop.document(), "stop_id": found.stop_id}
        self._append(connection, "stop_set", stop.project, stop.set_at_ns, body)
        return structs.replace(found, lifts=())

    def lift_stop(self, connection: sqlite3.Connection, ballot: LiftBallot) -> str | None:
        """Count a vote to lift a stop: None, or the code of why it does not count."""
        found = stops.find(connection, ballot.project, ballot.stop_id)
        code = why_not_lifted(found)
        if code is not None or found is None:
            return code
        if approvals.is_revoked(connection, ballot.lifter):
            return "approver_not_eligible"
        lifted = stops.lift(connection, ballot, found.kind)
        if lifted is None:
            return "vote_repeated"
        body = {"by": ballot.lifter, "reason": ballot.reason, "stop_id": ballot.stop_id}
        self._append(connection, "stop_lift_vote", ballot.project, ballot.now_ns, body)
        if lifted:
            body = {"stop_id": ballot.stop_id}
            self._append(connection, "stop_lifted", ballot.project, ballot.now_ns, body)
        return None

    def queue(self, connection: sqlite3.Connection, taken: Accepted, sealed: bytes) -> bool:
        """Take a durable call on; False when there is one with its key."""
        call = taken.call
        if not durables.add(connection, call, sealed):
            return False
        self._append_receipt(connection, taken.opened, taken.receipt, None, call.created_at_ns)
        body = queued_body(call)
        self._append(connection, "durable_queued", call.project, call.created_at_ns, body)
        return True

    def end_durable(self, connection: sqlite3.Connection, ended: Attempted) -> bool:
        """What came of a durable call's attempt; False when the lease is another's."""
        if not durables.end(connection, ended):
            return False
        if ended.state != "waiting":
            body = ended_body(ended)
            self._append(connection, "durable_ended", ended.call.project, ended.now_ns, body)
        return True

    def dispose(self, connection: sqlite3.Connection, disposal: Disposal) -> bool:
        """A person's word on a dead letter; False when it is none."""
        if not durables.dispose(connection, disposal):
            return False
        kind, body = f"durable_{DISPOSED[disposal.action]}", disposed_body(disposal)
        self._append(connection, kind, disposal.project, disposal.due_at_ns, body)
        return True

    def _consume(self, connection: sqlite3.Connection, intent: Intent) -> None:
        if intent.approval is None:
            return
        code = approvals.consume(
            connection,
            intent.approval,
            project=intent.call.project,
            requester=intent.call.principal,
            by=intent.call.call_id,
            now_ns=intent.now_ns,
        )
        if code is not None:
            raise Undone(NotCommitted(code=code))
        call, used = intent.call, intent.approval
        found = approvals.find(connection, call.project, used.approval_id)
        assert found is not None, "it was there to be spent"
        spent, least = found[0], found[0].approvers_min
        if spent.glass_id:
            broken = glasses.find(connection, call.project, spent.glass_id)
            assert broken is not None, "a request is approved by a glass that is there"
            spent, least = structs.replace(spent, votes=broken.as_votes()), PEOPLE
        if short_of(spent.votes, used.step_up, least):
            raise Undone(NotCommitted(code=STEP_UP))
        body = consumed_entry(spent, call.call_id)
        self._append(connection, "approval_consumed", call.project, intent.now_ns, body)

    def _reserve(self, connection: sqlite3.Connection, intent: Intent) -> None:
        call = intent.call
        held = budgets.reserve(connection, call.call_id, call.project, intent.holds, intent.now_ns)
        if isinstance(held, Over):
            raise Undone(NotCommitted(code="budget_exceeded", over=held))
        self._budgeted(connection, call.call_id, call.project, intent.now_ns, held)

    def _budgeted(
        self,
        connection: sqlite3.Connection,
        call_id: str,
        project: str,
        at_ns: int,
        moved: list[Moved],
    ) -> None:
        for kind, said in budget.documents(moved):
            self._append(connection, kind, project, at_ns, {"call_id": call_id, "holds": said})

    def _let_go(self, connection: sqlite3.Connection, intent: Intent, before: str) -> None:
        """What the attempt taken over still holds: its amounts, and an approval never used."""
        project, now_ns = intent.call.project, intent.now_ns
        released = budgets.end(connection, before, "released", (), now_ns)
        self._budgeted(connection, before, project, now_ns, released)
        assert intent.expected is not None
        if intent.expected.state == "claimed":
            self._restore(connection, before, intent.call.project, intent.now_ns)

    def _restore(
        self, connection: sqlite3.Connection, call_id: str, project: str, at_ns: int
    ) -> None:
        restored = approvals.restore(connection, call_id)
        if restored is not None:
            body = {"approval_id": restored, "call_id": call_id}
            self._append(connection, "approval_restored", project, at_ns, body)

    def _settle(
        self, connection: sqlite3.Connection, outcome: CallOutcome, ended: ClaimEnd
    ) -> None:
        project, now_ns = outcome.call.project, outcome.now_ns
        moved = budgets.end(connection, ended.call_id, ended.holds, ended.spent, now_ns)
        self._budgeted(connection, ended.call_id, project, now_ns, moved)
        if ended.restore_approval:
            self._restore(connection, ended.call_id, outcome.call.project, outcome.now_ns)

    def _resolve(
        self, connection: sqlite3.Connection, ballot: Ballot, found: Approval, status: str
    ) -> None:
        approved, named = status == "approved", ballot.approval_id
        until_ns = execute_by(found, ballot.now_ns)
        if (
            approvals.set_approved(connection, named, until_ns)
            if approved
            else approvals.set_status(connection, named, status)
        ):
            body = resolved_entry(found, status, ballot.now_ns)
            self._append(connection, "approval_resolved", ballot.project, ballot.now_ns, body)

    def _append_receipt(
        self,
        connection: sqlite3.Connection,
        call: OpenedCall,
        receipt: Receipt,
        arguments: bytes | None,
        now_ns: int,
    ) -> None:
        self._chain.append(
            connection,
            at_ns=now_ns,
            project=call.project,
            kind=receipt.phase,
            body=f'{{"receipt":{receipts.text(receipt)}}}',
            kid=receipt.kid,
            write=partial(calls.write, call=call, receipt=receipt, sealed=arguments),
        )

    def _append(
        self,
        connection: sqlite3.Connection,
        kind: str,
        project: str,
        at_ns: int,
        body: dict[str, Any],
    ) -> None:
        text = canonical(body).decode()
        self._chain.append(connection, at_ns=at_ns, project=project, kind=kind, body=text)
