"""The process that asks one database: questions in and answers out over one socket, its stdin.

**Rules**
1. A server's words are decoded here and nowhere else: what they do to a decoder, for ever or to
   its memory, they do to this process, which its parent (``worker``) ends.
2. It gets no more memory than ``ADDRESS_SPACE_BYTES``, writes no file, and ends with its parent.
3. An answer is one line, within its bound, or the code of why it is not.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys

import msgspec

from sidecar.probe.sql.driver import look
from sidecar.probe.sql.messages import LINE_BYTES_MAX, Job, Told

ADDRESS_SPACE_BYTES = 512 * 1024**2  # some 50 MiB are in use
_PR_SET_PDEATHSIG = 1


def main(parent: int) -> None:
    """Answer until standard input ends. ``parent`` is the process id to end with."""
    _confine(parent)
    asyncio.run(_serve(socket.socket(fileno=sys.stdin.fileno())))


async def _serve(connection: socket.socket) -> None:
    incoming, outgoing = await asyncio.open_connection(sock=connection, limit=LINE_BYTES_MAX)
    outgoing.write(b"{}\n")
    tasks: set[asyncio.Task[None]] = set()
    while line := await incoming.readline():
        job = msgspec.convert(json.loads(line), Job)
        task = asyncio.get_running_loop().create_task(_answer(job, outgoing))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    os._exit(0)  # nobody waits for what is still asked


async def _answer(job: Job, outgoing: asyncio.StreamWriter) -> None:
    outgoing.write(_line(await look(job)) + b"\n")


def _line(told: Told) -> bytes:
    """An answer as JSON with every number exact, or why it cannot be that."""
    code = "answer_too_large"
    try:
        line = json.dumps(msgspec.structs.asdict(told)).encode()
    except (ValueError, RecursionError, MemoryError):
        line, code = b"", "answer_unreadable"
    if not line or len(line) >= LINE_BYTES_MAX:
        line = msgspec.json.encode(Told(identity=told.identity, code=code))
    return line


def _confine(parent: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        # A terminal's Ctrl-C and a supervisor's end reach every process: the parent drains first.
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, most in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_FSIZE, 0),
    ):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))
