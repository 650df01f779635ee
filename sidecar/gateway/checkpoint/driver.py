"""Keeps the chain's end elsewhere: signs it now and then, and takes it to every anchor.

**Rules**
1. One sidecar of those that share a ledger does it; all know how far the anchors are.
2. Checkpoints are kept in the store until an anchor has them: an anchor that is away loses none.
3. An anchor that is further behind than allowed stops calls with effects, until it has caught up.
4. Waiting on a disk or a program is a thread's, never the loop's.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from processors.value import duration_ns
from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.gateway.checkpoint import files, process
from sidecar.gateway.checkpoint.config import Anchor, Audit
from sidecar.gateway.checkpoint.document import line
from sidecar.store.ports import CheckpointBook
from sidecar.telemetry import CHECKPOINTS, TASK_FAILURES, log

_LOG = log("audit")
_BATCH = 256
ROLE = "checkpoint"


class Checkpoints:
    """``start`` after the gateway has a signing key, ``stop`` before the ledger is closed."""

    def __init__(
        self,
        ledger: CheckpointBook,
        config: Audit,
        *,
        folder: Path = Path(),
        now_ns: Callable[[], int] = clock.now_ns,
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._folder = folder
        self._now_ns = now_ns
        self._task: asyncio.Task[None] | None = None
        self.behind = False

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Take what there is to the anchors once more, and end. Safe without start and twice."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        await self._tried()

    async def turn(self) -> None:
        """Sign the end if it moved, take it to the anchors, see how far they are.

        Raises StoreUnavailable.
        """
        if self._ledger.leads(ROLE):
            if await self._ledger.checkpoint(self._now_ns()) is not None:
                CHECKPOINTS.labels("", "made").inc()
            for anchor in self._config.anchors:
                await self._take(anchor)
        self.behind = any(self._lags(anchor) for anchor in self._config.anchors)

    async def _run(self) -> None:
        while True:
            await self._tried()
            await asyncio.sleep(self._config.every_seconds)

    async def _tried(self) -> None:
        try:
            await self.turn()
        except StoreUnavailable as error:
            TASK_FAILURES.labels(ROLE).inc()
            _LOG.error("checkpoint failed", why=error)

    async def _take(self, anchor: Anchor) -> None:
        keys = self._ledger.public_keys()
        while found := self._ledger.checkpoints_after(self._ledger.anchored(anchor.name), _BATCH):
            lines = [line(each, keys.get(each.kid, b"")) for each in found]
            try:
                await asyncio.to_thread(self._send, anchor, lines)
            except (OSError, process.NotKept) as error:
                CHECKPOINTS.labels(anchor.name, "failed").inc()
                _LOG.error("checkpoints not anchored", anchor=anchor.name, why=error)
                return
            await self._ledger.set_anchored(anchor.name, found[-1].seq)
            CHECKPOINTS.labels(anchor.name, "anchored").inc(len(found))

    def _send(self, anchor: Anchor, lines: list[str]) -> None:
        if anchor.file:
            files.append(self._folder / anchor.file, lines)
        else:
            process.tell(anchor.command, lines, duration_ns(anchor.timeout) / 1e9)

    def _lags(self, anchor: Anchor) -> bool:
        waiting = self._ledger.checkpoints_after(self._ledger.anchored(anchor.name), 1)
        return bool(waiting) and waiting[0].at_ns + self._config.lag_max_ns < self._now_ns()
