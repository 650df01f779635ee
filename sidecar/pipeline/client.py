"""Tells metrics what the pipeline published and left out, from what it durably counted.

Rules
1. The pipeline is a process of its own whose counters nobody can ask; what it drops it counts in
   the transaction that drops it, so that what is shown here is what happened.
2. Every reason is one of a closed set: those of ``otlp.limits.Cut``, and ``trace_over_limit``,
   ``content_over_limit``, ``looped``, ``no_exporter``, ``no_step``, ``quarantined``,
   ``receipt_without_trace``, ``trace_fault``.
"""

import asyncio

from sidecar.errors import StoreUnavailable
from sidecar.store.ports import Dropped, Published
from sidecar.store.traces import TraceQuery
from sidecar.telemetry import CONTRADICTIONS, DROPPED, TRACES_PUBLISHED, log

_REST_SECONDS = 1.0
_LOOK_MAX = 10_000

_log = log("pipeline")


class Watch:
    """Looks again and again beside the listeners, until stopped."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """What there is before anything is told."""
        raise NotImplementedError

    def tell(self) -> None:
        """What is new. Raises StoreUnavailable, to be asked again."""
        raise NotImplementedError

    async def start(self) -> None:
        """Start watching."""
        self.begin()
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop. Safe without start and twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            try:
                self.tell()
            except StoreUnavailable as error:
                _log.warning("not_counted_yet", watch=type(self).__name__, reason=error.text())
            await asyncio.sleep(_REST_SECONDS)


class DropWatch(Watch):
    """What was counted before it started is not counted again."""

    def __init__(self, store: Dropped) -> None:
        super().__init__()
        self._store = store
        self._told: dict[str, int] = {}

    def begin(self) -> None:
        """Remember what was counted before."""
        self._told = dict(self._store.dropped())

    def tell(self) -> None:
        """Count what was left out since."""
        for reason, items in self._store.dropped().items():
            DROPPED.labels("pipeline", reason).inc(items - self._told.get(reason, 0))
            self._told[reason] = items


class OutcomeWatch(Watch):
    """Counts the outcomes and contradictions of revisions as they are published."""

    def __init__(self, published: Published) -> None:
        super().__init__()
        self._published = published
        self._place = 0

    def begin(self) -> None:
        """Begin behind the last revision there is."""
        self._place = self._published.place()

    def tell(self) -> None:
        """Count what was published since."""
        self._place, revisions = self._published.after(self._place, TraceQuery(limit=_LOOK_MAX))
        for revision in revisions:
            TRACES_PUBLISHED.labels(revision.outcome).inc()
            for code in revision.contradictions:
                CONTRADICTIONS.labels(code).inc()
