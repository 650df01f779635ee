"""Who asks is known, what is asked is done: an operation's way from either wire to the stores.

**Rules**
1. Whatever blocks runs in a thread, over connections of its own: the loop that serves tool calls
   never waits for somebody's list.
2. Who waits is asked again who they are before they are told anything: a key that was revoked
   meanwhile gets no answer.
3. Waiting, following and verifying are bounded in number; a stop ends them at once. Who waits for
   a request for approval is told of it; they look themselves only for what time and others change.
4. Only an approver decides, with a reason; who may is ``gateway.approval``'s rule, whether it still
   counts is the ledger's. Who approves says what they were shown, by its digest: nobody is taken to
   have seen what they do not name. While the clock was set since the start nobody approves.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct

from processors.model.call import Approval
from processors.model.principal import Presented, Principal, StepUp
from processors.redact.masker import Masker
from sidecar import clock
from sidecar.control import documents, reads
from sidecar.control.breaking.worker import DEEDS, Breaking
from sidecar.control.chain import entry_record, head_record, verification
from sidecar.control.changes import CHANGES, Bench
from sidecar.control.operations import Operation
from sidecar.control.places import Full, Places
from sidecar.control.reads import READS, Asked, Views
from sidecar.control.requests import (
    LIST_MAX,
    ApproveRequest,
    BatchItem,
    ListApprovalsRequest,
)
from sidecar.errors import StoreUnavailable
from sidecar.gateway.approval import why_invalid, why_not_eligible
from sidecar.gateway.audit import missing, verify
from sidecar.gateway.config import Approvals
from sidecar.gateway.problem import Refused
from sidecar.gateway.reconcile import Ruling
from sidecar.gateway.steady import Steady
from sidecar.identity.driver import Authenticate
from sidecar.identity.keys import ProviderUnavailable, Unauthenticated
from sidecar.identity.roles import Forbidden, Permission, acting_in, require
from sidecar.store import step_up
from sidecar.store.durable import Disposal
from sidecar.store.envelope import SealBroken
from sidecar.store.ledger import AuditEntry, Ballot, CallQuery
from sidecar.store.noted import Note
from sidecar.store.policy import PolicyBallot, PolicyOffer
from sidecar.store.ports import PageBook, PeoplesBook, Watching
from sidecar.store.standing import person as named
from sidecar.store.stop import LiftBallot, Stop, person
from sidecar.store.traces import TraceQuery
from sidecar.telemetry import APPROVALS_REFUSED, log

T = TypeVar("T")
Who = Callable[[], Awaitable[Principal]]
"""The caller, asked anew. Raises Refused 401, 403."""

_LOG = log("control")
_DONE = {"create_key": "key_created", "revoke_key": "key_revoked", "rotate_key": "key_rotated"}
_LOOK_SECONDS = 0.25
_TOLD_SECONDS = 2.0
"""How often who is told looks themselves: for what time, policy and other processes change."""
_PAGE = 500
_TOLD = 100
# Verifying is arithmetic: after each entry it lets others have the interpreter, which they would
# else get every 5 ms only.
_BREATH_SECONDS = 0.0001


_NOT_RESOLVED = {
    "no_such_call": (404, "no_such_call", "there is no such call"),
    "in_flight": (409, "in_flight", "the call is on its way; its outcome is not known yet"),
    "not_unknown": (409, "not_unknown", "the outcome of this call is not unknown"),
}


class CallDesk(Protocol):
    """The gateway, for what people say of calls."""

    async def resolve(self, ruling: Ruling) -> str | None:
        """Record a person's word on an unknown outcome; None, or the code of why not."""
        ...

    async def dispose(self, disposal: Disposal) -> bool:
        """Put a dead letter back or away; False when it is none."""
        ...


