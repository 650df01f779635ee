"""The embedded engine, kept current: its bundle may change while calls go on, and a candidate may
be tried beside it.

**Rules**
1. A bundle that cannot be used changes nothing: the last good one decides on, and the log says why.
2. Before another bundle decides, the last decisions are judged by it and compared. Where it is
   looser than what decided, it is not activated unless that is accepted, or two people have
   approved that very revision in the place of this one.
3. The change is one: no decision is given between the new engine and its activation in the ledger,
   and what the old engine was asked it answers.
4. What cannot be refreshed, or is out of its time, decides on and is told of; for too long, and
   it decides nothing.
5. A shadow decides nothing: it is asked after the answer is given, at most a few at a time, and
   what it does wrong touches no call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from msgspec import structs

from sidecar import clock
from sidecar.errors import SidecarError
from sidecar.gateway.policy.document import encode
from sidecar.gateway.policy.facts import Fact, missing
from sidecar.gateway.policy.live.change import (
    Difference,
    Report,
    difference,
    forgetting,
    kind_of,
    report,
)
from sidecar.gateway.policy.live.client import Second
from sidecar.gateway.policy.live.freshness import DAY_NS, Freshness
from sidecar.gateway.policy.live.memory import Memory, Remembered, Sort, named, sort_of
from sidecar.gateway.policy.release import Release
from sidecar.gateway.policy.result import PolicyAnswer, denied
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.store.policy import PolicyOffer
from sidecar.store.ports import PolicyBook
from sidecar.telemetry import POLICY_RELOADS, SHADOW_DECISIONS, TASK_FAILURES, log

SHADOWS_MAX = 64
DOCUMENT_BYTES_MAX = 64 * 1024
_REST_SECONDS = 0.01
_TOO_OLD = "the policy could not be refreshed, or has been out of its time, for too long"
_log = log("policy")

Activate = Callable[[int | None], Awaitable[None]]
MakeWorker = Callable[[Release], PolicyWorker]


class LivePolicy:
    """A policy port over workers made by ``make``. ``start`` it, ``decide``, ``stop`` it.

    ``remember`` is how many decisions are kept, in memory, to judge a change by. ``activate`` is
    called with the new release's number when another bundle is to decide.
    """

    def __init__(
        self,
        release: Release,
        make: MakeWorker,
        *,
        remember: int = 200,
        accept_loosening: bool = False,
        shadow: Release | None = None,
        second: Second | None = None,
        stale_ns_max: int = DAY_NS,
        now_ns: Callable[[], int] = clock.now_ns,
        steady_ns: Callable[[], int] = clock.steady_ns,
    ) -> None:
        self.activate: Activate = _nobody
        self.activate_approved: Activate = _nobody
        self.keep: Callable[[Release], None] = _unkept
        self._release = release
        self._fresh = Freshness(stale_ns_max)
        self._fresh.refreshed(release.expires_s)
        self._now_ns = now_ns
        self._steady_ns = steady_ns
        self._make = make
        self._worker = make(release)
        self._reads: frozenset[Fact] = frozenset()
        self._shadow = make(shadow) if shadow is not None else None
        self._second = second
        self._accept_loosening = accept_loosening
        self._last = Memory(remember)
        self._open = asyncio.Event()
        self._open.set()
        self._shadowing: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()

    @property
    def revision(self) -> str:
        """The digest of the bundle that decides."""
        return self._worker.revision

    @property
    def reads(self) -> frozenset[Fact]:
        """The facts that the bundle that decides reads, or the one that is tried beside it."""
        return self._reads

    @property
    def answering(self) -> bool:
        """Whether a child is there to decide."""
        return self._worker.answering

    @property
    def release(self) -> Release:
        """What decides."""
        return self._release

    @property
    def stale_ns(self) -> int:
        """For how long what decides could not be refreshed, or has been out of its time."""
        return self._fresh.stale_ns(self._now_ns(), self._steady_ns())

    @property
    def too_old(self) -> bool:
        """Whether it has been so for too long: nothing is decided then."""
        return self._fresh.too_old(self._now_ns(), self._steady_ns())

    def refreshed(self, release: Release) -> None:
        """What decides was found as it is."""
        self._fresh.refreshed(release.expires_s)

    def not_refreshed(self) -> None:
        """Whether what decides is still what should decide could not be found out."""
        self._fresh.failed(self._steady_ns())

    async def start(self) -> None:
        """Start the engine, and the shadow's. Raises SidecarError."""
        await self._worker.start()
        try:
            if self._shadow is not None:
                await self._shadow.start()
            if self._second is not None:
                await self._second.start()
        except BaseException:
            await self.stop()
            raise
        self._know()

    def _know(self) -> None:
        beside = self._shadow.reads if self._shadow is not None else frozenset[Fact]()
        self._reads = self._worker.reads | beside

    async def stop(self) -> None:
        """Stop both. Safe twice."""
        if self._shadowing:
            await asyncio.gather(*self._shadowing, return_exceptions=True)
        for part in (self._worker, self._shadow, self._second):
            if part is not None:
                await part.stop()

    async def decide(self, document: dict[str, Any]) -> PolicyAnswer:
        """The policy's answer on an action's document; without one a denial with ``error``."""
        await self._open.wait()
        if self.too_old:
            return structs.replace(denied(_TOO_OLD), revision=self.revision)
        asked = self._worker.decide(document)
        second = self._second
        answer = await asked if second is None else await second.agreed(document, asked)
        self._remember(document, answer)
        if self._shadow is not None:
            self._try(self._shadow, document, answer)
        return answer

    async def visible(self, document: dict[str, Any]) -> PolicyAnswer:
        """The policy's answer on whether a principal may see a tool."""
        await self._open.wait()
        if self.too_old:
            return structs.replace(denied(_TOO_OLD), revision=self.revision)
        return await self._worker.visible(document)

    async def change(self, release: Release, *, approved: bool = False, known: int = 0) -> Report:
        """Judge the last decisions by another release; let it decide where it may. ``approved``:
        where the ledger says that people have approved it, however loose. ``known``: how many
        decisions showed another release to be looser, and may have been forgotten since.

        Raises SidecarError where it cannot be used; then nothing has changed.
        """
        async with self._reloading:
            candidate = self._make(release)
            await candidate.start()
            try:
                found, judged = await self._judged_again(candidate)
                found = forgetting(found, known)
                if found.loosens and not self._accept_loosening and not approved:
                    await candidate.stop()
                    return found
                activate = self.activate_approved if approved else self.activate
                await self._swap(candidate, release, activate)
                # The next change is judged against what decides now, not what did once.
                since = [each for each in self._last if each[1].revision == candidate.revision]
                self._last.replace(map(_sorted, [*judged, *since]))
            except BaseException:
                await candidate.stop()
                raise
            return structs.replace(found, activated=True)

    async def _judged_again(
        self, candidate: PolicyWorker
    ) -> tuple[Report, list[tuple[bytes, PolicyAnswer]]]:
        """What the candidate would have done, and the last decisions as it gives them."""
        found: list[Difference] = []
        judged: list[tuple[bytes, PolicyAnswer]] = []
        for encoded, before in tuple(self._last):
            document = orjson.loads(encoded)
            after = await candidate.decide(document)
            told = difference(named(document), before, after)
            if missing(document, candidate.reads):
                told = structs.replace(told, kind="unjudged")
            elif after.error is None:
                judged.append((encoded, after))
            found.append(told)
        return report(candidate.revision, found), judged

    async def _swap(self, candidate: PolicyWorker, release: Release, activate: Activate) -> None:
        before = self._worker
        self._open.clear()
        try:
            self._worker = candidate
            self._know()
            await activate(release.sequence)
            self._release = release
            self.refreshed(release)
        except BaseException:
            self._worker = before
            self._know()
            raise
        finally:
            self._open.set()
        while before.waiting:  # noqa: ASYNC110 - each has its deadline; nobody else wants an event
            await asyncio.sleep(_REST_SECONDS)
        await before.stop()
        self.keep(release)

    def _remember(self, document: dict[str, Any], answer: PolicyAnswer) -> None:
        if answer.error is None:
            encoded = encode(document)
            if len(encoded) <= DOCUMENT_BYTES_MAX:
                self._last.add(sort_of(document, answer), (encoded, answer))

    def _try(self, shadow: PolicyWorker, document: dict[str, Any], answer: PolicyAnswer) -> None:
        if len(self._shadowing) >= SHADOWS_MAX:
            SHADOW_DECISIONS.labels("skipped").inc()
            return
        task = asyncio.ensure_future(self._shadow_one(shadow, document, answer))
        self._shadowing.add(task)
        task.add_done_callback(self._shadowing.discard)

    async def _shadow_one(
        self, shadow: PolicyWorker, document: dict[str, Any], answer: PolicyAnswer
    ) -> None:
        candidate = await shadow.decide(document)
        kind = "failed" if candidate.error is not None else kind_of(answer, candidate)
        SHADOW_DECISIONS.labels(kind).inc()
        if kind != "same":
            told = difference(named(document), answer, candidate)
            _log.info(
                "policy_shadow_differs",
                kind=kind,
                tool=told.tool,
                before=told.before,
                after=told.after,
                code=told.code,
                input_digest=told.input_digest,
                revision=shadow.revision,
            )


