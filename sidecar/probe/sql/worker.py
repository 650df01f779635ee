"""The process that asks one database, as its parent sees it: started, asked, ended, started again.

**Rules**
1. Every question has an answer by its deadline and ``GRACE_SECONDS``: a process that gives none is
   stuck in what its server said. It is killed, and whoever else waits for it is told so.
2. A process that ended is started again when the next question comes, after a pause that grows
   with each end in a row (``PAUSES_SECONDS``) and is none again after an answer.
3. What it says is checked like a stranger's: it has read what a stranger said.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys

import msgspec
from msgspec import Struct

from sidecar.clock import monotonic_ns
from sidecar.probe.sql.messages import LINE_BYTES_MAX, Job, Told
from sidecar.telemetry import CHILD_RESTARTS, log

GRACE_SECONDS = 2.0
PAUSES_SECONDS = (0.0, 0.5, 2.0, 10.0, 30.0)
_START_SECONDS = 15.0
_CODE = "import sys; from sidecar.probe.sql.process import main; main(int(sys.argv[1]))"
_KEPT = ("PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")

_log = log("probe")


class WorkerFailed(Exception):
    """No answer; ``code``: driver_stuck (it was asked), driver_paused (it was not), or
    sql_value_does_not_fit (the question is too long)."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class _Child(Struct, frozen=True, eq=False):
    """A process and the socket to it."""

    process: subprocess.Popen[bytes]
    incoming: asyncio.StreamReader
    outgoing: asyncio.StreamWriter


class Worker:
    """Asks the database ``name``. Use it in one event loop; ``close`` it at the end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._child: _Child | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Told]] = {}
        self._last = 0
        self._ends_in_a_row = 0
        self._paused_until_ns = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id; None while there is none."""
        return self._child.process.pid if self._child is not None else None

    async def ask(self, job: Job) -> Told:
        """The answer to a question, whose ``identity`` is given here. Raises WorkerFailed."""
        self._last += 1
        identity = self._last
        line = json.dumps(msgspec.structs.asdict(msgspec.structs.replace(job, identity=identity)))
        if len(line) >= LINE_BYTES_MAX:
            raise WorkerFailed("sql_value_does_not_fit")
        child = await self._running()
        answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = answer
        child.outgoing.write(line.encode() + b"\n")
        try:
            async with asyncio.timeout(job.deadline_ns / 1e9 + GRACE_SECONDS):
                return await answer
        except TimeoutError:
            await self._end(child)
            raise WorkerFailed("driver_stuck") from None
        finally:
            self._waiting.pop(identity, None)

    async def close(self) -> None:
        """End the process; whoever waits for it is told. Safe twice and without use."""
        self._closed = True
        async with self._starting:  # what is being started is ended too
            child, reading = self._child, self._reading
        if child is not None:
            await self._end(child)
        elif reading is not None:
            await reading

    async def _running(self) -> _Child:
        async with self._starting:
            if self._child is not None:
                return self._child
            if self._closed or monotonic_ns() < self._paused_until_ns:
                raise WorkerFailed("driver_paused")
            self._child = child = await self._started()
            self._reading = asyncio.create_task(self._read(child))
            return child

    async def _started(self) -> _Child:
        try:
            child = await _spawned()
        except OSError as error:  # no descriptor or memory is left: a moment later it may be
            self._pause(error.strerror or "not started")
            raise WorkerFailed("driver_paused") from None
        try:
            async with asyncio.timeout(_START_SECONDS):
                ready = await child.incoming.readline()
        except TimeoutError:
            ready = b""
        except BaseException:  # whoever asked has gone
            await _killed(child)
            raise
        if not ready:
            await _killed(child)
            self._pause("not started")
            raise WorkerFailed("driver_paused")
        return child

    async def _read(self, child: _Child) -> None:
        """Hand out what the process says, until it ends or says what cannot be read."""
        # ValueError: no JSON, no answer, too long a line
        with contextlib.suppress(OSError, ValueError, RecursionError):
            while line := await child.incoming.readline():
                told = msgspec.convert(json.loads(line), Told)
                answer = self._waiting.pop(told.identity, None)
                if answer is not None and not answer.done():
                    self._ends_in_a_row = 0
                    answer.set_result(told)
        await _killed(child)
        self._child = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(WorkerFailed("driver_stuck"))
        if not self._closed:
            CHILD_RESTARTS.labels("sql_probe").inc()
            self._pause("ended")

    async def _end(self, child: _Child) -> None:
        """Kill a process; ``_read`` sees its end and tells whoever waits."""
        child.process.kill()
        if self._reading is not None:
            await asyncio.shield(self._reading)

    def _pause(self, why: str) -> None:
        pause = PAUSES_SECONDS[min(self._ends_in_a_row, len(PAUSES_SECONDS) - 1)]
        self._ends_in_a_row += 1
        self._paused_until_ns = monotonic_ns() + int(pause * 1e9)
        _log.error("sql_probe_process_died", database=self._name, reason=why, pause_seconds=pause)


async def _spawned() -> _Child:
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            # not asyncio's: its kill may reap behind its own watcher's back
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - a millisecond; our own code
                [sys.executable, "-P", "-c", _CODE, str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a driver's warnings may hold what it read
                env={"PATH": os.defpath, "LANG": "C.UTF-8", **_kept()},
            )
        except BaseException:
            ours.close()
            raise
    incoming, outgoing = await asyncio.open_connection(sock=ours, limit=LINE_BYTES_MAX)
    return _Child(process, incoming, outgoing)


def _kept() -> dict[str, str]:
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


async def _killed(child: _Child) -> None:
    """End a process, and wait for it and the socket."""
    child.process.kill()
    child.outgoing.close()
    try:
        await asyncio.to_thread(child.process.wait)
    except RuntimeError:  # no thread can be had: a killed process is gone in a moment
        child.process.wait()
    with contextlib.suppress(OSError):
        await child.outgoing.wait_closed()
