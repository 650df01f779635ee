"""Tells metrics how the exporters do, from what they durably wrote into the outbox.

Rules
1. Exporters run in a process of their own; their tallies are committed with their cursors, so that
   what is shown here is what happened, whoever was restarted since.
2. Every item that was not delivered is counted in ``sidecar_dropped_total`` under stage ``export``.
"""

import asyncio

from sidecar import clock
from sidecar.store.outbox import SENT, Progress
from sidecar.store.ports import ExportProgress
from sidecar.telemetry import (
    DROPPED,
    EXPORT_LAG_SECONDS,
    EXPORT_QUEUE_BYTES,
    EXPORTED_ITEMS,
    TASK_FAILURES,
    log,
)

_REST_SECONDS, _REST_SECONDS_MAX = 1.0, 10.0

_log = log("export")


class ExportWatch:
    """Runs beside the listeners. What was tallied before it started is not counted again."""

    def __init__(self, progress: ExportProgress) -> None:
        self._progress = progress
        self._told: dict[tuple[str, str, str], int] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start watching."""
        for entry in self._progress.progress():
            for tally in entry.tallies:
                self._told[entry.name, tally.signal, tally.fate] = tally.items
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop. Safe without start and twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        rest = _REST_SECONDS
        while True:
            try:
                for entry in self._progress.progress():
                    self._tell(entry)
                rest = _REST_SECONDS
            except Exception as error:
                TASK_FAILURES.labels("export_watch").inc()
                _log.warning("export_progress_unknown", fault=error)
                rest = min(2 * rest, _REST_SECONDS_MAX)
            await asyncio.sleep(rest)

    def _tell(self, entry: Progress) -> None:
        since = 0 if entry.oldest_ns is None else max(0, clock.now_ns() - entry.oldest_ns)
        EXPORT_LAG_SECONDS.labels(entry.name).set(since / 1e9)
        EXPORT_QUEUE_BYTES.labels(entry.name).set(entry.waiting_bytes)
        for tally in entry.tallies:
            place = entry.name, tally.signal, tally.fate
            more = tally.items - self._told.get(place, 0)
            self._told[place] = tally.items
            if tally.fate == SENT:
                EXPORTED_ITEMS.labels(entry.name, tally.signal).inc(more)
            else:
                DROPPED.labels("export", tally.fate).inc(more)
