"""The embedded policy engine, supervised: one child process that decides and one warm spare.

**Rules**
1. Whatever happens to a child, the caller has an answer: its death denies in milliseconds, a hang
   at the deadline.
2. The deadline of a request runs from when it reaches the head of the queue, so that a slow
   neighbour is not held against it, nor is what holds this loop up. A child that does not answer in
   time is killed, never asked again.
3. Only the request at the head is suspect. Those behind it are sent to the spare, in order.
4. An answer for another request than the head's is a broken child: killed, and the head denied.
5. A bundle is linted before it decides anything; one that does not load, or has findings, refuses
   to start. The children hold it folded with its data (``fold``), under its own revision.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from sidecar.clock import monotonic_ns
from sidecar.gateway.policy.bundle import Bundle
from sidecar.gateway.policy.client import Child, ChildFailed
from sidecar.gateway.policy.document import encode, input_digest, part
from sidecar.gateway.policy.driver import Folds, inspect, unusable
from sidecar.gateway.policy.facts import Fact
from sidecar.gateway.policy.files import check_engine
from sidecar.gateway.policy.process import ANSWER, DECIDE, LAST, LIST
from sidecar.gateway.policy.result import PolicyAnswer, denied, read_answer
from sidecar.telemetry import CHILD_RESTARTS, DECISION_SECONDS, log

QUEUE_MAX = 1024
_BACKOFF_SECONDS = (0.05, 0.2, 1.0, 5.0)
_log = log("policy")
_REMEMBERED = 256
_REMEMBERED_BYTES = 4096
_TURN_SECONDS = 0.001
"""The shortest time after which an event loop has looked at its sockets once more."""
_UNDEFINED = b'"<undefined>"'


class _Asked(Struct, eq=False):
    """One request in the queue, and whoever waits for it."""

    identity: int
    kind: int
    payload: bytes
    future: asyncio.Future[PolicyAnswer]


class PolicyWorker:
    """Decides by the embedded engine. ``start`` it, ``decide``, ``stop`` it; all in one event loop.

    ``deadline_ns`` bounds one evaluation; ``folds``: which bundles are folded. A denial that is not
    the policy's carries ``error``.
    """

    def __init__(
        self, bundle: Bundle, *, deadline_ns: int = 100_000_000, folds: Folds = "shipped"
    ) -> None:
        self._bundle, self._folds = bundle, folds
        self._deadline_seconds = deadline_ns / 1e9
        self._engine = ""
        self._reads: frozenset[Fact] = frozenset()
        self._members: frozenset[str] | None = None
        self._active: Child | None = None
        self._spare: Child | None = None
        self._queue: deque[_Asked] = deque()
        self._next_identity = 1
        self._timer: asyncio.TimerHandle | None = None
        self._filling: asyncio.Task[None] | None = None
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def revision(self) -> str:
        """The digest of the bundle that decides."""
        return self._bundle.revision

    @property
    def reads(self) -> frozenset[Fact]:
        """The facts that the bundle reads; known once started."""
        return self._reads

    @property
    def answering(self) -> bool:
        """Whether a child is there to decide."""
        return self._active is not None and not self._active.lost

    @property
    def waiting(self) -> int:
        """How many decisions wait for an answer."""
        return len(self._queue)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the deciding child and the spare, as far as they run."""
        return tuple(child.pid for child in (self._active, self._spare) if child is not None)

    async def start(self) -> None:
        """Check the engine, lint the bundle, start both children. Raises SidecarError."""
        self._engine = check_engine()
        inspected = await inspect(self._bundle, self._folds)
        child, self._bundle, self._reads = inspected.child, inspected.folded, inspected.reads
        self._members = inspected.members
        if inspected.findings:
            child.kill()
            await child.ended()
            rules = map(str, inspected.findings)
            raise unusable("\n  ".join(["it breaks these rules:", *rules]))
        try:
            await child.load(self._bundle, warm=True)
            self._adopt(child)
            self._active = child
            self._spare = await self._start_child()
        except ChildFailed as error:
            await self.stop()
            raise unusable(str(error)) from error

    async def stop(self) -> None:
        """Deny what waits, end both children and wait for them. Safe twice."""
        self._stopping = True
        children = [child for child in (self._active, self._spare) if child is not None]
        self._active = self._spare = None
        self._disarm()
        self._deny_all("the policy engine is stopping")
        for child in children:
            child.kill()
            await child.ended()
        if self._filling is not None:
            self._filling.cancel()
        while self._tasks:  # a cancelled filling may retire its child: that one is waited for too
            await asyncio.wait(self._tasks)

    async def decide(self, document: dict[str, Any]) -> PolicyAnswer:
        """The policy's answer on an action's document; without one a denial with ``error``."""
        return await self._ask(DECIDE, document)

    async def visible(self, document: dict[str, Any]) -> PolicyAnswer:
        """The policy's answer on whether a principal may see a tool."""
        return await self._ask(LIST, document)

    async def _ask(self, kind: int, document: dict[str, Any]) -> PolicyAnswer:
        try:
            payload = encode(document)
        except TypeError as error:
            return self._signed(denied(f"the document cannot be encoded: {error}"), b"")
        if self._stopping:
            return self._signed(denied("the policy engine is stopped"), payload)
        if len(self._queue) >= QUEUE_MAX:
            return self._signed(denied(f"{QUEUE_MAX} decisions wait already"), payload)
        # What the bundle does not read need not be parsed there; the digest is of the whole.
        read = payload if self._members is None else encode(part(document, self._members))
        asked = _Asked(self._next_identity, kind, read, asyncio.get_running_loop().create_future())
        self._next_identity += 1
        self._queue.append(asked)
        if self._active is not None:
            self._active.send(asked.identity, asked.kind, asked.payload)
        if len(self._queue) == 1:
            self._arm()
        started_ns = monotonic_ns()
        try:
            answer = await asked.future
        finally:
            DECISION_SECONDS.observe((monotonic_ns() - started_ns) / 1e9)
        return self._signed(answer, payload)

    def _signed(self, answer: PolicyAnswer, payload: bytes) -> PolicyAnswer:
        return msgspec.structs.replace(
            answer,
            revision=self.revision,
            engine=self._engine,
            input_digest=input_digest(payload),
        )

    def _on_frame(self, child: Child, identity: int, status: int, payload: bytes) -> None:
        if child is not self._active:
            return
        if not self._queue or self._queue[0].identity != identity:
            self._replace("the policy engine answered another question")
            return
        small = len(payload) <= _REMEMBERED_BYTES
        read = _remembered(status, payload) if small else _read(status, payload)
        self._settle(self._queue.popleft(), read)
        if status == LAST:
            self._swap()
        else:
            self._arm()

    def _on_lost(self, child: Child) -> None:
        if child is self._active:
            self._replace("the policy engine ended while it judged this")
        elif child is self._spare:
            self._spare = None
            self._retire(child)
            self._refill()

    def _late(self) -> None:
        """Read first what was answered while this loop was held up itself: it is not late."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_TURN_SECONDS, self._too_late)

    def _too_late(self) -> None:
        if self._active is None:
            self._deny_all("no policy engine is running")
            return
        milliseconds = self._deadline_seconds * 1000
        self._replace(f"the policy engine gave no answer within {milliseconds:.0f} ms")

    def _replace(self, why: str) -> None:
        """Deny the request at the head and put the spare in the child's place."""
        if self._queue:
            _log.warning("policy_gave_no_answer", why=why)
            self._settle(self._queue.popleft(), denied(why))
        self._swap()

    def _deny_all(self, why: str) -> None:
        if self._queue:
            _log.warning("policy_gave_no_answer", why=why, denied=len(self._queue))
        while self._queue:
            self._settle(self._queue.popleft(), denied(why))

    def _swap(self) -> None:
        if self._active is not None:
            CHILD_RESTARTS.labels("policy").inc()
            self._retire(self._active)
        self._active, self._spare = self._spare, None
        self._resend()
        self._refill()

    def _resend(self) -> None:
        if self._active is not None:
            for asked in self._queue:
                self._active.send(asked.identity, asked.kind, asked.payload)
        self._arm()

    def _arm(self) -> None:
        self._disarm()
        if self._queue and not self._stopping:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._deadline_seconds, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _settle(self, asked: _Asked, answer: PolicyAnswer) -> None:
        if not asked.future.done():
            asked.future.set_result(answer)

    def _retire(self, child: Child) -> None:
        child.kill()
        self._run(child.ended())

    def _refill(self) -> None:
        if self._filling is None and not self._stopping:
            self._filling = self._run(self._fill())

    async def _fill(self) -> None:
        """Start children until there is one to decide and one to spare."""
        failures = 0
        try:
            while not self._stopping and (self._active is None or self._spare is None):
                try:
                    self._place(await self._start_child())
                    failures = 0
                except Exception as error:  # whatever it is: without an engine nothing is decided
                    _log.error("policy_engine_not_started", fault=error)
                    await asyncio.sleep(_BACKOFF_SECONDS[min(failures, 3)])
                    failures += 1
        finally:
            self._filling = None

    def _place(self, child: Child) -> None:
        if self._stopping:
            self._retire(child)
        elif self._active is None:
            self._active = child
            self._resend()
        else:
            self._spare = child

    async def _start_child(self) -> Child:
        child = await Child.start()
        try:
            await child.load(self._bundle, warm=True)
        except BaseException:
            child.kill()
            await child.ended()
            raise
        self._adopt(child)
        return child

    def _adopt(self, child: Child) -> None:
        child.on_frame = self._on_frame
        child.on_lost = self._on_lost
        if child.lost:  # between its last answer and now
            raise ChildFailed("the policy engine ended after it had loaded")

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@lru_cache(maxsize=_REMEMBERED)
def _remembered(status: int, payload: bytes) -> PolicyAnswer:
    """The same; a policy has few answers, and reading one strictly costs more than finding it."""
    return _read(status, payload)


def _read(status: int, payload: bytes) -> PolicyAnswer:
    if status != ANSWER:
        text = payload.decode("utf-8", "replace")
        return denied(f"the policy engine could not evaluate: {text}")
    if payload == _UNDEFINED:
        return denied("the policy has no answer (undefined)")
    try:
        raw = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return denied("the policy engine's answer is no JSON")
    return read_answer(raw)
