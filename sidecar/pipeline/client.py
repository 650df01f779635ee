"""Tells metrics what the pipeline left out, from what it durably counted.

Rules
1. The pipeline is a process of its own whose counters nobody can ask; what it drops it counts in
   the transaction that drops it, so that what is shown here is what happened.
2. Every reason is one of a closed set: those of ``otlp.limits.Cut``, and ``trace_over_limit``,
   ``content_over_limit``, ``looped``, ``no_exporter``, ``no_step``, ``quarantined``,
   ``receipt_without_trace``, ``trace_fault``.
"""

import asyncio

from sidecar.errors import StoreUnavailable
from sidecar.store.ports import Dropped
from sidecar.telemetry import DROPPED, log

_REST_SECONDS = 1.0

_log = log("pipeline")


class DropWatch:
    """Runs beside the listeners. What was counted before it started is not counted again."""

    def __init__(self, store: Dropped) -> None:
        self._store = store
        self._told: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start watching."""
        self._told = dict(self._store.dropped())
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
                self._tell()
            except StoreUnavailable as error:
                _log.warning("drops_unknown", reason=error.text())
            await asyncio.sleep(_REST_SECONDS)

    def _tell(self) -> None:
        for reason, items in self._store.dropped().items():
            DROPPED.labels("pipeline", reason).inc(items - self._told.get(reason, 0))
            self._told[reason] = items
