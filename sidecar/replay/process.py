"""An agent as a process: JSON in on stdin, the answer out on the last line of stdout.

Rules
1. The process leads a group of its own; when it ends, or its deadline comes, the whole group is
   killed.
2. Output is bounded: more than ``OUTPUT_BYTES_MAX`` ends the agent; of stderr the tail is kept.
3. Whatever the agent does is data (``AgentExit``), never an exception here.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sidecar.replay.record import AgentExit, Ending

OUTPUT_BYTES_MAX = 4 * 1024**2
STDERR_BYTES_KEPT = 8 * 1024
_PIECE = 64 * 1024


class Launch(Struct, frozen=True, kw_only=True):
    """One process to start."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    deadline_s: float


async def run_agent(launch: Launch, request: dict[str, Any]) -> AgentExit:
    """Run one agent to its end. ``request`` goes to its stdin as one JSON object."""
    try:
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(launch.environment),
            cwd=Path(launch.folder),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        detail = f"{launch.argv[0]} cannot be started: {error}"
        return AgentExit(ending="not_started", detail=detail)
    try:
        return await _Running(process).to_end(msgspec.json.encode(request), launch.deadline_s)
    finally:
        _kill_group(process.pid)


class _Running:
    """A started process and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._output = bytearray()
        self._stderr = bytearray()
        self._too_large = asyncio.Event()

    async def to_end(self, request: bytes, deadline_s: float) -> AgentExit:
        readers = asyncio.gather(self._feed(request), self._read_output(), self._read_stderr())
        ended = asyncio.ensure_future(self._process.wait())
        stopped = asyncio.ensure_future(self._too_large.wait())
        done, _ = await asyncio.wait(
            {ended, stopped}, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED
        )
        stopped.cancel()
        # What the group still holds open would keep the pipes from ending.
        _kill_group(self._process.pid)
        await ended
        await readers
        return self._exit(in_time=bool(done), code=self._process.returncode)

    async def _feed(self, request: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(request + b"\n")
            await stdin.drain()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.close()
            await stdin.wait_closed()

    async def _read_output(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while piece := await stream.read(_PIECE):
            if len(self._output) <= OUTPUT_BYTES_MAX:
                self._output += piece
            if len(self._output) > OUTPUT_BYTES_MAX:
                self._too_large.set()

    async def _read_stderr(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while piece := await stream.read(_PIECE):
            self._stderr += piece
            del self._stderr[:-STDERR_BYTES_KEPT]

    def _exit(self, *, in_time: bool, code: int | None) -> AgentExit:
        ending: Ending = "completed" if code == 0 else "failed"
        detail = "" if code == 0 else f"exit status {code}"
        if self._too_large.is_set():
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


def answer(stdout: bytes) -> Any:
    """The agent's answer: ``output`` of a JSON object on the last line, else all of the text."""
    text = stdout[:OUTPUT_BYTES_MAX].decode("utf-8", "replace").strip()
    last = text.rsplit("\n", 1)[-1]
    try:
        value = msgspec.json.decode(last)
    except msgspec.DecodeError:
        return text
    return value["output"] if isinstance(value, dict) and "output" in value else text


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
