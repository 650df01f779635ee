"""The pipeline's process, from its parent: started, watched, started again, ended.

Rules
1. The child that dies is started again after a pause that doubles from ``_PAUSE_SECONDS_MIN`` to
   ``_PAUSE_SECONDS_MAX`` and is short again once a child has lived ``_HEALTHY_SECONDS``.
2. Each restart is counted and logged with the exit code. A child that cannot even be started (no
   descriptors, no memory) is tried again in the same way: the watch itself never ends.
3. The child ends when its standard input ends: on ``stop``, and when this process dies in any way.

How the whole of ingest is built, in the order in which it starts (it stops in reverse)::

    migrate_traces(folder / "traces.db")
    journal = SqliteJournal(folder / "journal.db", sealers=…, bytes_max=…, new_id=clock.new_id)
    traces = SqliteTraces(folder / "traces.db")
    PipelineProcess("sidecar.app.pipeline:pipeline_main", settings)  # the entry calls worker.serve
    Trimmer(journal, lambda: traces.cursor(journal_cursor(journal.journal_id)))
    GrpcReceiver(config.receive, journal, authenticate), HttpReceiver(…)

and in the child ``worker.serve(open_work)``, where ``open_work(settings)`` gives a ``worker.Work``
over SqliteJournalReader, SqliteOpenTraces, SqliteTraces and the ledger's facts.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence

from sidecar import clock
from sidecar.telemetry import CHILD_RESTARTS, TASK_FAILURES, log

_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.1, 10.0
_HEALTHY_SECONDS = 30.0
_END_SECONDS = 8.0

_log = log("pipeline")


class PipelineProcess:
    """Keeps one pipeline child running.

    ``entry`` is ``module:function``, a function without arguments that calls ``worker.serve``;
    ``settings`` is one line of bytes that the child's ``open_work`` is handed.
    """

    def __init__(self, entry: str, settings: bytes, name: str = "pipeline") -> None:
        assert b"\n" not in settings
        module, _, function = entry.partition(":")
        code = f"import sys; from {module} import {function}; sys.exit({function}())"
        self._command: Sequence[str] = (sys.executable, "-P", "-c", code)
        self._settings = settings
        self._name = name
        self._process: Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stopping = False
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start the child. Raises OSError when it cannot be started at all."""
        self._process = await self._spawn()
        self._watch = asyncio.create_task(self._keep(self._process))

    async def stop(self) -> None:
        """End the child: let it finish its step, then kill it. Safe without start and twice."""
        self._stopping = True
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _keep(self, process: Process) -> None:
        pause = _PAUSE_SECONDS_MIN
        while True:
            started = clock.monotonic_ns()
            code = await self._end_of(process)
            if (clock.monotonic_ns() - started) / 1e9 >= _HEALTHY_SECONDS:
                pause = _PAUSE_SECONDS_MIN
            CHILD_RESTARTS.labels(self._name).inc()
            self.restarts += 1
            _log.error(f"{self._name}_died", exit_code=code, again_in_seconds=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            process = await self._again()

    async def _end_of(self, process: Process) -> int | None:
        try:
            return await process.wait()
        except Exception as error:
            TASK_FAILURES.labels(self._name).inc()
            _log.error(f"{self._name}_lost", fault=error)
            process.kill()
            return process.returncode

    async def _again(self) -> Process:
        """A new child, however often it takes."""
        pause = _PAUSE_SECONDS_MIN
        while True:
            try:
                self._process = await self._spawn()
            except Exception as error:
                TASK_FAILURES.labels(self._name).inc()
                _log.error(f"{self._name}_not_started", fault=error, again_in_seconds=pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            else:
                return self._process

    async def _spawn(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=DEVNULL, close_fds=True
        )
        assert process.stdin is not None
        process.stdin.write(self._settings + b"\n")
        try:
            await process.stdin.drain()
        except ConnectionError:
            pass  # it has died already; the watch sees that and starts another
        return process
