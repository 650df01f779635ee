"""Large bodies are looked at by a process of their own: this is its other end.

**Rules**
1. One body at a time goes over; nothing of it happens on the event loop, and the interpreter is
   free meanwhile: the loop answers tool calls as if there were no body.
2. A process that dies, or is silent for ``CHECK_SECONDS``, is replaced when the next body comes;
   the sender is told to come back.
3. It is started when the first large body comes, and never outlives ``close`` or this process.
"""

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import msgspec

from sidecar.otlp.check import Checked
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.otlp.limits import Limits
from sidecar.receive.process import HEAD, Asked, Told
from sidecar.receive.status import Refused
from sidecar.store.journal import Encoding, Signal
from sidecar.telemetry import CHILD_RESTARTS, log

CHECK_SECONDS = 60.0
_RETRY_S = 1
# A body goes over in a few pieces; by default each 64 KiB are a change from process to process.
_PIPE_BYTES = 1024**2
_CODE = "import sys; from sidecar.receive.process import main; main(int(sys.argv[1]))"

_log = log("receive")


class Checker:
    """The process, from its parent. ``close`` it at the end; safe without use and twice."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id; None while there is none."""
        return self._process.pid if self._process is not None else None

    async def check(
        self, signal: Signal, encoding: Encoding, payload: bytes, limits: Limits
    ) -> Checked:
        """``otlp.check.check``, elsewhere. Raises Undecodable, TooMany and Refused."""
        if self._closed:
            raise Refused("busy", "the receiver is stopping; try again", _RETRY_S)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="check")
        asked = msgspec.json.encode(Asked(signal, encoding, limits))
        loop = asyncio.get_running_loop()
        try:
            line = await loop.run_in_executor(self._pool, self._ask, asked, payload)
        except RuntimeError as error:  # no thread can be started
            _log.error("body_check_not_started", reason=str(error))
            line = b""
        return _checked(line)

    async def close(self) -> None:
        """End the process; whoever waits is told to come back."""
        self._closed = True
        process, pool = self._process, self._pool
        if process is not None:
            process.kill()  # whoever reads its answer reads the end
        if pool is not None:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        self._drop()

    def _ask(self, asked: bytes, payload: bytes) -> bytes:
        """The answer's line; empty where there is none. In the one thread of the pool."""
        if self._closed:
            return b""
        try:
            process = self._running()
        except OSError as error:  # no descriptor or memory is left: a moment later it may be
            _log.error("body_check_not_started", reason=error.strerror)
            return b""
        late = threading.Timer(CHECK_SECONDS, process.kill)
        late.start()
        try:
            line = _exchange(process, asked, payload)
        finally:
            late.cancel()
        if not line and not self._closed:
            CHILD_RESTARTS.labels("check").inc()
            self._drop()
            _log.error("body_check_died")
        return line

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - our own code
                [sys.executable, "-P", "-c", _CODE, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pipesize=_PIPE_BYTES,
                stderr=subprocess.DEVNULL,  # a fault's text may hold what it failed on
            )
        return self._process

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close(pipe)


def _exchange(process: subprocess.Popen[bytes], asked: bytes, payload: bytes) -> bytes:
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(HEAD.pack(len(asked), len(payload)) + asked)
        process.stdin.write(payload)
        process.stdin.flush()
        line = process.stdout.readline()
    except (OSError, ValueError):
        return b""
    return line if line.endswith(b"\n") else b""


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except OSError:
        pass  # what it had buffered has nobody to read it


def _checked(line: bytes) -> Checked:
    told = msgspec.json.decode(line, type=Told) if line else Told(kind="fault")
    match told.kind:
        case "undecodable":
            raise Undecodable(told.why)
        case "too_many":
            raise TooMany(told.why)
        case "fault":
            raise Refused("busy", "the body cannot be looked at now; try again", _RETRY_S)
    return Checked(told.accepted, told.rejected)
