"""One tool call as a machine: events in, commands out. It knows no socket, no store, no clock.

**Rules**
1. Exactly one Reply, and it is the last command.
2. At most one Forward per attempt, and no new attempt while an effect is possible: a claim that was
   sent or is unknown is reconciled or refused, never taken over (but for a tool that declares
   ``upstream_idempotent``; an attempt after such a one proves nothing of it by failing).
3. No Forward of a call with effects without a committed intent that is marked sent.
4. After a committed intent exactly one of Settle, Release, Keep, before its Record.
5. Record before Reply. Where the store cannot record, the Reply is a refusal: 503 if nothing was
   sent, 409 ``outcome_unknown`` if an effect is possible.
6. An event that is not awaited, late or twice, changes nothing.

Commands are performed in order by the driver (``commands``), and answered by ``events``. The states
are the ``_…ing`` methods.
"""

from collections.abc import Callable

from processors.model.call import EffectKnown
from sidecar.gateway import approval as approvals
from sidecar.gateway import outcome
from sidecar.gateway.commands import (
    AskApproval,
    Command,
    CommitIntent,
    Decide,
    Forward,
    Keep,
    LookUpKey,
    MarkSent,
    Reconcile,
    Record,
    Release,
    Reply,
    Settle,
)
from sidecar.gateway.events import (
    Approved,
    CallReceived,
    Closed,
    Decided,
    Event,
    IntentCommitted,
    IntentRefused,
    KeyFound,
    KeyTaken,
    Malformed,
    NotApproved,
    Reconciled,
    Recorded,
    SentMarked,
    Stopped,
    StoreFailed,
    TimedOut,
    UpstreamFailed,
    UpstreamReplied,
)
from sidecar.gateway.idempotency import (
    Execute,
    InFlight,
    Replay,
    Unknown,
    in_flight,
    meaning,
    not_settled,
    outcome_unknown,
)
from sidecar.gateway.problem import Refusal
from sidecar.store.budget import Over
from sidecar.store.ledger import Claim, ClaimState, Fence

KEY_TAKEN_MAX = 3
POLICY_CHANGES_MAX = 3

Commands = tuple[Command, ...]
State = Callable[[Event], Commands]