class Desk:
    """Answers operations. ``release`` lets go of who waits; ``stop`` is for after the wires'."""

    def __init__(
        self,
        views: Views,
        bench: Bench,
        book: PeoplesBook,
        authenticate: Authenticate,
        calls: CallDesk,
        *,
        approvals: Approvals = Approvals(),  # noqa: B008 - frozen
        policy_approvers: Sequence[str] = (),
        now_ns: Callable[[], int] = clock.now_ns,
        steady_ns: Callable[[], int] = clock.steady_ns,
    ) -> None:
        self._views = views
        self._bench = bench
        self._book = book
        self._authenticate = authenticate
        self._calls = calls
        self._rules = approvals
        self._policy_approvers = tuple(policy_approvers)
        self._now_ns = now_ns
        self._steady_ns = steady_ns
        # Where time is played, both clocks are the player's, or neither is compared.
        self._steady: Steady | None = None
        if now_ns is clock.now_ns or steady_ns is not clock.steady_ns:
            self._steady = Steady(wall_ns=now_ns(), steady_ns=steady_ns())
        self._breaking = Breaking(book, approvals, self._in_time)
        # One thread for all: the stores' read connections are not made for two at once.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="control")
        self._verifier = ThreadPoolExecutor(1, thread_name_prefix="control-verify")
        self._verifying = asyncio.Lock()
        self._places = Places()
        self._stopping = asyncio.Event()

    @property
    def version(self) -> documents.Version:
        """The program that answers."""
        return self._views.house.version

    @property
    def pages(self) -> PageBook:
        """Where the pages keep who is signed in."""
        return self._book

    async def principal(
        self, presented: Presented, project: str | None, permission: Permission | None
    ) -> Principal:
        """Who presents this, acting in a project. Raises Refused 401, 403."""
        try:
            found = acting_in(await self._authenticate(presented), project)
            if permission is not None:
                require(found, permission)
        except Unauthenticated as error:
            raise Refused(401, "unauthenticated", str(error)) from None
        except Forbidden as error:
            raise Refused(403, "forbidden", str(error)) from None
        except ProviderUnavailable:
            text = "the identity provider cannot be asked now"
            raise Refused(
                503, "identity_unavailable", text, next_action="retry", retry_after=5
            ) from None
        return found

    async def answer(
        self, operation: Operation, who: Who, of: Any, render: Callable[[Any], T]
    ) -> T:
        """What the operation gives, rendered in the thread that read it. Raises Refused."""
        asked = Asked(principal=await who(), of=of, now_ns=self._now_ns())
        name = operation.name
        if name in READS:
            return await self._run(lambda: render(READS[name](self._views, asked)))
        if name in CHANGES:
            done = await self._run(lambda: CHANGES[name](self._bench, asked))
            _LOG.info(_DONE[name], key=done.key_id, by=asked.principal.id)
            await self._book.note(_action(name, done.key_id, asked))
            return render(done)
        if name == "verify_audit":
            return render(await self._verify())
        if name == "set_stop":
            return render(await self._set_stop(asked))
        if name == "lift_stop":
            return render(await self._lift_stop(asked))
        if name in ("approve_policy", "deny_policy"):
            return render(await self._vote_policy(operation, asked))
        if name in ("requeue_call", "discard_call"):
            return render(await self._dispose(operation, asked))
        if name == "resolve_call":
            return render(await self._resolve(asked))
        if name in DEEDS:
            glass_id = await DEEDS[name](self._breaking, asked)
            shown = partial(reads.get_break_glass, self._views, asked, glass_id)
            return render(await self._run(shown))
        if name == "approve_batch":
            return render(await self._vote_each(asked))
        assert name in ("approve", "deny"), name
        return render(await self._vote(asked, "deny" if name == "deny" else "approve"))

    async def changed(
        self,
        operation: Operation,
        who: Who,
        of: Any,
        render: Callable[[Any], T],
        known: Callable[[T], bool],
    ) -> T:
        """The answer, held for up to ``of.wait`` seconds while it is one that is ``known``."""
        found = await self.answer(operation, who, of, render)
        clock_ = asyncio.get_running_loop().time
        until = clock_() + getattr(of, "wait", 0)
        if not known(found):
            return found
        principal = (await who()).id
        if not self._places.are_free(principal):
            return found
        with self._places.taken(principal), self._news(operation, of) as watching:
            # Looked at once more: it may have changed before it was watched.
            found = await self.answer(operation, who, of, render)
            while known(found) and (left := until - clock_()) > 0:
                if await self._stopped(watching, left):
                    break
                found = await self.answer(operation, who, of, render)
        return found

    def why_not(self, found: Approval, voter: Principal) -> str | None:
        """Why this person cannot decide this request, in words; None where they can."""
        code = why_not_eligible(found, voter, self._rules)
        return None if code is None else _CODES[code][1]

    def step_up(self, found: Approval, voter: Principal) -> StepUp | None:
        """What this person's sign-in lacks to approve this request; None where nothing."""
        return step_up.unmet(voter.authn, found.step_up, self._now_ns())

    def stream(self, operation: Operation, who: Who, of: Any) -> AsyncIterator[Struct]:
        """The items that a streaming operation gives. Raises Refused."""
        streams = {
            "export_audit": self._export,
            "tail_traces": self._tail,
            "watch_approvals": self._watch,
        }
        return streams[operation.name](who, of)

    def release(self) -> None:
        """End what waits and follows: they are answered now."""
        self._stopping.set()

    async def start(self) -> None:
        """Nothing is begun before somebody asks."""

    async def stop(self) -> None:
        """End the threads. Safe without start and twice."""
        self.release()
        for threads in (self._reader, self._verifier):
            await asyncio.to_thread(threads.shutdown)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    def _news(self, operation: Operation, of: Any) -> AbstractContextManager[Watching | None]:
        """What tells when this operation's answer may have changed; nothing where none does."""
        if operation.service != "ApprovalService":
            return nullcontext()
        return self._book.approval_news(getattr(of, "approval_id", None))

    async def _stopped(
        self, watching: Watching | None = None, seconds: float = _TOLD_SECONDS
    ) -> bool:
        """Wait until it is time to look again; whether it is time to end."""
        look = _LOOK_SECONDS if watching is None else _TOLD_SECONDS
        looking = (
            asyncio.sleep(min(look, seconds))
            if watching is None
            else watching.moved(min(look, seconds))
        )
        waits = [asyncio.ensure_future(each) for each in (looking, self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return self._stopping.is_set()

    async def _vote_each(self, asked: Asked) -> documents.BatchOutcomes:
        """Each vote of a batch, in order; what becomes of one changes nothing of another."""
        listed = [each.approval_id for each in asked.of.approvals]
        if len(set(listed)) < len(listed):
            raise Refused(409, "batch_repeats", "a request stands twice in the batch")
        found = [await self._outcome(asked, each) for each in asked.of.approvals]
        return documents.BatchOutcomes(outcomes=tuple(found))

    async def _outcome(self, asked: Asked, item: BatchItem) -> documents.BatchOutcome:
        of = ApproveRequest(
            approval_id=item.approval_id, reason=asked.of.reason, shown_digest=item.shown_digest
        )
        named, one = item.approval_id, msgspec.structs.replace(asked, of=of)
        try:
            voted = await self._vote(one, "approve", item.action_hash)
        except Refused as refused:
            code, detail = refused.code, refused.detail
        except (StoreUnavailable, SealBroken) as error:
            _LOG.error("store_failed", why=error)
            code, detail = "store_unavailable", "the store cannot be used now"
        else:
            return documents.BatchOutcome(approval_id=named, counted=True, status=voted.status)
        return documents.BatchOutcome(approval_id=named, counted=False, code=code, detail=detail)

    async def _vote(
        self, asked: Asked, decision: Literal["approve", "deny"], action_hash: str | None = None
    ) -> Approval:
        """A vote; where ``action_hash`` says for which action, for no other."""
        find = reads.get_approval
        found, voter, of = (
            await self._run(lambda: find(self._views, asked)),
            asked.principal,
            asked.of,
        )
        code = why_not_eligible(found, voter, self._rules)
        if action_hash not in (None, found.action_hash):
            code = "approval_mismatch"
        if code is None and decision == "approve" and not self._in_time():
            code = "clock_skewed"
        if code is None and decision == "approve" and found.status == "invalidated":
            code = why_invalid(found, await self._run(lambda: reads.ground(self._views)))
        if code is None:
            code = await self._book.vote(
                Ballot(
                    project=found.project,
                    approval_id=found.approval_id,
                    voter=voter.id,
                    voter_name=voter.name,
                    decision=decision,
                    reason=Masker().mask(of.reason.strip()),  # it stays in the chain for good
                    shown_digest=of.shown_digest or found.shown_digest,
                    now_ns=self._now_ns(),
                    pace=self._rules.fatigue.person,
                    authn=voter.authn,
                )
            )
        if code is not None:
            APPROVALS_REFUSED.labels(code if code in _CODES else "not_pending").inc()
            lacks = self.step_up(found, voter) if code == step_up.CODE else None
            raise _not_counted(code, lacks)
        return await self._run(lambda: find(self._views, asked))

    def _in_time(self) -> bool:
        """Whether the clock has gone on as time has since the start."""
        return self._steady is None or self._steady.agree(self._now_ns(), self._steady_ns())

    async def _set_stop(self, asked: Asked) -> Stop:
        of = asked.of
        if bool(of.subject) != (of.scope != "project"):
            text = "subject names the agent or tool to stop; a stop of the project has none"
            raise Refused(422, "subject_misplaced", text)
        wanted = Stop(
            stop_id=clock.new_id(),
            project=asked.project,
            kind=of.kind,
            scope=of.scope,
            subject=of.subject,
            reason=Masker().mask(of.reason.strip()),
            set_by=asked.principal.id,
            set_at_ns=asked.now_ns,
        )
        made = await self._book.set_stop(wanted)
        _LOG.warning("stop_set", stop=made.stop_id, kind=made.kind, by=made.set_by)
        return made

    async def _lift_stop(self, asked: Asked) -> Stop:
        voter, of = asked.principal, asked.of
        ballot = LiftBallot(
            project=asked.project,
            stop_id=of.stop_id,
            lifter=voter.id,
            identity=person(voter.name, voter.id),
            reason=Masker().mask(of.reason.strip()),
            now_ns=asked.now_ns,
        )
        code = await self._book.lift_stop(ballot)
        if code is not None:
            raise _not_lifted(code)
        _LOG.warning("stop_lift_vote", stop=of.stop_id, by=voter.id)
        found = await self._run(lambda: self._views.ledger.find_stop(of.stop_id, asked.project))
        assert found is not None, "there was one to vote on"
        return found

    async def _vote_policy(self, operation: Operation, asked: Asked) -> PolicyOffer:
        voter, of = asked.principal, asked.of
        identity = named(voter.name)
        approvers = {named(each) for each in self._policy_approvers}
        if approvers and identity not in approvers:
            raise _policy_not_counted("approver_not_eligible")
        ballot = PolicyBallot(
            revision=of.revision,
            voter=voter.id,
            identity=identity,
            decision="approve" if operation.name == "approve_policy" else "deny",
            reason=Masker().mask(of.reason.strip()),  # it stays in the chain for good
            now_ns=asked.now_ns,
        )
        code = await self._book.vote_policy(ballot)
        if code is not None:
            raise _policy_not_counted(code)
        _LOG.warning("policy_vote", revision=of.revision, decision=ballot.decision, by=voter.id)
        return await self._run(lambda: reads.get_policy_offer(self._views, asked))

    async def _dispose(self, operation: Operation, asked: Asked) -> documents.DurableCallDocument:
        find = reads.find_durable
        await self._run(lambda: find(self._views, asked))
        disposal = Disposal(
            project=asked.project,
            durable_id=asked.of.durable_id,
            action="requeue" if operation.name == "requeue_call" else "discard",
            by=asked.principal.id,
            reason=Masker().mask(asked.of.reason.strip()),  # it stays in the chain for good
            due_at_ns=self._now_ns(),
            ends_at_ns=self._now_ns(),
        )
        if not await self._calls.dispose(disposal):
            raise Refused(409, "no_dead_letter", "this call is no dead letter, nor one that waits")
        return await self._run(lambda: find(self._views, asked))

    async def _resolve(self, asked: Asked) -> documents.CallDetail:
        ruling = Ruling(
            project=asked.project,
            call_id=asked.of.call_id,
            done=asked.of.outcome == "done",
            by=asked.principal.id,
            reason=Masker().mask(asked.of.reason.strip()),  # it stays in the chain for good
        )
        code = await self._calls.resolve(ruling)
        if code is not None:
            raise Refused(*_NOT_RESOLVED[code])
        _LOG.info("call_resolved", call_id=ruling.call_id, by=ruling.by, done=ruling.done)
        return await self._run(lambda: reads.get_call(self._views, asked))

    async def _verify(self) -> documents.AuditVerification:
        if self._verifying.locked():
            raise Refused(
                *(429, "verifying", "the chain is being verified; try again"),
                next_action="retry",
                retry_after=5,
            )
        async with self._verifying:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._verifier, self._verified)

    def _verified(self) -> documents.AuditVerification:
        ledger = self._views.ledger
        end, _, head = ledger.audit_end()
        keys, calls = ledger.public_keys(), bool(ledger.list_calls(CallQuery(limit=1)))
        found = missing(verify(self._entries(end), head, keys), head, calls=calls)
        if self._stopping.is_set():
            raise Refused(503, "stopping", "the sidecar is stopping", next_action="retry")
        return verification(found, keys)

    def _entries(self, end: int) -> Iterator[AuditEntry]:
        """The chain as it was when it ended there."""
        after = -1  # an entry at a place below 1 is a fault to be found, not to be skipped
        while page := self._views.ledger.entries_after(after, _PAGE):
            for entry in page:
                if entry.seq > end or self._stopping.is_set():
                    return
                time.sleep(_BREATH_SECONDS)
                yield entry
            after = page[-1].seq

    async def _export(self, who: Who, of: Any) -> AsyncIterator[Struct]:
        ledger = self._views.ledger
        project = (await who()).project
        end, _, head = await self._run(ledger.audit_end)

        def told(after: int) -> list[documents.AuditRecord]:
            found = ledger.entries_after(after, _TOLD)
            return [entry_record(each, project) for each in found if each.seq <= end]

        after = of.after or -1  # an entry at a place below 1 is told, not skipped
        while page := await self._run(partial(told, after)):
            for record in page:
                yield record
            after = page[-1].seq
            await who()
        if head is not None:
            keys = await self._run(ledger.public_keys)
            yield head_record(reads.head_document(head, keys))

    async def _tail(self, who: Who, of: Any) -> AsyncIterator[Struct]:
        published = self._views.published
        principal = await who()
        project = principal.project
        place: int = await self._run(published.place) if of.after is None else of.after
        query = TraceQuery(project=project, service=of.service, outcome=of.outcome, limit=LIST_MAX)
        with self._place_taken(principal):
            while True:
                place, found = await self._run(partial(published.after, place, query))
                if found:
                    await who()
                for summary in found:
                    yield summary
                if len(found) < LIST_MAX and await self._stopped():
                    return

    async def _watch(self, who: Who, of: Any) -> AsyncIterator[Struct]:
        told: dict[str, Approval] = {}
        principal = await who()
        with self._place_taken(principal), self._book.approval_news() as watching:
            while True:
                asked = Asked(
                    principal=principal,
                    of=ListApprovalsRequest(status=of.status, limit=LIST_MAX),
                    now_ns=self._now_ns(),
                )
                page = await self._run(partial(reads.list_approvals, self._views, asked))
                for each in reversed(page.approvals):
                    if told.get(each.approval_id) != each:
                        yield each
                told = {each.approval_id: each for each in page.approvals}
                if await self._stopped(watching):
                    return
                principal = await who()

    @contextmanager
    def _place_taken(self, principal: Principal) -> Iterator[None]:
        """One of the places for those who wait. Raises Refused 429."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._places.taken(principal.id))
            except Full:
                raise Refused(
                    *(429, "too_many_wait", "too many follow already; try again"),
                    next_action="retry",
                    retry_after=5,
                ) from None
            yield


_CODES = {
    "approver_not_eligible": (403, "your credential may not decide this request"),
    "self_approval": (403, "who asked, or owns the asking agent, does not decide"),
    "vote_repeated": (409, "you have voted on this request already"),
    "summary_changed": (409, "the summary you saw is not the request's; look again"),
    "approval_mismatch": (409, "the request is for another action than the one you name"),
    "approval_policy_changed": (409, "policy has changed since this was asked; it is void"),
    "approval_tool_changed": (409, "the tool has changed since this was asked; it is void"),
    step_up.CODE: (403, "your sign-in is not what this request demands of its approvers"),
    "clock_skewed": (
        *(503, "the sidecar's clock was set, so no request's time can be told; set it right"),
    ),
    "approval_fatigue": (
        *(429, "you have approved more requests than approvals.fatigue allows in a while; rest"),
    ),
    "no_such_approval": (404, "there is no such approval in this project"),
}


_NOT_LIFTED = {
    "no_such_stop": (404, "there is no such stop in this project"),
    "stop_lifted": (409, "the stop is lifted already"),
    "vote_repeated": (409, "you have voted to lift it already; a kill needs two people"),
    "approver_not_eligible": (403, "your credential may not lift it"),
}


_POLICY_NOT_COUNTED = {
    "no_such_offer": (404, "no policy of this revision waits for people"),
    "vote_repeated": (409, "you have voted on it already; two people approve it"),
    "signer_not_eligible": (403, "who signed a release does not approve it"),
    "approver_not_eligible": (
        *(403, "your credential may not approve it: it names no person, or one who is not asked"),
    ),
}


def _policy_not_counted(code: str) -> Refused:
    status, detail = _POLICY_NOT_COUNTED.get(code, (409, "it was decided on already"))
    return Refused(status, code, detail)


def _not_lifted(code: str) -> Refused:
    status, detail = _NOT_LIFTED[code]
    return Refused(status, code, detail)


def _action(name: str, key_id: str, asked: Asked) -> Note:
    """Who did what the database has noted itself."""
    body = {"action": name, "by": asked.principal.id, "key_id": key_id}
    return Note(kind="admin_action", project=asked.project, at_ns=asked.now_ns, body=body)


def _not_counted(code: str, lacks: StepUp | None) -> Refused:
    status, detail = _CODES.get(code, (409, "the request is no longer pending"))
    return Refused(status, code, detail if lacks is None else f"{detail}: {step_up.words(lacks)}")
