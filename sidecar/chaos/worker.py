"""One gateway process after another in a folder: started, asked to end, or killed by somebody.

**Rules**
1. A life is a gateway alone, or all that ``sidecar serve`` is, with children of its own.
2. A start that says nothing in time is tried again, so often: a busy machine is no finding.
"""

import asyncio
import signal
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from sidecar.chaos.files import running_children_of, still_running
from sidecar.chaos.process import Spoil, live
from sidecar.errors import SidecarError

_START_SECONDS, _DEATH_SECONDS, _POLL_SECONDS = 60.0, 30.0, 0.02
_STARTS_MAX, _ORPHAN_SECONDS = 3, 120.0


class NotStarted(SidecarError):
    """The gateway's process ended, or said nothing, before it served."""


class Lives:
    """The lives of one folder. ``start``, then ``pid`` and ``port``; ``stop`` is safe twice."""

    def __init__(self, context: ForkServerContext, folder: Path, spoil: Spoil | None) -> None:
        self._context = context
        self._folder = folder
        self._spoil = spoil
        self._process: ForkServerProcess | None = None
        self._children: Sequence[int] = ()
        self.whole = False
        self.port = 0

    @property
    def begun(self) -> bool:
        """Whether there is a process, dead or alive."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process that was started last."""
        assert self._process is not None and self._process.pid is not None
        return self._process.pid

    async def start(self, *, whole: bool = False) -> None:
        """The next life. Raises NotStarted."""
        for _ in range(_STARTS_MAX):
            await self.stop()
            if await self._start(whole):
                return
        raise self._not_started()

    async def _start(self, whole: bool) -> bool:
        reader, writer = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=live, args=(self._folder, writer, self._spoil, whole)
        )
        process.start()
        writer.close()
        self._process, self.whole = process, whole
        with reader:
            if not await asyncio.to_thread(reader.poll, _START_SECONDS):
                return False
            try:
                self.port = reader.recv()
            except EOFError:
                raise self._not_started() from None
        self._children = running_children_of(self.pid)
        return True

    async def killed(self) -> bool:
        """Wait for the process to end; whether it was SIGKILL that ended it."""
        assert self._process is not None
        return await self._ended(self._process) and self._process.exitcode == -signal.SIGKILL

    async def orphans(self) -> int:
        """How many processes of a life that has ended do not end by themselves."""
        for _ in range(int(_ORPHAN_SECONDS / _POLL_SECONDS)):
            if not still_running(self._children):
                break
            await asyncio.sleep(_POLL_SECONDS)
        return still_running(self._children)

    async def stop(self) -> None:
        """End the life that is left. Safe without and twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        if not await self._ended(process):
            process.kill()
            await self._ended(process)
        process.close()

    async def _ended(self, process: ForkServerProcess) -> bool:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(process.sentinel, over.set)
        try:
            async with asyncio.timeout(_DEATH_SECONDS):
                await over.wait()
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(process.sentinel)
        return process.exitcode is not None

    def _not_started(self) -> NotStarted:
        said = (self._folder / "log").read_text().splitlines()
        return NotStarted("a gateway under proof did not start", where=" ".join(said[-1:]))
