"""One gateway process after another in a folder: started, asked to end, or killed by somebody."""

import asyncio
import signal
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from sidecar.chaos.process import Spoil, live
from sidecar.errors import SidecarError

_START_SECONDS, _DEATH_SECONDS = 60.0, 30.0


class NotStarted(SidecarError):
    """The gateway's process ended, or said nothing, before it served."""


class Lives:
    """The lives of one folder. ``start``, then ``pid`` and ``port``; ``stop`` is safe twice."""

    def __init__(self, context: ForkServerContext, folder: Path, spoil: Spoil | None) -> None:
        self._context = context
        self._folder = folder
        self._spoil = spoil
        self._process: ForkServerProcess | None = None
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

    async def start(self) -> None:
        """The next life. Raises NotStarted."""
        await self.stop()
        reader, writer = self._context.Pipe(duplex=False)
        process = self._context.Process(target=live, args=(self._folder, writer, self._spoil))
        process.start()
        writer.close()
        self._process = process
        with reader:
            if not await asyncio.to_thread(reader.poll, _START_SECONDS):
                raise self._not_started()
            try:
                self.port = reader.recv()
            except EOFError:
                raise self._not_started() from None

    async def killed(self) -> bool:
        """Wait for the process to end; whether it was SIGKILL that ended it."""
        assert self._process is not None
        return await self._ended(self._process) and self._process.exitcode == -signal.SIGKILL

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
        await asyncio.to_thread(process.join, _DEATH_SECONDS)
        return process.exitcode is not None

    def _not_started(self) -> NotStarted:
        said = (self._folder / "log").read_text().splitlines()
        return NotStarted("a gateway under proof did not start", where=" ".join(said[-1:]))
