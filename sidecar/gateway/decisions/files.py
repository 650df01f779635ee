"""The decision log as a file of JSON lines, written by a thread of its own.

**Rules**
1. No call waits for it: a decision that finds the queue full is dropped, and counted.
2. What is hidden is hidden in the thread, before anything is written.
3. A file that was moved away (log rotation) is made anew with the next line.
"""

import os
import queue
import threading
from pathlib import Path

import orjson

from processors.redact.masker import Masker
from sidecar.gateway.decisions.event import Decided, Hiding, event
from sidecar.telemetry import DECISIONS_LOGGED, log

_LOG = log("decisions")
_QUEUED_MAX = 10_000
_MODE = 0o600


class DecisionFile:
    """``tell`` from anywhere; ``start`` and ``stop`` around its life. Safe without start."""

    def __init__(
        self, path: Path, hiding: Hiding, labels: dict[str, str], *, queued_max: int = _QUEUED_MAX
    ) -> None:
        self._path = path
        self._hiding = hiding
        self._labels = labels
        self._waiting: queue.Queue[Decided | None] = queue.Queue(queued_max)
        self._masker = Masker()
        self._thread: threading.Thread | None = None

    def tell(self, said: Decided) -> None:
        """Have it written, or count that it was not."""
        try:
            self._waiting.put_nowait(said)
        except queue.Full:
            DECISIONS_LOGGED.labels("dropped").inc()

    async def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="decisions", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Write what waits, and end. Safe to call twice."""
        if self._thread is None:
            return
        self._waiting.put(None)
        self._thread.join()
        self._thread = None

    def _run(self) -> None:
        while (said := self._waiting.get()) is not None:
            try:
                self._write(orjson.dumps(event(said, self._hiding, self._labels, self._masker)))
                DECISIONS_LOGGED.labels("written").inc()
            except (OSError, TypeError, ValueError) as error:
                DECISIONS_LOGGED.labels("failed").inc()
                _LOG.error("decision not logged", why=error)

    def _write(self, line: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _MODE)
        try:
            os.write(descriptor, line + b"\n")
        finally:
            os.close(descriptor)
