"""An agent as a process: JSON in on stdin, the answer out on the last line of stdout.

Rules
1. The process leads a group of its own; when it ends, or its deadline comes, the whole group is
   killed, and whatever else of the run has left the group (``leftover``).
2. Output is bounded: more than ``OUTPUT_BYTES_MAX`` ends the agent; of stderr the tail is kept.
3. Whatever the agent does is data (``AgentExit``), never an exception here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from processors.value import too_deep
from sidecar.replay.leftover.process import MARK, end_group, end_marked
from sidecar.replay.record import AgentExit, Ending

OUTPUT_BYTES_MAX = 4 * 1024**2
STDERR_BYTES_KEPT = 8 * 1024
_CLOSING_SECONDS = 2.0


class Launch(Struct, frozen=True, kw_only=True):
    """One process to start; ``mark`` is the run's own, by which all it starts is known."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    deadline_s: float
    mark: str


async def run_agent(launch: Launch, request: dict[str, Any]) -> AgentExit:
    """Run one agent to its end. ``request`` goes to its stdin as one JSON object."""
    running = _Running(asyncio.get_running_loop())
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: running,
            *launch.argv,
            env={**launch.environment, MARK: launch.mark},
            cwd=Path(launch.folder),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        detail = f"{launch.argv[0]} cannot be started: {error}"
        return AgentExit(ending="not_started", detail=detail)
    try:
        stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
        stdin.write(msgspec.json.encode(request) + b"\n")
        stdin.close()  # after what was written is flushed
        done, _ = await asyncio.wait({running.stopped}, timeout=launch.deadline_s)
        end_group(transport.get_pid())
        end_marked(launch.mark)
        # What cannot be found may hold the pipes for ever; what it says there is not waited for.
        await asyncio.wait({running.closed}, timeout=_CLOSING_SECONDS)
        return running.exit(in_time=bool(done), code=transport.get_returncode())
    finally:
        end_group(transport.get_pid())
        end_marked(launch.mark)
        transport.close()


class _Running(asyncio.SubprocessProtocol):
    """A started process and what it has said so far.

    ``stopped`` is set when the process ended by itself or said too much, ``closed`` when its pipes
    are closed too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stopped: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._output = bytearray()
        self._stderr = bytearray()
        self._too_large = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-STDERR_BYTES_KEPT]
        elif not self._too_large:
            self._output += data
            if len(self._output) > OUTPUT_BYTES_MAX:
                self._too_large = True
                self._stop()

    def process_exited(self) -> None:
        self._stop()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if not self.closed.done():
            self.closed.set_result(None)

    def exit(self, *, in_time: bool, code: int | None) -> AgentExit:
        """How it ended; to be asked once it is closed."""
        ending: Ending = "completed" if code == 0 else "failed"
        detail = "" if code == 0 else f"exit status {code}"
        if self._too_large:
            ending, detail = "output_too_large", f"more than {OUTPUT_BYTES_MAX} bytes of output"
        elif not in_time:
            ending, detail = "timed_out", "stopped at its deadline"
        return AgentExit(
            ending=ending,
            exit_code=code if ending in ("completed", "failed") else None,
            output=answer(bytes(self._output)),
            stderr_tail=self._stderr.decode("utf-8", "replace"),
            detail=detail,
        )

    def _stop(self) -> None:
        if not self.stopped.done():
            self.stopped.set_result(None)


def answer(stdout: bytes) -> Any:
    """The agent's answer: ``output`` of a JSON object on the last line, else all of the text.

    So is JSON that could not be kept: nested deeper than 100 levels, integers beyond 64 bits.
    """
    text = stdout[:OUTPUT_BYTES_MAX].decode("utf-8", "replace").strip()
    last = text.rsplit("\n", 1)[-1]
    try:
        value = msgspec.json.decode(last)
        msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError):
        return text
    if too_deep(value, last):
        return text
    return value["output"] if isinstance(value, dict) and "output" in value else text
