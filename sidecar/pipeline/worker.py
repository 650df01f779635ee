"""The pipeline's own process, and any other child's, from the inside.

Rules
1. It runs at the lowest priority, so that a tool call on the same machine always wins.
2. Its standard input is its parent: one line of settings, then nothing. The end of that stream,
   for whatever reason the parent went, ends this process too.
3. It opens nothing itself: it is handed ports, opened by ``open_work`` (app) from the settings.
4. A failing store ends the process with a message and exit code 3; the parent starts it again.
"""

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable

from msgspec import Struct

from sidecar.errors import ExitCode, SidecarError
from sidecar.pipeline.batch import Rules
from sidecar.pipeline.config import Config
from sidecar.pipeline.driver import Pipeline, Ports
from sidecar.telemetry import configure_logging, log

# Telemetry makes many small objects and few cycles (performance.md: +13 to 24 %).
_GC_THRESHOLD = 100_000
_GRACE_SECONDS = 5.0


class Work(Struct, frozen=True, kw_only=True):
    """What the process works on; ``finish`` ends what lives in its loop, ``close`` the stores."""

    ports: Ports
    config: Config
    rules: Rules
    finish: Callable[[], Awaitable[None]]
    close: Callable[[], None]


class Life(Struct, frozen=True, kw_only=True):
    """What a child process does until it is told to stop, and how to close what it opened."""

    run: Callable[[asyncio.Event], Awaitable[None]]
    close: Callable[[], None]


def serve(open_work: Callable[[bytes], Work]) -> int:
    """The life of the pipeline's process; see ``live``."""

    def open_life(settings: bytes) -> Life:
        work = open_work(settings)
        pipeline = Pipeline(work.ports, work.config, work.rules)

        async def run(stop: asyncio.Event) -> None:
            try:
                await pipeline.run(stop)
            finally:
                await work.finish()

        return Life(run=run, close=work.close)

    return live(open_life, "pipeline")


def live(open_life: Callable[[bytes], Life], name: str) -> int:
    """The life of a child process: settings, ports, loops, end. Returns the exit code.

    To be called as the last thing of an entry function of a process started by ``PipelineProcess``.
    """
    configure_logging()
    os.nice(19)
    # A terminal's Ctrl-C and a supervisor's end reach every process; the parent decides when this
    # one ends, and starts it anew where it ends too early.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    settings = sys.stdin.buffer.readline()
    try:
        life = open_life(settings)
        try:
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GC_THRESHOLD)
            asyncio.run(_until_the_parent_ends(life))
        finally:
            life.close()
    except SidecarError as error:
        log(name).error(f"{name}_stopped", reason=error.text())
        return int(ExitCode.FAULT)
    return int(ExitCode.GOOD)


async def _until_the_parent_ends(life: Life) -> None:
    """The loops, until the parent closes standard input, which its death does too."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_await_end, args=(loop, stop), name="parent", daemon=True).start()
    await life.run(stop)


def _await_end(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # Not through sys.stdin: a thread inside its buffer aborts the interpreter at the end.
    while os.read(sys.stdin.fileno(), 65536):
        pass
    try:
        loop.call_soon_threadsafe(stop.set)
    except RuntimeError:
        return  # the loop has ended already, and with it the process
    # A step that never ends must not outlive the parent: what it had not committed is done again.
    threading.Event().wait(_GRACE_SECONDS)
    os._exit(int(ExitCode.FAULT))