class PolicyWatch:
    """Looks at the configured bundle every ``rest_seconds`` and lets what has changed decide.

    ``book``: where people approve what would loosen; where there is none nobody can. ``signers``
    are identities of who signs under a key id.
    """

    def __init__(
        self,
        policy: LivePolicy,
        load: Callable[[], Release],
        rest_seconds: float,
        *,
        book: PolicyBook | None = None,
        signers: Callable[[str], tuple[str, ...]] = lambda _: (),
        now_ns: Callable[[], int] = clock.now_ns,
    ) -> None:
        self._policy = policy
        self._load = load
        self._rest_seconds = rest_seconds
        self._book = book
        self._signers = signers
        self._now_ns = now_ns
        self._refused = ""
        self._waiting = ""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start looking."""
        self._task = asyncio.create_task(self._keep_looking())

    async def stop(self) -> None:
        """Stop. Safe without start and twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def look(self) -> Report | None:
        """Look once: the report on another bundle than the one that decides, None where it is the
        same, was refused before, waits for people, or cannot be used.
        """
        try:
            release = await asyncio.to_thread(self._load)
        except SidecarError as error:
            self._refuse(f"unreadable {error}", error)
            return None
        revision = release.bundle.revision
        if revision == self._policy.revision:
            self._refused = self._waiting = ""
            self._policy.refreshed(release)
            return None
        if revision == self._refused:
            return None
        try:
            return await self._changed(release)
        except SidecarError as error:
            self._refuse(revision, error)
            return None

    async def _changed(self, release: Release) -> Report | None:
        revision = release.bundle.revision
        approved = self._is_approved(revision)
        if not approved and self._waits(revision):
            return None
        found = await self._policy.change(release, approved=approved, known=self._known())
        if not found.activated:
            self._waiting = revision
            await self._offer(release, found)
            self._policy.refreshed(self._policy.release)  # what is there is good; people decide
        POLICY_RELOADS.labels("activated" if found.activated else "loosening").inc()
        for each in found.examples:
            _log.info("policy_change", **_told(each))
        tell = _log.warning if found.loosens else _log.info
        tell(
            "policy_changed" if found.activated else "policy_loosening_not_activated",
            revision=found.revision,
            compared=found.compared,
            loosened=found.loosened,
            tightened=found.tightened,
            changed=found.changed,
            unjudged=found.unjudged,
            approved=approved,
        )
        return found

    def _is_approved(self, revision: str) -> bool:
        """Whether people approved it in the place of what decides here, or another sidecar on this
        ledger decides by it already."""
        if self._book is None:
            return False
        offer, active = self._book.policy_offer(), self._book.active_policy()
        if active == revision:
            return True
        if offer is None or offer.state != "approved":
            return False
        return (offer.revision, offer.before) == (revision, active)

    def _waits(self, revision: str) -> bool:
        """Whether people are asked about it, or denied it: by the ledger, since what was remembered
        of decisions may be gone since."""
        if self._book is None:
            return revision == self._waiting
        offer = self._book.policy_offer()
        if offer is None or offer.state == "activated":
            return False
        return (offer.revision, offer.before) == (revision, self._policy.revision)

    def _known(self) -> int:
        """How many decisions a looser release was judged by that waits or was denied here."""
        offer = self._book.policy_offer() if self._book is not None else None
        if offer is None or offer.state not in ("pending", "denied"):
            return 0
        return offer.compared if offer.before == self._policy.revision else 0

    async def _offer(self, release: Release, found: Report) -> None:
        if self._book is None:
            return
        await self._book.offer_policy(
            PolicyOffer(
                revision=found.revision,
                before=self._policy.revision,
                offered_at_ns=self._now_ns(),
                compared=found.compared,
                loosened=found.loosened,
                tightened=found.tightened,
                changed=found.changed,
                unjudged=found.unjudged,
                sequence=release.sequence,
                key_id=release.key_id or "",
                signers=self._signers(release.key_id) if release.key_id else (),
            )
        )

    def _refuse(self, what: str, error: SidecarError) -> None:
        self._policy.not_refreshed()
        if what != self._refused:
            self._refused = what
            POLICY_RELOADS.labels("unusable").inc()
            _log.error("policy_change_refused", why=str(error))

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._rest_seconds)
            try:
                await self.look()
            except Exception as error:
                self._policy.not_refreshed()
                TASK_FAILURES.labels("policy watch").inc()
                _log.warning("policy_not_looked_at", fault=error)
            if self._policy.stale_ns:
                seconds = self._policy.stale_ns // 10**9
                _log.error("policy_stale", seconds=seconds, denies=self._policy.too_old)


def _sorted(one: Remembered) -> tuple[Sort, Remembered]:
    encoded, answer = one
    return sort_of(orjson.loads(encoded), answer), one


def _told(each: Difference) -> dict[str, str]:
    return {
        "kind": each.kind,
        "tool": each.tool,
        "before": each.before,
        "after": each.after,
        "code": each.code,
        "input_digest": each.input_digest,
    }


def _unkept(_release: Release) -> None:
    """Where nobody keeps what decides."""


async def _nobody(_sequence: int | None) -> None:
    """Where nobody wants to know."""
