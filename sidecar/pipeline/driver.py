"""The pipeline's loops: take in what the journal and the ledger hold, publish what is due.

Rules
1. Taking in is one transaction with the cursor; a record is taken in once, or not at all.
2. A record that does not open or decode is set aside with its reason and holds nobody up.
3. A trace is published after ``idle`` of silence, or ``_OPEN_MAX_IDLES`` times that while it never
   falls silent. What arrives while probes run makes the trace due again.
4. Probes run beside everything else, ``_PROBING_MAX`` traces at a time; a slow one delays only
   its own trace.
5. Stopping loses nothing: what was not published is due at the next start.
6. Where there are exporters, what leaves is put into their outbox by the publication itself.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from processors.model.evidence import Claim, Evidence
from processors.model.span import Batch
from processors.model.trace import AgentTrace
from sidecar import clock
from sidecar.errors import StoreUnavailable, named
from sidecar.pipeline.batch import Concluded, Opened, Rules, assembled, conclude, telemetry
from sidecar.pipeline.config import Config
from sidecar.pipeline.intake import Source, Taken, taken, taken_facts
from sidecar.pipeline.leaving import Leaving
from sidecar.store.journal import journal_cursor
from sidecar.store.ledger import Fact
from sidecar.store.ports import JournalReader, OpenTraces, Traces
from sidecar.store.traces import CursorMove, CursorMoved, Due, Intake, OpenTrace, Publication
from sidecar.telemetry import DROPPED, log

LEDGER_CURSOR = "ledger"
_RECORDS_MAX = 64
_BYTES_MAX = 1024**2
_FACTS_MAX = 256
_DUE_MAX = 64
_PROBING_MAX = 32
_WAITING_MAX = 1024
_OPEN_MAX_IDLES = 20
_REST_SECONDS_MIN, _REST_SECONDS_MAX = 0.02, 0.2
_EXPIRE_SECONDS = 15.0
_EXPIRE_MAX = 256

_log = log("pipeline")

FactsAfter = Callable[[int, int], Sequence[Fact]]
Probe = Callable[[AgentTrace], Awaitable[tuple[Evidence, ...]]]
Hear = Callable[[AgentTrace], Awaitable[tuple[Claim, ...]]]


class Ports(Struct, frozen=True, kw_only=True):
    """What the pipeline works on.

    ``facts_after(seq, limit)`` are the ledger's receipts behind a position; ``probed(trace)`` says
    whether any probe is for a trace, and ``probe`` gathers its evidence (never raising for a probe
    that could not see). ``hear`` gives an extractor's claims of an answer (never raising either),
    None where there is no extractor. ``leaving`` is None where there is no exporter.
    """

    journal: JournalReader
    open_traces: OpenTraces
    traces: Traces
    facts_after: FactsAfter
    probed: Callable[[AgentTrace], bool]
    probe: Probe
    leaving: Leaving | None = None
    hear: Hear | None = None


class _Built(Struct, frozen=True, kw_only=True):
    """An open trace's telemetry, the traces made of it and the clues to what else belongs there."""

    batch: Batch
    traces: tuple[AgentTrace, ...]
    clues: tuple[bytes, ...]


