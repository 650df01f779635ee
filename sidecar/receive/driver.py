"""Keeps the journal short: deletes what the pipeline has durably taken in.

Rules
1. Only records at or before the pipeline's own cursor are deleted, whatever their age.
2. Whatever fails is logged, counted and tried again, ever more slowly; nothing is lost by a record
   that stays.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from sidecar.telemetry import JOURNAL_BYTES, TASK_FAILURES, log

_REST_SECONDS, _REST_SECONDS_MAX = 0.25, 5.0

_log = log("receive")


class Trimmable(Protocol):
    """A journal, as far as its length goes."""

    @property
    def bytes_held(self) -> int:
        """Stored bytes of the records that are kept."""
        ...

    async def trim(self, through: int) -> int:
        """Delete some of the records up to ``through``; bytes freed, 0 when there are none."""
        ...


class Trimmer:
    """Runs beside the receivers. ``consumed()`` is the pipeline's cursor on this journal."""

    def __init__(self, journal: Trimmable, consumed: Callable[[], int]) -> None:
        self._journal = journal
        self._consumed = consumed
        self._trimmed = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start trimming."""
        self._task = asyncio.create_task(self._keep_short())

    async def stop(self) -> None:
        """Stop. Safe without start and twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_short(self) -> None:
        rest = _REST_SECONDS
        while True:
            try:
                await self._trim()
                JOURNAL_BYTES.set(self._journal.bytes_held)
                rest = _REST_SECONDS
            except Exception as error:
                TASK_FAILURES.labels("trim").inc()
                _log.warning("journal_not_trimmed", fault=error)
                rest = min(2 * rest, _REST_SECONDS_MAX)
            await asyncio.sleep(rest)

    async def _trim(self) -> None:
        consumed = self._consumed()
        if consumed <= self._trimmed:
            return
        while await self._journal.trim(consumed):
            pass
        self._trimmed = consumed
