"""Performs one call's commands over the ports, and keeps the bodies the machine does not see.

**Rules**
1. A command is performed once and answered by one event; a port that fails is an event too.
2. What is sent is what was prepared: path, query, headers and body of the action, nothing else.
3. The outcome of a call that was sent is recorded with patience: losing it costs an unknown.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from itertools import chain, repeat
from typing import Any, TypeVar

import msgspec

from processors.model.call import Action, Decision, Receipt
from processors.model.principal import Principal, StepUp
from sidecar import clock
from sidecar.canonical import sha256
from sidecar.errors import StoreUnavailable
from sidecar.gateway import approval as approvals
from sidecar.gateway import commands, events, receipt, response
from sidecar.gateway.action import Prepared
from sidecar.gateway.decisions.event import Decided
from sidecar.gateway.desk import Desk
from sidecar.gateway.hold import Costs, NoRoom, accounts, costs, holds
from sidecar.gateway.idempotency import outcome_unknown, scope_of
from sidecar.gateway.masking import mask, masked_paths
from sidecar.gateway.native import upstream_key
from sidecar.gateway.notify.notice import Notice
from sidecar.gateway.opening import Opening
from sidecar.gateway.outcome import store_failed
from sidecar.gateway.performer import client as sending
from sidecar.gateway.policy import obligations
from sidecar.gateway.policy.document import Situation, document
from sidecar.gateway.policy.facts import counters, missing
from sidecar.gateway.policy.limits import exceeded
from sidecar.gateway.policy.obligations import of_type
from sidecar.gateway.policy.result import denied
from sidecar.gateway.problem import Refusal
from sidecar.gateway.protocol import asked_of
from sidecar.gateway.provenance import labels_of
from sidecar.gateway.recovery.driver import resolve
from sidecar.gateway.request import ToolReply
from sidecar.gateway.shown import Unshowable
from sidecar.gateway.spending import spent
from sidecar.gateway.upstream import Audience, UpstreamReply
from sidecar.store.budget import Hold, Spent
from sidecar.store.envelope import SealBroken
from sidecar.store.ledger import (
    ANSWER_BYTES_MAX,
    Answer,
    ApprovalUse,
    CallOutcome,
    ClaimEnd,
    Committed,
    HoldState,
    Intent,
    IntentResult,
    NotCommitted,
    OpenedCall,
    Seen,
)
from sidecar.store.ports import GatewayLedger
from sidecar.store.standing import AskedTooOften, KeyMoved
from sidecar.store.stop import Stop, kinds_that_stop
from sidecar.telemetry import APPROVALS_REFUSED, DEGRADED, QUARANTINED, log

_LOG = log("gateway")
_NAMED = frozenset({"in_flight", "outcome_unknown"})
"""Refusals about a call that has the key: they say where to ask how it stands."""
_OVER = frozenset({"denied", "expired", "invalidated"})
"""States of an approval that no call is made by any more."""
_LET_ON = frozenset({"allow", "allow_with_limits"})
_LEASE_GRACE_NS = 30_000_000_000
_SECOND_NS = 1_000_000_000
_POLL_SECONDS = (0.02, 0.05, 0.1, 0.25)
_RECORD_PAUSES_SECONDS = (0.05, 0.5)

T = TypeVar("T")


class Performer:
    """One call's hands. ``prepared`` and ``opening`` are None for a request that is no action."""

    def __init__(
        self,
        desk: Desk,
        principal: Principal,
        call: OpenedCall,
        first: events.CallReceived | events.Malformed,
        prepared: Prepared | None = None,
        opening: Opening | None = None,
        audience: Audience | None = None,
    ) -> None:
        self._desk = desk
        self._principal = principal
        self.call = call
        self.first = first
        self._prepared_or_none = prepared
        self._opening = opening
        self._audience = audience
        self._decision: Decision | None = None
        self._approval_id: str | None = None
        self._attempt = 1
        self._answer: UpstreamReply | None = None
        self._whole: UpstreamReply | None = None
        self._hold_state: HoldState = "held"
        self._receipt: Receipt | None = None
        self._possible = False
        self._attempt_of: str | None = None
        self._took_ns = 0
        self._addresses: tuple[str, ...] | None = None
        self._judged_by = ""

    @property
    def decided(self) -> str:
        """Policy's effect, ``none`` where it was not asked."""
        return self._decision.effect if self._decision else "none"

    @property
    def principal(self) -> Principal:
        """Whose call it is."""
        return self._principal

    @property
    def put_off(self) -> bool:
        """Whether the caller wants it made later, the tool allows it, and nothing is against it."""
        first, prepared = self.first, self._prepared_or_none
        if prepared is None or prepared.tool.backoff is None or prepared.upload is not None:
            return False
        assert isinstance(first, events.CallReceived)
        return first.refusal is None and first.respond_async and first.has_key

    @property
    def decision_id(self) -> str:
        """The decision's id, empty where policy was not asked."""
        return self._decision.decision_id if self._decision else ""

    @property
    def observed(self) -> bool:
        """Whether the call is only observed: nothing of policy refuses it."""
        return self._opening is not None and self._opening.received.observe

    async def perform(self, command: commands.Command) -> events.Event | None:
        """Do it; None for what needs no answer."""
        try:
            return await self._perform(command)
        except (StoreUnavailable, SealBroken) as error:
            _LOG.error("ledger failed", command=type(command).__name__, why=error)
            return events.StoreFailed()

    def own_fault(self) -> Refusal:
        """What to say when this program failed: whether an effect is possible is known."""
        if self._possible:
            return outcome_unknown("the gateway failed on the way")
        return store_failed()

    def reply(self, command: commands.Reply) -> ToolReply:
        """The answer for the agent."""
        ids = (
            self._decision.decision_id if self._decision else "",
            self._receipt.receipt_id if self._receipt else "",
        )
        if command.refusal is not None:
            reasons = self._receipt.reasons if self._receipt else ()
            told = response.refused(command.refusal, *ids, reasons=reasons)
            return self._located(told) if command.refusal.code in _NAMED else told
        if command.stored is not None:
            return response.stored(command.stored, self._desk.now_ns())
        assert self._answer is not None, "no answer to reply with"
        return response.passed(self._answer, *ids)

    def _located(self, told: ToolReply) -> ToolReply:
        """The refusal with where to ask about the call that has the key."""
        if self._attempt_of is None:
            return told
        where = ("location", f"/v1/calls/{self._attempt_of}")
        return msgspec.structs.replace(told, headers=(*told.headers, where))

    async def _perform(self, command: commands.Command) -> events.Event | None:
        match command:  # what every call has comes first
            case commands.Decide(attempt=attempt):
                return await self._decide(attempt)
            case commands.Forward():
                return await self._forward()
            case commands.Record():
                return await self._record(command)
            case commands.LookUpKey(wait_ns=wait_ns):
                return await self._look_up(wait_ns)
            case commands.AskApproval(wait_ns=wait_ns, seen=seen):
                return await self._ask(wait_ns, seen)
            case commands.CommitIntent():
                return await self._commit(command)
            case commands.MarkSent(claim=claim):
                self._possible = self.call.class_ != "read"
                kinds = kinds_that_stop(self.call.class_)
                held = await self._ledger.mark_sent(claim, self._desk.now_ns(), kinds)
                return self._sent_marked(held)
            case commands.Reconcile(claim=claim):
                return await resolve(self._desk, claim)
            case commands.Settle():
                self._hold_state = "settled"
            case commands.Release():
                self._hold_state = "released"
            case commands.Keep():
                self._hold_state = "held"
            case commands.Reply():
                raise AssertionError("a Reply is not performed but given")
        return None

    def _sent_marked(self, held: bool) -> events.SentMarked:
        if held:
            return events.SentMarked()
        stopped = self._ledger.stop_of(self.call)
        if stopped is not None:
            self._possible = False
        return events.SentMarked(held=stopped is not None, stopped=stopped)

    async def _look_up(self, wait_ns: int) -> events.Event:
        scope = scope_of(self.call)
        assert scope is not None, "a call without a key looks none up"
        ends_ns, waited = clock.monotonic_ns() + wait_ns, False
        for pause in _pauses():
            claim = self._ledger.find_claim(scope)
            open_ = claim is not None and claim.state in ("claimed", "sent")
            runs = claim is not None and open_ and self._desk.runs(claim)
            if open_ and not runs:
                claim = self._ledger.find_claim(scope)  # it may have ended before its owner did
            if not runs or self._given_up(ends_ns):
                self._attempt_of = claim.call_id if claim is not None else None
                if waited and self._ledger.key_revoked(self.call.principal):
                    return events.IntentRefused(code="key_revoked")
                return events.KeyFound(claim=claim, now_ns=self._desk.now_ns(), runs=runs)
            waited = True
            await self._unless_draining(asyncio.sleep(pause))
        raise AssertionError("pauses do not end")

    async def _decide(self, attempt: int) -> events.Event:
        action = self._prepared.action
        prior_tools = self._ledger.prior_tools(self.call)
        told = self._opening.provenance if self._opening else ()
        situation = Situation(
            **await self._facts(),
            time_ns=self._desk.now_ns(),
            request_id=self.call.call_id,
            session_id=self.call.trace_id,
            prior_tools=prior_tools,
            provenance=labels_of(prior_tools, self._desk.ports.registry, told),
            key_present=self._guarded,
            attempt=attempt,
            budget=self._standings(),
        )
        asked = document(
            action,
            self._principal,
            situation,
            self._prepared.value,
            mcp=asked_of(self._prepared.tool.config.match, action.arguments),
        )
        started_ns = clock.monotonic_ns()
        try:
            answer = await self._desk.ports.policy.decide(asked)
            if missing(asked, self._desk.ports.policy.reads):
                answer = denied("policy changed while the facts it reads were looked for")
        except Exception as error:  # whatever went wrong there, it is no permission
            _LOG.error("policy failed", why=error)
            answer = denied("policy failed")
        self._decision = self._kept(answer.decision(self._desk.new_id()))
        self._tell(asked, situation.time_ns, clock.monotonic_ns() - started_ns)
        if self._degraded:
            DEGRADED.labels(self.call.class_, "policy").inc()
        await self._oblige()
        host = self._desk.ports.registry.host(action.upstream)
        beyond = exceeded(self._limits, action, host=host)
        if self._decision.error is None and (beyond or self._decision.effect == "deny"):
            await self._denied()
        try:
            reserves = bool(self._wanted(self._desk.now_ns()))
        except NoRoom as none:
            return events.Decided(decision=self._decision, exceeded=beyond, no_room=none.refusal)
        return events.Decided(decision=self._decision, exceeded=beyond, reserves=reserves)

    async def _facts(self) -> dict[str, Any]:
        """What is known of the caller and the tool, and what else the bundle reads."""
        desk, action = self._desk, self._prepared.action
        policy, opening = desk.ports.policy, self._opening
        subject = desk.settings.subjects.get(self.call.principal)
        reads = policy.reads
        found: dict[str, Any] = {}
        if "addresses" in reads:
            look_up = desk.ports.addresses
            self._addresses = await look_up(action.upstream) if look_up is not None else ()
            found["resolved_ips"] = self._addresses
        if reads:
            found["counters"] = counters(self._ledger, self.call, reads, desk.now_ns())
        return found | {
            "client_ip": opening.client_ip if opening else None,
            "claimed": opening.claimed if opening else {},
            "place": desk.ports.registry.place(action.upstream),
            "policy_revision": policy.revision,
            "trust": (subject.trust or None) if subject else None,
            "labels": subject.labels if subject else {},
        }

    def _tell(self, asked: dict[str, Any], at_ns: int, took_ns: int) -> None:
        """For the decision log, if there is one."""
        assert self._decision is not None
        self._desk.ports.decided(
            Decided(
                decision=self._decision,
                document=asked,
                project=self.call.project,
                principal=self.call.principal,
                tool=self.call.tool,
                call_id=self.call.call_id,
                trace_id=self.call.trace_id,
                at_ns=at_ns,
                took_ns=took_ns,
            )
        )

    @property
    def _costs(self) -> Costs:
        return costs(
            self.call,
            self._prepared.action,
            self._prepared.tool,
            team=self.principal.owner,
            organisations=self._desk.settings.organisations.get(self.call.project, ()),
        )

    def _wanted(self, now_ns: int) -> tuple[Hold, ...]:
        """What the call reserves. Raises NoRoom."""
        if not self._desk.settings.budgets and not self._limits:
            return ()
        return holds(self._desk.settings.budgets, self._costs, self._decision, now_ns)

    def _holds(self, now_ns: int) -> tuple[Hold, ...]:
        """The same for the intent; an observed call reserves without being refused."""
        try:
            wanted = self._wanted(now_ns)
        except NoRoom:
            if self._observed:
                return ()
            raise
        if not self._observed:
            return wanted
        return tuple(msgspec.structs.replace(each, enforced=False) for each in wanted)

    def _standings(self) -> dict[str, dict[str, str]]:
        """Every budget the call falls under, as policy sees it."""
        if not self._desk.settings.budgets:
            return {}
        now_ns = self._desk.now_ns()
        asked = accounts(self._desk.settings.budgets, self._costs, now_ns)
        if not asked:
            return {}
        found = self._ledger.standings(self.call.project, asked, now_ns)
        return {
            each.budget: {
                "limit": each.limit, "unit": each.unit, "used": each.spent, "reserved": each.held
            }
            for each in found
        }  # fmt: skip

    async def _ask(self, wait_ns: int, seen: Seen | None) -> events.Event:
        assert self._decision is not None
        ends_ns = clock.monotonic_ns() + wait_ns
        try:
            wanted = approvals.request(
                self._prepared.action,
                self._decision,
                self._desk.settings.approvals,
                self.call,
                approval_id=self._desk.new_id(),
                requester_name=self._principal.name,
                now_ns=self._desk.now_ns(),
                body=self._prepared.value,
                requester_owner=self._principal.owner,
                secret=self._desk.house.secret,
                step_up=self._prepared.tool.config.step_up.demand,
            )
        except Unshowable as error:
            return events.IntentRefused(code=error.code)
        try:
            pace = self._desk.settings.approvals.fatigue.agent
            found = await self._ledger.ask_approval(wanted, pace, seen=seen)
        except KeyMoved:
            return events.KeyTaken()
        except AskedTooOften:
            APPROVALS_REFUSED.labels("approval_fatigue").inc()
            return events.IntentRefused(code="approval_fatigue")
        self._approval_id = found.approval_id
        for pause in _pauses():
            found = approvals.current(found, self._desk.now_ns())
            if found.status == "approved" and wait_ns:
                return events.Approved(approval_id=found.approval_id)
            if found.status != "pending" or self._given_up(ends_ns):
                return events.NotApproved(approval=found)
            left_ns = ends_ns - clock.monotonic_ns()
            later = self._ledger.approval_after(
                found, poll_seconds=pause, seconds=max(0, left_ns) / _SECOND_NS
            )
            found = await self._unless_draining(later) or found
        raise AssertionError("pauses do not end")

    def _given_up(self, ends_ns: int) -> bool:
        """Whether a wait is over: its time has passed, or this gateway is on its way out."""
        return self._desk.draining() or clock.monotonic_ns() >= ends_ns

    async def _unless_draining(self, wait: Coroutine[Any, Any, T]) -> T | None:
        """What a wait gives; None as soon as this gateway is on its way out."""
        waiting = asyncio.ensure_future(wait)
        leaving = asyncio.ensure_future(self._desk.drained())
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() else None
        finally:
            for each in (waiting, leaving):
                each.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)

    async def _commit(self, command: commands.CommitIntent) -> events.Event:
        self._approval_id = command.approval_id or self._approval_id
        self._attempt = command.attempt
        held = self._held(command.approval_id)
        if held is not None:
            return held
        result = await self._commit_intent(self._intent(command))
        match result:
            case Committed(claim=claim, marked=marked):
                self._attempt_of = self.call.call_id
                sent = None if marked is None else self._sent_marked(marked)
                return events.IntentCommitted(claim=claim, sent=sent)
            case NotCommitted(code=code, over=over):
                return events.IntentRefused(code=code, over=over)
        return events.KeyTaken()

    async def _commit_intent(self, intent: Intent) -> IntentResult:
        """Commit it; until it is known to be unmarked, an effect counts as possible."""
        self._possible, unmarked = self.call.class_ != "read", True
        try:
            result = await self._ledger.commit_intent(intent)
            unmarked = not isinstance(result, Committed) or result.marked is None
        finally:
            self._possible = self._possible and not unmarked
        return result

    def _held(self, approval_id: str | None) -> events.IntentRefused | None:
        """Why the call is not made yet, where policy holds it."""
        if self._observed or not obligations.kinds(self._decision) & obligations.HOLDING:
            return None
        scope = scope_of(self.call)
        queued = self._ledger.durable_of(scope) if scope else None
        if queued is not None and queued.state == "discarded":
            return events.IntentRefused(code="call_cancelled")
        approval = self._ledger.find_approval(approval_id) if approval_id else None
        if approval is not None and approval.status in _OVER:
            return None  # for good: the transaction refuses it, and says why
        until_ns = obligations.held_until_ns(
            self._decision,
            approval=approval,
            queued_at_ns=queued.created_at_ns if queued and queued.state == "waiting" else None,
        )
        if until_ns is None:
            return events.IntentRefused(code=obligations.UNMET)
        left_ns = until_ns - self._desk.now_ns()
        if left_ns <= 0:
            return None
        return events.IntentRefused(code="cooling_off", retry_after_s=-(-left_ns // _SECOND_NS))

    def _intent(self, command: commands.CommitIntent) -> Intent:
        tool, now_ns = self._prepared.tool, self._desk.now_ns()
        revision = self._decision.policy_revision if self._decision else ""
        return Intent(
            call=self._claiming,
            owner=self._desk.owner,
            lease_until_ns=now_ns + tool.timeout_ns + _LEASE_GRACE_NS,
            expires_at_ns=now_ns + tool.key_retention_ns,
            policy_revision=revision or self._desk.ports.policy.revision,
            receipt=self._sign(phase="authorised", effect="unknown", status=0, now_ns=now_ns),
            now_ns=now_ns,
            fingerprint=self.fingerprint,
            distinct_since_ns=self._opening.distinct_since_ns if self._opening else None,
            expected=command.seen,
            approval=self._use(command.approval_id, revision),
            holds=self._holds(now_ns),
            marks=kinds_that_stop(self.call.class_),
        )

    @property
    def _claiming(self) -> OpenedCall:
        """The call as its claim says it: a read takes no key, it may be made again."""
        if self.call.class_ != "read":
            return self.call
        return msgspec.structs.replace(self.call, key_hash=None)

    def _use(self, approval_id: str | None, revision: str) -> ApprovalUse | None:
        if approval_id is None:
            return None
        assert self.call.key_hash is not None
        return ApprovalUse(
            approval_id=approval_id,
            action_hash=self.call.action_hash,
            key_hash=self.call.key_hash,
            policy_revision=revision,
            tool_digest=self._prepared.tool.tool_digest,
            step_up=self._demanded,
        )

    @property
    def _demanded(self) -> tuple[StepUp, ...]:
        """What is demanded of approvers now."""
        configured = self._prepared.tool.config.step_up.demand
        return approvals.demanded(self._decision, configured) if self._decision else configured

    async def _forward(self) -> events.Event:
        if self.call.class_ == "read":  # what has effects was asked with its mark
            stopped = self._ledger.stop_of(self.call)
            if stopped is not None:
                return events.Stopped(code=stopped)
        request = sending.request(
            self._prepared,
            call_id=self.call.call_id,
            idempotency_key=self._upstream_key,
            episode=self._principal.episode,
            limits=self._limits,
            addresses=self._addresses,
            audience=sending.shown(
                None if self._masked else self._audience,
                self._decision.decision_id if self._decision else "",
            ),
        )
        started_ns = clock.monotonic_ns()
        upstreams, limits = self._desk.ports.upstreams, self._limits
        event, self._answer = await sending.send(upstreams, request, limits, self._forbidden)
        if not isinstance(event, events.UpstreamFailed) or event.sent:
            self._took_ns = max(1, clock.monotonic_ns() - started_ns)
        if self._answer is not None and self._masked:
            self._whole = self._answer
            self._answer = mask(self._answer, self._masked)
        return event

    async def _forbidden(self) -> str | None:
        """The code of why an answer that comes now may not go on, or None."""
        try:
            stopped = self._ledger.stop_of(self.call)
            if stopped is not None:
                return stopped
            if self._ledger.key_revoked(self.call.principal):
                return "key_revoked"
            return None if await self._still_allowed() else "policy_changed"
        except Exception as error:  # whatever went wrong, it is no permission
            _LOG.error("stream not looked after", call_id=self.call.call_id, why=error)
            return "fail_closed"

    async def _still_allowed(self) -> bool:
        """Whether the policy that decides now allows it; asked once a revision."""
        revision, before = self._desk.ports.policy.revision, self._decision
        judged = self._judged_by or (before.policy_revision if before else "")
        if revision == judged or self._observed:
            return True
        said = await self._decide(self._attempt)
        after, self._decision = self._decision, before  # its receipt is of what let it through
        self._judged_by = after.policy_revision if after else ""
        assert isinstance(said, events.Decided) and after is not None
        if after.error is not None or said.exceeded is not None or masked_paths(after):
            return False
        return after.effect in _LET_ON or (
            after.effect == "require_approval" and self._approval_id is not None
        )

    @property
    def _observed(self) -> bool:
        return isinstance(self.first, events.CallReceived) and self.first.observe

    @property
    def _masked(self) -> tuple[str, ...]:
        """What the agent is told the answer without; kept and told again without it too."""
        return () if self._observed else masked_paths(self._decision)

    def _kept(self, decision: Decision) -> Decision:
        """The decision, told to whom it is to be told; a denial where it asks for what cannot be
        done here."""
        asked = obligations.kinds(decision)
        if not asked:
            return decision
        ports, notices = self._desk.ports, of_type(decision, "notify")
        told = [self._notified(decision, each.get("webhook", "")) for each in notices]
        keyed = self.call.class_ != "read" and self.call.key_hash is not None
        can = {"notify": all(told), "log_extra": ports.logs_decisions}
        can["step_up"] = decision.effect in ("require_approval", "deny")  # else nobody votes
        can |= dict.fromkeys(obligations.HOLDING, keyed)
        lacking = min((kind for kind in asked if not can.get(kind, True)), default=None)
        if lacking is None or self._observed:
            return decision
        reasons = (obligations.unmet(lacking), *decision.reasons)
        return msgspec.structs.replace(
            decision, effect="deny", reasons=reasons, limits={}, approval=None
        )

    def _notified(self, decision: Decision, webhook: str) -> bool:
        if self._desk.ports.notice is None:
            return False
        told = Notice(
            decision_id=decision.decision_id,
            call_id=self.call.call_id,
            project=self.call.project,
            principal=self.call.principal,
            tool=self.call.tool,
            class_=self.call.class_,
            effect=decision.effect,
            codes=tuple(each.code for each in decision.reasons),
            policy_revision=decision.policy_revision,
            at_ns=self._desk.now_ns(),
        )
        return self._desk.ports.notice(told, webhook)

    async def _oblige(self) -> None:
        """Do what the decision asks for at once, whatever its effect. Raises StoreUnavailable."""
        for said in of_type(self._decision, "quarantine_agent"):
            revision = self._decision.policy_revision if self._decision else ""
            reason = said.get("reason") or "policy asked for it"
            await self._quarantine("policy", reason, set_by=f"policy:{revision}")

    async def _denied(self) -> None:
        """Freeze an agent that tries one denial after the other. Raises StoreUnavailable."""
        call, probing = self.call, self._desk.probing
        about = (call.project, call.principal, call.tool, call.action_hash)
        if not self._observed and probing.probes(*about, clock.monotonic_ns()):
            reason = f"it tried many different calls of {call.tool} that policy denies"
            await self._quarantine("probing", reason, set_by="gateway:probing")

    async def _quarantine(self, why: str, reason: str, *, set_by: str) -> None:
        if self._observed:
            return
        stop = Stop(
            stop_id=self._desk.new_id(),
            project=self.call.project,
            kind="freeze",
            scope="agent",
            subject=self.call.principal,
            reason=reason,
            set_by=set_by,
            set_at_ns=self._desk.now_ns(),
        )
        if await self._ledger.set_stop(stop) == stop:  # else it stands already
            QUARANTINED.labels(why).inc()
            _LOG.warning("agent quarantined", why=why, call_id=self.call.call_id, stop=stop.stop_id)

    async def _record(self, command: commands.Record) -> events.Event:
        now_ns = self._desk.now_ns()
        self._receipt = self._sign(
            phase=command.phase,
            effect=command.effect,
            status=command.status,
            now_ns=now_ns,
            code=command.code,
            upstream_status=command.upstream_status,
            **(self._decision_of(command.replays) if command.phase == "replayed" else {}),
        )
        recorded = CallOutcome(
            call=self.call, receipt=self._receipt, now_ns=now_ns, end=self._end(command)
        )
        if command.end == "unknown" and command.claim is not None:
            self._desk.settling.meet(command.claim, clock.monotonic_ns())
        for pause in _RECORD_PAUSES_SECONDS if command.end is not None else ():
            try:
                return self._recorded(await self._ledger.record(recorded))
            except StoreUnavailable as error:
                _LOG.warning("outcome not recorded yet", call_id=self.call.call_id, why=error)
                await asyncio.sleep(pause)
        try:
            return self._recorded(await self._ledger.record(recorded))
        except StoreUnavailable:
            self._receipt = None
            raise

    def _decision_of(self, receipt_id: str | None) -> dict[str, Any]:
        """What was decided on the call whose answer is given again."""
        found = self._ledger.get_receipt(receipt_id) if receipt_id else None
        if found is None:
            return {"decision_effect": "allow"}
        names = ("decision_id", "decision_effect", "reasons", "policy_revision")
        return {name: getattr(found, name) for name in names}

    def _recorded(self, written: bool) -> events.Event:
        if written:
            return events.Recorded()
        self._receipt = None
        return events.StoreFailed()

    def _end(self, command: commands.Record) -> ClaimEnd | None:
        if command.claim is None or command.end is None:
            return None
        return ClaimEnd(
            claim=command.claim,
            call_id=self.call.call_id,
            state=command.end,
            reason=command.code,
            answer=self._kept_answer() if command.keep_answer else None,
            restore_approval=command.restore_approval,
            holds=self._hold_state,
            spent=self._spent(),
        )

    def _spent(self) -> tuple[Spent, ...]:
        """What the call took, once it may have left."""
        if not self._took_ns:
            return ()
        whole = self._whole or self._answer
        settled = whole if self._hold_state == "settled" else None
        return spent(
            self._prepared.tool.config,
            self._prepared.action.cost_currency,
            settled.body if settled else None,
            self._took_ns,
        )

    def _kept_answer(self) -> Answer | None:
        answer = self._answer
        if answer is None or len(answer.body) > ANSWER_BYTES_MAX:
            return None
        return Answer(
            status=answer.status, headers=response.clean(answer.headers), body=answer.body
        )

    @property
    def _degraded(self) -> bool:
        """Whether the call is let through though policy had no usable answer."""
        received = self.first
        if not isinstance(received, events.CallReceived) or self._decision is None:
            return False
        return received.fail_open and self._decision.error is not None

    @property
    def _enforcement(self) -> str:
        word = self._opening.enforcement if self._opening else self._desk.settings.mode
        return f"{word},degraded" if self._degraded else word

    def _authority(self, action: Action | None) -> str | None:
        registry = self._desk.ports.registry
        return registry.authority(action.upstream) if action else None

    def _sign(self, *, now_ns: int, **outcome: Any) -> Receipt:
        action = self._prepared_or_none.action if self._prepared_or_none else None
        opening, answer = self._opening, self._whole or self._answer
        drafted = receipt.draft(
            self.call,
            self._decision,
            receipt_id=self._desk.new_id(),
            now_ns=now_ns,
            **outcome,
            attempt=self._attempt,
            approval_id=self._approval_id,
            upstream=action.upstream if action else None,
            request_digest=self._request_digest(outcome["phase"]),
            response_digest=sha256(answer.body) if answer else None,
            upstream_authority=self._authority(action),
            upstream_address=answer.address if answer else None,
            span_id=opening.trace.span_id if opening else None,
            episode=self._principal.episode,
            enforcement=self._enforcement,
        )
        return receipt.sign(drafted, self._desk.signer)

    @property
    def _upstream_key(self) -> str | None:
        hashed = self.call.key_hash
        if hashed is None:
            return None
        form = self._prepared.tool.config.idempotency.upstream_form
        return upstream_key(self._desk.house.secret, hashed, form)

    def _request_digest(self, phase: str) -> str | None:
        """Of the bytes that are sent; where nothing is, of those that came."""
        prepared = self._prepared_or_none
        if prepared is None:
            return None
        adds = bool(prepared.tool.config.idempotency.upstream_field)
        if not adds or phase not in ("authorised", "executed"):
            return prepared.action.body_digest
        return sha256(sending.wire_body(prepared, self._upstream_key))

    @property
    def _limits(self) -> dict[str, Any]:
        """What of the decision's limits is to be kept: those of an allow_with_limits."""
        decision = self._decision
        if decision is None or decision.effect != "allow_with_limits":
            return {}
        return decision.limits

    @property
    def _guarded(self) -> bool:
        """Whether a key guards the call, or its tool's window for calls without one."""
        return self.call.key_hash is not None or self._prepared.tool.duplicate_window_ns > 0

    @property
    def fingerprint(self) -> str:
        """What makes another call with the same key the same."""
        assert isinstance(self.first, events.CallReceived)
        return self.first.fingerprint

    @property
    def _ledger(self) -> GatewayLedger:
        return self._desk.ports.ledger

    @property
    def _prepared(self) -> Prepared:
        assert self._prepared_or_none is not None
        return self._prepared_or_none


def _pauses() -> Iterator[float]:
    """Short waits first, then steady ones, without end."""
    return chain(_POLL_SECONDS, repeat(_POLL_SECONDS[-1]))
