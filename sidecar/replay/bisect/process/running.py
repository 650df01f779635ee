"""One process, from start to end: its deadline, its output, and nothing left of it.

**Rules**
1. It leads a session of its own; when it ends, or its deadline comes, its group is killed, and
   whatever carries its mark (``leftover``).
2. Of what it says only the tail is kept; it may say as much as it likes.
"""

import contextlib
import os
import selectors
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from sidecar import clock
from sidecar.replay.bisect.answer import Ran
from sidecar.replay.leftover.process import MARK, end_group, end_marked

TAIL_BYTES = 256 * 1024
_DRAIN_SECONDS = 2.0


class Launch(Struct, frozen=True, kw_only=True):
    """One process to start; ``mark`` is that of all its descendants.

    ``stdout``: a new file for it alone.
    """

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    timeout_seconds: float
    mark: str
    stdout: Path | None = None


def run(launch: Launch) -> Ran:
    """Run it to its end. stdout and stderr are one, unless it has a file for the former."""
    begun = clock.monotonic_ns()
    reader, writer = os.pipe()
    try:
        with os.fdopen(writer, "wb", 0) as told, _stdout(launch, writer) as stdout:
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                [*launch.argv],
                cwd=launch.folder,
                env={**launch.environment, MARK: launch.mark},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=told,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        os.close(reader)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Ran(not_started=f"{launch.argv[0]} cannot be started: {reason}")
    try:
        tail, timed_out = _listen(process, reader, launch.timeout_seconds)
    finally:
        _end(process, launch.mark)
    return Ran(
        code=process.returncode,
        tail=tail.decode("utf-8", "replace"),
        timed_out=timed_out,
        seconds=(clock.monotonic_ns() - begun) / 1e9,
    )


@contextlib.contextmanager
def _stdout(launch: Launch, shared: int) -> Iterator[int]:
    if launch.stdout is None:
        yield shared
        return
    with launch.stdout.open("xb", 0) as file:
        yield file.fileno()


def _listen(process: "subprocess.Popen[bytes]", reader: int, timeout: float) -> tuple[bytes, bool]:
    """Its last words, and whether its deadline came; it is waited for, its pipe only shortly."""
    tail = bytearray()
    deadline = clock.monotonic_ns() + int(timeout * 1e9)
    os.set_blocking(reader, False)
    with os.fdopen(reader, "rb", 0) as pipe, selectors.DefaultSelector() as waiting:
        waiting.register(pipe, selectors.EVENT_READ)
        ended_ns = 0
        while True:
            now = clock.monotonic_ns()
            if now > deadline:
                return bytes(tail), process.poll() is None
            if ended_ns and now - ended_ns > _DRAIN_SECONDS * 1e9:
                return bytes(tail), False
            waiting.select(timeout=0.05)
            data = pipe.read(65536)
            if data:
                tail += data
                del tail[:-TAIL_BYTES]
            elif data == b"":
                break
            if not ended_ns and process.poll() is not None:
                ended_ns = clock.monotonic_ns()
                end_group(process.pid)  # what it left behind holds the pipe
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, (deadline - clock.monotonic_ns()) / 1e9))
    return bytes(tail), process.returncode is None


def _end(process: "subprocess.Popen[bytes]", mark: str) -> None:
    end_group(process.pid)
    end_marked(mark)
    process.wait()
