"""Durable calls at work: taken on with a 202, made in the background until they have an end.

**Rules**
1. A call is taken on when it is durable that it was, with a receipt that says so: from then on it
   is tried, whatever dies.
2. An attempt is an ordinary call with the same key: policy, approval, budgets, stops, the key and
   its credential are looked at anew each time, and each leaves its own receipts.
3. Whoever asks for it again while it waits is told how it stands; afterwards the key answers.
4. A gateway that is on its way out begins no attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from msgspec import Struct, structs

from processors.model.call import Receipt
from processors.model.principal import Principal
from sidecar import clock
from sidecar.gateway import receipt
from sidecar.gateway.action import ToolRequest
from sidecar.gateway.approval import as_reply
from sidecar.gateway.desk import Desk
from sidecar.gateway.durable.rules import (
    Again,
    Dead,
    Done,
    End,
    attempt_headers,
    judged,
    pause_ns,
)
from sidecar.gateway.durable.shown import ACCEPTED, accepted, call_document, status_document
from sidecar.gateway.idempotency import scope_of
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.request import ToolReply
from sidecar.store.durable import (
    DISPOSED,
    Accepted,
    Attempted,
    Disposal,
    DurableCall,
    DurableQuery,
    DurableState,
    Lease,
)
from sidecar.store.ledger import TOMBSTONE_NS, OpenedCall, Scope
from sidecar.telemetry import DURABLE_CALLS, TASK_FAILURES, log

_LOG = log("gateway")
_AT_ONCE = 8
_WITHOUT_EFFECT = frozenset({"failed_safe", "resolved_not_done"})
_LOOK_SECONDS, _LOOK_SECONDS_MAX = 1.0, 30.0
_LEASE_GRACE_NS = 60_000_000_000
_EXPIRE_EVERY_NS, _EXPIRE_MAX = 3600 * 10**9, 1000
DEAD_LETTER_NS = 30 * 86_400 * 10**9
"""How long a dead letter waits for a person."""

Make = Callable[[ToolRequest, Principal], Awaitable[ToolReply]]


class Kept(Struct, frozen=True, kw_only=True):
    """What is kept sealed of a durable call: the request as it came, and whose it is."""

    request: ToolRequest
    principal: Principal


class DurableCalls:
    """The durable calls of one gateway. ``make`` makes one attempt."""

    def __init__(self, desk: Desk, make: Make, *, luck: Callable[[], float] | None = None) -> None:
        self._desk = desk
        self._make = make
        self._luck = luck or _luck
        self._new = asyncio.Event()
        self._expire_ns = 0
        self._busy: dict[str, asyncio.Task[None]] = {}

    async def take_on(
        self, request: ToolRequest, principal: Principal, call: OpenedCall, fingerprint: str
    ) -> ToolReply | None:
        """202 once the call is sure to be made, or while it waits; None where it has an end.

        Raises StoreUnavailable, SealBroken; Refused 422 where the key is another call's.
        """
        scope, tool = scope_of(call), self._desk.ports.registry.tools[call.tool]
        assert scope is not None and tool.backoff is not None
        known = self._desk.ports.ledger.durable_of(scope)
        if known is None and self._has_end(scope, fingerprint):
            return None  # made already, or being made, by a caller that waited: the key answers
        if known is None:
            known = self._wanted(request, principal, call, fingerprint, tool)
            taken = Accepted(call=known, opened=call, receipt=self._receipt(call, known))
            if await self._desk.ports.ledger.queue_durable(taken):
                DURABLE_CALLS.labels("queued").inc()
                self._new.set()
            else:
                known = self._desk.ports.ledger.durable_of(scope) or known
        if known.fingerprint != fingerprint:
            said = "this key was used for another request; use a new key for a new action"
            raise Refused(422, "key_reused", said, next_action="request")
        return accepted(known, self._receipt_of(known)) if known.state == "waiting" else None

    def _receipt(self, call: OpenedCall, known: DurableCall) -> Receipt:
        """That a call is taken on. Policy is asked when it is made: it names no decision."""
        now_ns = known.created_at_ns
        drafted = receipt.draft(call, None, receipt_id=self._desk.new_id(), now_ns=now_ns)
        said = structs.replace(drafted, phase="accepted", status=ACCEPTED)
        return receipt.sign(said, self._desk.signer)

    def _receipt_of(self, known: DurableCall) -> str:
        made = self._desk.ports.ledger.get_call(known.durable_id, known.project)
        return made.receipts[0] if made is not None and made.receipts else ""

    def _has_end(self, scope: Scope, fingerprint: str) -> bool:
        """Whether the key's claim leaves nothing to be made, or is another call's."""
        claim = self._desk.ports.ledger.find_claim(scope)
        if claim is None:
            return False
        return claim.state not in _WITHOUT_EFFECT or claim.fingerprint != fingerprint

    def show(self, durable_id: str, principal: Principal) -> ToolReply:
        """How a call of this principal stands, put off or not. Raises StoreUnavailable, Refused
        404."""
        ledger, project = self._desk.ports.ledger, principal.project
        found = ledger.find_durable(durable_id, project)
        if found is not None and found.principal == principal.id:
            return as_reply(status_document(found))
        made = ledger.get_call(durable_id, project)
        if made is not None and made.principal == principal.id:
            return as_reply(call_document(made))
        raise Refused(404, "no_such_call", "there is no such call of yours")

    async def dispose(self, disposal: Disposal) -> bool:
        """Record a person's word on a dead letter; False when it is none. The times are ours."""
        found = self._desk.ports.ledger.find_durable(disposal.durable_id, disposal.project)
        tool = self._desk.ports.registry.tools.get(found.tool) if found else None
        now_ns = self._desk.now_ns()
        deadline_ns = tool.backoff.deadline_ns if tool and tool.backoff else _LEASE_GRACE_NS
        timed = structs.replace(disposal, due_at_ns=now_ns, ends_at_ns=now_ns + deadline_ns)
        done = found is not None and await self._desk.ports.ledger.dispose_durable(timed)
        if done:
            DURABLE_CALLS.labels(DISPOSED[disposal.action]).inc()
            self._new.set()
        return done

    def wake(self) -> None:
        """Look at once whether there is something to do, or whether it is time to end."""
        self._new.set()

    async def run(self) -> None:
        """Make what is due, until on the way out; then finish what was begun."""
        pause = _LOOK_SECONDS
        while not self._desk.draining():
            self._new.clear()
            try:
                self._begin()
                await self._expire()
                pause = _LOOK_SECONDS
            except Exception as error:
                pause = min(2 * pause, _LOOK_SECONDS_MAX)
                self._failed(error)
            try:
                async with asyncio.timeout(pause):
                    await self._new.wait()
            except TimeoutError:
                pass  # looked at again: another gateway may have queued, or a time has come
        while self._busy:
            await asyncio.wait(self._busy.values())

    async def _expire(self) -> None:
        """Now and then: what nobody decided in time is discarded, what is long over is deleted."""
        if clock.monotonic_ns() < self._expire_ns:
            return
        ledger, now_ns = self._desk.ports.ledger, self._desk.now_ns()
        for letter in ledger.list_durable(DurableQuery(state="dead", limit=_EXPIRE_MAX)):
            if letter.updated_at_ns <= now_ns - DEAD_LETTER_NS:
                await self.dispose(
                    Disposal(
                        project=letter.project,
                        durable_id=letter.durable_id,
                        action="discard",
                        by="gateway",
                        reason="nobody decided in time",
                        due_at_ns=now_ns,
                        ends_at_ns=now_ns,
                    )
                )
        pruned = await ledger.prune_durable(now_ns - TOMBSTONE_NS, _EXPIRE_MAX)
        later = 0 if pruned >= _EXPIRE_MAX else _EXPIRE_EVERY_NS
        self._expire_ns = clock.monotonic_ns() + later

    def _begin(self) -> None:
        now_ns, room = self._desk.now_ns(), _AT_ONCE - len(self._busy)
        for call in self._desk.ports.ledger.due_durable(now_ns, 4 * _AT_ONCE) if room else ():
            if room and self._is_free(call, now_ns):
                room -= 1
                task = asyncio.ensure_future(self._attempt(call))
                self._busy[call.durable_id] = task
                task.add_done_callback(partial(self._over, call.durable_id))

    def _over(self, durable_id: str, task: asyncio.Task[None]) -> None:
        del self._busy[durable_id]
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._new.set()
        else:
            self._failed(error)  # looked at again after a while

    def _failed(self, error: BaseException) -> None:
        TASK_FAILURES.labels("durable").inc()
        _LOG.error("durable failed", why=error)

    def _is_free(self, call: DurableCall, now_ns: int) -> bool:
        if call.durable_id in self._busy:
            return False
        if call.owner in (None, self._desk.owner) or call.lease_until_ns <= now_ns:
            return True
        assert call.owner is not None
        return not self._desk.ports.ledger.owner_lives(call.owner)

    async def _attempt(self, call: DurableCall) -> None:
        ledger, tool = self._desk.ports.ledger, self._desk.ports.registry.tools.get(call.tool)
        timeout_ns = tool.timeout_ns if tool else 0
        until_ns = self._desk.now_ns() + timeout_ns + _LEASE_GRACE_NS
        if not await ledger.lease_durable(
            Lease(seen=call, owner=self._desk.owner, until_ns=until_ns)
        ):
            return  # another gateway was faster
        end = await self._made(call, tool)
        ended = self._ended(call, tool, end)
        await ledger.end_durable(ended)
        DURABLE_CALLS.labels("retried" if ended.state == "waiting" else ended.state).inc()
        if ended.state == "dead":
            _LOG.warning("dead letter", durable_id=call.durable_id, tool=call.tool, code=ended.code)

    async def _made(self, call: DurableCall, tool: RegisteredTool | None) -> End:
        ledger = self._desk.ports.ledger
        if ledger.key_revoked(call.principal):
            return Dead(code="key_revoked")
        if tool is None or tool.backoff is None or call.request is None:
            return Dead(code="no_such_tool")
        kept = msgspec.msgpack.decode(call.request, type=Kept)
        request = structs.replace(kept.request, headers=attempt_headers(kept.request.headers))
        reply = await self._make(request, kept.principal)
        scope = Scope(
            project=call.project, principal=call.principal, tool=call.tool, key_hash=call.key_hash
        )
        recoverable = tool.done is not None or tool.config.idempotency.upstream_idempotent
        return judged(ledger.find_claim(scope), reply, recoverable=recoverable)

    def _ended(self, call: DurableCall, tool: RegisteredTool | None, end: End) -> Attempted:
        now_ns = self._desk.now_ns()
        counted = not isinstance(end, Again) or end.counted
        attempts, due_at_ns = call.attempts + counted, now_ns
        state: DurableState = "done" if isinstance(end, Done) else "dead"
        rules = tool.backoff if tool else None
        if isinstance(end, Again) and rules is not None:
            due_at_ns += pause_ns(attempts, rules, end.seconds, self._luck())
            over = attempts >= rules.attempts or due_at_ns >= call.ends_at_ns
            state = "dead" if over else "waiting"
        return Attempted(
            call=call,
            owner=self._desk.owner,
            state=state,
            attempts=attempts,
            due_at_ns=due_at_ns,
            code=end.code,
            now_ns=now_ns,
        )

    def _wanted(
        self,
        request: ToolRequest,
        principal: Principal,
        call: OpenedCall,
        fingerprint: str,
        tool: RegisteredTool,
    ) -> DurableCall:
        assert tool.backoff is not None and call.key_hash is not None
        now_ns = self._desk.now_ns()
        kept = Kept(request=structs.replace(request, refusal=None), principal=principal)
        return DurableCall(
            durable_id=call.call_id,
            project=call.project,
            principal=call.principal,
            tool=call.tool,
            key_hash=call.key_hash,
            fingerprint=fingerprint,
            state="waiting",
            attempts=0,
            due_at_ns=now_ns,
            ends_at_ns=now_ns + tool.backoff.deadline_ns,
            created_at_ns=now_ns,
            updated_at_ns=now_ns,
            request=msgspec.msgpack.encode(kept),
        )


def _luck() -> float:
    return int.from_bytes(clock.random_bytes(2), "big") / 65_535