class Call:
    """One call. Feed events to ``handle``, perform what it returns, until ``done``."""

    def __init__(self) -> None:
        self._state: State = self._new
        self._received: CallReceived | None = None
        self._execute = Execute()
        self._decided = self._reserves = False
        self._approval_id: str | None = None
        self._claim: Fence | None = None
        self._waited = self._reconciled = False
        self._taken = self._policy_changes = 0
        self._reply, self._instead = Reply(), Reply()

    @property
    def done(self) -> bool:
        """Whether the Reply has been commanded."""
        return self._state == self._ended

    def __repr__(self) -> str:
        return f"Call({self._state.__name__[1:]})"

    def handle(self, event: Event) -> Commands:
        """What to do next."""
        return self._state(event)

    def _new(self, event: Event) -> Commands:
        match event:
            case Malformed(refusal=refusal):
                return self._refuse(refusal)
            case CallReceived():
                self._received = event
                if event.refusal is not None:
                    return self._refuse(event.refusal)
                return self._look_up() if event.has_key else self._decide()
        return ()

    def _looking_up(self, event: Event) -> Commands:
        match event:
            case KeyFound():
                return self._key_found(event)
            case IntentRefused(code=code):  # while it waited for the call in flight
                return self._refuse(outcome.not_spendable(code))
            case StoreFailed():
                return self._fail_closed()
        return ()

    def _key_found(self, event: KeyFound) -> Commands:
        call = self._call
        match meaning(event.claim, call.fingerprint, call.rules, event.now_ns, runs=event.runs):
            case Execute() as execute:
                self._execute = execute
                return self._commit() if self._decided else self._decide()
            case Replay(claim=claim):
                return self._replay(claim)
            case InFlight():
                return self._in_flight()
            case Unknown(claim=claim):
                return self._unknown(claim)
            case Refusal() as refusal:
                return self._refuse(refusal)

    def _in_flight(self) -> Commands:
        if self._call.wait_ns and not self._waited:
            self._waited = True
            return self._look_up(self._call.wait_ns)
        return self._refuse(in_flight())

    def _unknown(self, claim: Claim) -> Commands:
        if self._call.rules.reconcilable and not self._reconciled:
            self._reconciled = True
            self._state = self._reconciling
            return (Reconcile(claim=claim),)
        return self._refuse(outcome_unknown(claim.reason or "it was sent and not answered"))

    def _reconciling(self, event: Event) -> Commands:
        match event:
            case Reconciled(done=None, settles_in_s=None):
                return self._refuse(outcome_unknown("the tool could not tell"))
            case Reconciled(done=None, settles_in_s=int(seconds)):
                return self._refuse(not_settled(seconds))
            case Reconciled():
                return self._look_up()
            case StoreFailed():
                return self._fail_closed()
        return ()

    def _deciding(self, event: Event) -> Commands:
        match event:
            case Decided():
                self._decided, self._reserves = True, event.reserves
                if self._call.observe:
                    return self._go()
                return self._judged(event)
            case StoreFailed():
                return self._fail_closed()
        return ()

    def _judged(self, said: Decided) -> Commands:
        decision = said.decision
        if decision.error is not None and self._call.fail_open:
            return self._refuse(said.no_room) if said.no_room else self._go()
        if decision.error is not None:
            return self._refuse(outcome.policy_failed())
        if decision.effect == "deny":
            return self._refuse(outcome.denied(decision.reasons[0] if decision.reasons else None))
        if said.exceeded is not None:
            return self._refuse(outcome.denied(said.exceeded))
        if said.no_room is not None:
            return self._refuse(said.no_room)
        return self._approve() if decision.effect == "require_approval" else self._go()

    def _approve(self) -> Commands:
        call = self._call
        if not call.has_key:
            return self._refuse(outcome.key_required("an approval is bound to a key"))
        if call.token_fault is not None:
            return self._refuse(call.token_fault)
        if call.token is not None:
            return self._commit_with(call.token)
        self._state = self._asking
        return (AskApproval(wait_ns=call.wait_ns, seen=self._execute.seen),)

    def _asking(self, event: Event) -> Commands:
        match event:
            case Approved(approval_id=approval_id):
                return self._commit_with(approval_id)
            case KeyTaken():
                self._decided = False  # who finds the key free again has no approval yet
                return self._key_taken()
            case IntentRefused(code=code):
                return self._refuse(outcome.not_spendable(code))
            case NotApproved(approval=approval):
                return self._refuse(
                    approvals.refusal(approval, asynchronous=self._call.asynchronous)
                )
            case StoreFailed():
                return self._fail_closed()
        return ()

    def _go(self) -> Commands:
        if self._call.class_ != "read" or self._reserves:
            return self._commit()
        self._state = self._forwarding
        return (Forward(),)

    def _commit_with(self, approval_id: str) -> Commands:
        self._approval_id = approval_id
        return self._commit()

    def _commit(self) -> Commands:
        self._state = self._committing
        return (
            CommitIntent(
                approval_id=self._approval_id,
                seen=self._execute.seen,
                attempt=self._execute.attempt,
            ),
        )

    def _key_taken(self) -> Commands:
        self._taken += 1
        return self._look_up() if self._taken < KEY_TAKEN_MAX else self._in_flight()

    def _committing(self, event: Event) -> Commands:
        match event:
            case IntentCommitted(claim=claim, sent=sent):
                self._claim = claim
                self._state = self._marking
                return (MarkSent(claim=claim),) if sent is None else self._marking(sent)
            case KeyTaken():
                return self._key_taken()
            case IntentRefused(code="policy_changed"):
                self._policy_changes += 1
                changes = self._policy_changes
                return self._decide() if changes < POLICY_CHANGES_MAX else self._fail_closed()
            case IntentRefused(over=Over() as over):
                return self._refuse(outcome.over_budget(over))
            case IntentRefused(code="cooling_off", retry_after_s=int(seconds)):
                return self._refuse(outcome.cooling_off(seconds))
            case IntentRefused(code="possible_duplicate"):
                return self._refuse(outcome.possible_duplicate())
            case IntentRefused(code="clock_skewed"):
                return self._refuse(outcome.clock_skewed())
            case IntentRefused(code="killed" | "frozen" as code):
                return self._refuse(outcome.stopped(code))
            case IntentRefused(code=code):
                return self._refuse(outcome.not_spendable(code))
            case StoreFailed():
                return self._fail_closed()
        return ()

    def _marking(self, event: Event) -> Commands:
        match event:
            case SentMarked(stopped=str(code)):
                return self._not_sent(outcome.stopped(code), code)
            case SentMarked(held=True):
                self._state = self._forwarding
                return (Forward(),)
            case SentMarked():
                self._claim = None  # another's now: its end is not ours to write
                return (Keep(), *self._refuse(in_flight()))
            case StoreFailed():
                return self._not_sent(outcome.store_failed(), "the ledger could not be written")
        return ()

    def _forwarding(self, event: Event) -> Commands:
        match event:
            case UpstreamReplied():
                return self._replied(event)
            case UpstreamFailed(sent=False, reason=reason):
                return self._not_sent(outcome.unreachable(reason), reason)
            case UpstreamFailed(reason=reason):
                return self._no_answer(reason, outcome.broken(reason))
            case TimedOut():
                return self._no_answer("it was not answered in time", outcome.read_timed_out())
            case Stopped(code=code):
                return self._held_back(outcome.stopped(code))
            case Closed(code=code):
                return self._no_answer(code, outcome.closed(code))
            case StoreFailed():  # whether a stop stands cannot be read: then it does
                return self._held_back(outcome.store_failed())
        return ()

    def _held_back(self, refusal: Refusal) -> Commands:
        """A read that was not sent in the end."""
        if self._claim is None:
            return self._refuse(refusal)
        return self._not_sent(refusal, refusal.code)

    def _replied(self, event: UpstreamReplied) -> Commands:
        effect, end, passed = outcome.read_status(
            event.status, event.retry_after, self._call.no_effect_statuses
        )
        if self._call.class_ == "read":
            effect = "confirmed" if event.status < 400 else "not_executed"
            record = Record(
                phase="executed",
                effect=effect,
                status=event.status,
                upstream_status=event.status,
                end="completed" if self._claim else None,
                claim=self._claim,
            )
            return self._record(record, Reply())
        unknown = outcome_unknown(f"the tool answered {event.status}")
        if self._execute.possible and end == "failed_safe":  # it says nothing of the one before
            effect, end, passed = "unknown", "unknown", False
            unknown = outcome.still_possible(f"the tool answered {event.status}")
        return self._record(
            Record(
                phase="executed",
                effect=effect,
                status=event.status if passed else unknown.status,
                code=None if passed else unknown.code,
                end=end,
                claim=self._claim,
                upstream_status=event.status,
                restore_approval=end == "failed_safe",
                keep_answer=end == "completed",
            ),
            Reply() if passed else Reply(refusal=unknown),
        )

    def _not_sent(self, refusal: Refusal, reason: str) -> Commands:
        if self._execute.possible:
            return self._still_possible(reason)
        record = Record(
            phase="executed",
            effect="not_executed",
            status=refusal.status,
            code=refusal.code,
            end="failed_safe" if self._claim else None,
            claim=self._claim,
            restore_approval=True,
        )
        return self._record(record, Reply(refusal=refusal), reason)

    def _still_possible(self, reason: str) -> Commands:
        refusal = outcome.still_possible(reason)
        record = Record(
            phase="executed",
            effect="unknown",
            status=refusal.status,
            code=refusal.code,
            end="unknown",
            claim=self._claim,
        )
        return self._record(record, Reply(refusal=refusal), reason)

    def _no_answer(self, reason: str, for_read: Refusal) -> Commands:
        read = self._call.class_ == "read"
        refusal = for_read if read else outcome_unknown(reason)
        end: ClaimState = "completed" if read else "unknown"
        record = Record(
            phase="executed",
            effect="not_executed" if read else "unknown",
            status=refusal.status,
            code=refusal.code,
            end=end if self._claim else None,
            claim=self._claim,
        )
        # A read that may have been answered may have cost: it is spent, no outcome is waited for.
        hold = Settle() if read else Keep()
        return self._record(record, Reply(refusal=refusal), reason, hold=hold)

    def _replay(self, claim: Claim) -> Commands:
        assert claim.answer is not None
        done = claim.answer.status < 400
        record = Record(
            phase="replayed",
            effect="confirmed" if done else "not_executed",
            status=claim.answer.status,
            replays=claim.receipt_id,
        )
        return self._record(record, Reply(stored=claim))

    def _refuse(self, refusal: Refusal) -> Commands:
        record = Record(
            phase="refused", effect="not_executed", status=refusal.status, code=refusal.code
        )
        return self._record(record, Reply(refusal=refusal))

    def _record(
        self, record: Record, reply: Reply, reason: str = "", hold: Command | None = None
    ) -> Commands:
        """Holds, receipt, and what to reply with and without the receipt."""
        self._state = self._recording
        self._reply = reply
        sent = record.end in ("completed", "unknown") and self._call.class_ != "read"
        why = reason or "the ledger could not record what the tool answered"
        self._instead = Reply(refusal=outcome_unknown(why) if sent else outcome.store_failed())
        if self._claim is None:
            return (record,)
        holds: dict[EffectKnown, Command] = {"confirmed": Settle(), "not_executed": Release()}
        return (hold or holds.get(record.effect, Keep()), record)

    def _recording(self, event: Event) -> Commands:
        match event:
            case Recorded():
                return self._end(self._reply)
            case StoreFailed():
                return self._end(self._instead)
        return ()

    def _ended(self, event: Event) -> Commands:  # noqa: ARG002
        return ()

    def _look_up(self, wait_ns: int = 0) -> Commands:
        self._state = self._looking_up
        return (LookUpKey(wait_ns=wait_ns),)

    def _decide(self) -> Commands:
        self._state = self._deciding
        return (Decide(attempt=self._execute.attempt),)

    def _fail_closed(self) -> Commands:
        """The store has just failed: a refusal that cannot be recorded either."""
        return self._end(Reply(refusal=outcome.store_failed()))

    def _end(self, reply: Reply) -> Commands:
        self._state = self._ended
        return (reply,)

    @property
    def _call(self) -> CallReceived:
        assert self._received is not None
        return self._received