class Pipeline:
    """Runs until told to stop. One instance a process; two on one store do no harm."""

    def __init__(self, ports: Ports, config: Config, rules: Rules) -> None:
        self._ports = ports
        self._config = config
        self._rules = rules
        self._leaving = ports.leaving
        self._probing: dict[int, asyncio.Task[None]] = {}
        self._seats = asyncio.Semaphore(_PROBING_MAX)
        self._expire_at = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """All loops, until ``stop``. Raises StoreUnavailable when a store fails."""
        try:
            async with asyncio.TaskGroup() as loops:
                for step in (self.take_in, self.take_facts, self.publish_due, self.expire):
                    loops.create_task(_repeat(step, stop))
        except* StoreUnavailable as group:
            raise group.exceptions[0] from None
        finally:
            for task in self._probing.values():
                task.cancel()
            await asyncio.gather(*self._probing.values(), return_exceptions=True)

    async def take_in(self) -> bool:
        """One step through the journal; False when there was nothing."""
        journal = self._ports.journal
        name = journal_cursor(journal.journal_id)
        before = self._ports.open_traces.cursor(name)
        records = journal.records_after(before, count_max=_RECORDS_MAX, bytes_max=_BYTES_MAX)
        if not records:
            return False
        now_ns = clock.now_ns()
        move = CursorMove(name=name, before=before, after=records[-1].seq)
        source = Source(
            name=move.name,
            rules=self._rules,
            leaving=self._leaving,
            limits=self._rules.limits,
            items_max=self._config.trace_items_max,
        )
        return await self._store(taken(records, source, now_ns), move, now_ns)

    async def take_facts(self) -> bool:
        """One step through the ledger's facts; False when there was nothing."""
        before = self._ports.open_traces.cursor(LEDGER_CURSOR)
        facts = self._ports.facts_after(before, _FACTS_MAX)
        if not facts:
            return False
        now_ns = clock.now_ns()
        move = CursorMove(name=LEDGER_CURSOR, before=before, after=facts[-1].seq)
        return await self._store(taken_facts(facts, move.name, self._rules, now_ns), move, now_ns)

    async def publish_due(self) -> bool:
        """Build and publish what is due; what has probes goes on beside. False when nothing was."""
        if len(self._probing) >= _WAITING_MAX:
            return False
        due = [opened for opened in self._due() if opened.open_id not in self._probing]
        ready: list[Publication] = []
        for opened in due:
            publication = self._built(opened)
            if publication is not None:
                ready.append(publication)
        if ready:
            await self._publish(ready)
        return bool(ready)

    async def expire(self) -> bool:
        """Forget what is too old or too much, once in a while or while there is much of it."""
        if clock.monotonic_ns() / 1e9 < self._expire_at:
            return False
        store, now_ns = self._ports.open_traces, clock.now_ns()
        gone = await store.expire(now_ns, _EXPIRE_MAX)
        pruned = await store.prune(self._rules.retention(now_ns, _EXPIRE_MAX))
        if max(gone, pruned) < _EXPIRE_MAX:
            self._expire_at = clock.monotonic_ns() / 1e9 + _EXPIRE_SECONDS
        return gone + pruned > 0

    async def _store(self, content: Taken, move: CursorMove, now_ns: int) -> bool:
        aside = content.dropped + Counter(quarantined=len(content.quarantined))
        intake = Intake(
            move=move,
            parts=content.parts,
            quarantined=content.quarantined,
            exports=content.exports,
            dropped=aside,
            now_ns=now_ns,
        )
        try:
            await self._ports.open_traces.take_in(intake)
        except CursorMoved:
            return True  # another pipeline was faster; read on from where it stopped
        for reason, items in aside.items():
            if reason != "no_exporter":
                _log.warning("items_set_aside", source=move.name, reason=reason, items=items)
        return True

    async def _publish(self, ready: list[Publication]) -> None:
        try:
            await self._ports.open_traces.publish(ready)
        except StoreUnavailable:
            raise
        except Exception as error:
            # One of them cannot be stored: it is told apart, and the others are published.
            if len(ready) == 1:
                fault = _fault(ready[0].open_id, ready[0].version, error, clock.now_ns())
                await self._ports.open_traces.publish([fault])
                return
            for publication in ready:
                await self._publish([publication])

    def _due(self) -> list[OpenTrace]:
        idle_ns = self._config.idle_ns
        return self._ports.open_traces.due(
            Due(
                now_ns=clock.now_ns(),
                idle_ns=idle_ns,
                open_max_ns=_OPEN_MAX_IDLES * idle_ns,
                limit=_DUE_MAX + len(self._probing),
            )
        )

    def _built(self, opened: OpenTrace) -> Publication | None:
        """What to publish now; None when it has probes, which then run beside."""
        now_ns = clock.now_ns()
        try:
            built = self._assembled(opened, now_ns)
            if not built.traces:
                return self._of_no_agent(opened, built, now_ns)
            if not any(self._waits(trace) for trace in built.traces):
                concluded = [self._concluded(trace, (), now_ns) for trace in built.traces]
                return self._publication(opened, built, concluded, now_ns)
        except StoreUnavailable:
            raise
        except Exception as error:
            return self._faulty(opened, error, now_ns)
        task = asyncio.create_task(self._probe_and_publish(opened))
        self._probing[opened.open_id] = task
        task.add_done_callback(lambda done: self._probed_done(opened.open_id, done))
        return None

    def _probed_done(self, open_id: int, task: asyncio.Task[None]) -> None:
        self._probing.pop(open_id, None)
        if not task.cancelled() and task.exception() is not None:
            # Only a failing store gets here; the loops meet the same failure and say so.
            _log.error("trace_not_published", reason=task.exception())

    async def _probe_and_publish(self, opened: OpenTrace) -> None:
        # Many may wait here; each holds its place in the queue and nothing else.
        async with self._seats:
            try:
                publication = await self._probed_publication(opened)
            except StoreUnavailable:
                raise
            except Exception as error:
                publication = self._faulty(opened, error, clock.now_ns())
            await self._publish([publication])

    async def _probed_publication(self, opened: OpenTrace) -> Publication:
        concluded = []
        built = self._assembled(opened, clock.now_ns())
        for trace in built.traces:
            plain = self._concluded(trace, (), clock.now_ns())
            published = self._ports.open_traces.facts_digest(trace.project, trace.trace_id)
            if plain.digests.facts == published:
                continue  # nothing new was said: what the probes saw then stands
            evidence = await self._ports.probe(trace)
            heard = await self._ports.hear(trace) if self._ports.hear is not None else ()
            concluded.append(self._concluded(trace, evidence, clock.now_ns(), heard))
        return self._publication(opened, built, concluded, clock.now_ns())

    def _assembled(self, opened: OpenTrace, now_ns: int) -> _Built:
        content = self._content(opened)
        batch = telemetry(content)
        found = assembled(content, batch, now_ns=now_ns)
        return _Built(batch=batch, traces=found.traces, clues=found.clues)

    def _content(self, opened: OpenTrace) -> Opened:
        bases = [
            self._ports.traces.get_trace(trace_id, opened.project, revision)
            for trace_id, revision in opened.bases
        ]
        return Opened(
            project=opened.project,
            key=opened.key,
            parts=tuple(self._ports.open_traces.parts(opened)),
            bases=tuple(base for base in bases if base is not None),
            lost=opened.lost,
        )

    def _waits(self, trace: AgentTrace) -> bool:
        """Whether anything outside is asked about a trace before it is published."""
        return self._ports.probed(trace) or (
            self._ports.hear is not None and bool(trace.final_output)
        )

    def _concluded(
        self,
        trace: AgentTrace,
        evidence: Sequence[Evidence],
        now_ns: int,
        heard: Sequence[Claim] = (),
    ) -> Concluded:
        return conclude(trace, evidence, self._rules, now_ns=now_ns, heard=heard)

    def _publication(
        self, opened: OpenTrace, built: _Built, concluded: Sequence[Concluded], now_ns: int
    ) -> Publication:
        publication = Publication(
            open_id=opened.open_id,
            version=opened.version,
            traces=tuple(item.trace for item in concluded),
            digests=tuple(item.digests for item in concluded),
            clues=built.clues,
            now_ns=now_ns,
        )
        return self._leaving_with(publication, opened, built.batch, concluded)

    def _of_no_agent(self, opened: OpenTrace, built: _Built, now_ns: int) -> Publication:
        """Telemetry that is no agent's (or not yet): kept with its mark until it expires."""
        return replace(self._publication(opened, built, (), now_ns), fault="no_step")

    def _faulty(self, opened: OpenTrace, error: Exception, now_ns: int) -> Publication:
        """No trace can be made of it; its telemetry is sent on as it is all the same."""
        publication = _fault(opened.open_id, opened.version, error, now_ns)
        if self._leaving is None:
            return publication
        try:
            batch = telemetry(self._content(opened))
        except StoreUnavailable:
            raise
        except Exception:
            return publication  # the fault names it; what does not open does not leave
        return self._leaving_with(publication, opened, batch, ())

    def _leaving_with(
        self,
        publication: Publication,
        opened: OpenTrace,
        batch: Batch,
        concluded: Sequence[Concluded],
    ) -> Publication:
        if self._leaving is None:
            return publication
        sent = self._ports.open_traces.sent(opened.open_id)
        try:
            sending = self._leaving.sending(
                opened.project, batch, concluded, sent, publication.now_ns
            )
        except Exception as error:
            # It stays unsent, for the next publication; what cannot be redacted must not leave.
            DROPPED.labels("export", "not_built").inc()
            _log.error("export_not_built", open_id=opened.open_id, reason=named(error))
            return publication
        return replace(publication, exports=sending.items, sent=sending.sent)


def _fault(open_id: int, version: int, error: Exception, now_ns: int) -> Publication:
    """A stage that fails on one trace holds up no other; its telemetry stays, for the next part."""
    reason = named(error)
    _log.error("trace_not_built", open_id=open_id, reason=reason)
    return Publication(open_id=open_id, version=version, fault=reason, now_ns=now_ns)


async def _repeat(step: Callable[[], Awaitable[bool]], stop: asyncio.Event) -> None:
    """Run the step again and again, resting longer and longer while it finds nothing to do."""
    rest = _REST_SECONDS_MIN
    while not stop.is_set():
        if await step():
            rest = _REST_SECONDS_MIN
            await asyncio.sleep(0)
            continue
        try:
            await asyncio.wait_for(stop.wait(), rest)
        except TimeoutError:
            rest = min(2 * rest, _REST_SECONDS_MAX)
