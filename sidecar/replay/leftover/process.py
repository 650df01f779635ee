"""What an agent leaves running: found by a mark in its environment, and ended.

Rules
1. Each run's processes carry a mark of their own, which children inherit however they are started;
   leaving the group, the session or the parent changes nothing.
2. The system's process table (``/proc``) tells who carries it; where there is none, nothing is
   found.
3. A replay that is killed can end nobody: its guard, a process of its own, does it then. The guard
   imports nothing but the standard library, and needs no replay alive to do its work.

``python -I -S process.py MARK``, with stdin a pipe that only the replay holds, is the guard.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MARK = "AGENTTWIN_RUN"
_ROUNDS_MAX = 200
_GUARD_SECONDS = 10.0


def end_marked(mark: str) -> None:
    """Kill every process whose mark begins with ``mark``, until none is found."""
    for _ in range(_ROUNDS_MAX):  # one that forks between look and kill is found the next time
        found = list(_marked(f"{MARK}={mark}".encode()))
        if not found:
            return
        for process_id in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process_id, signal.SIGKILL)


def end_group(leader: int) -> None:
    """Kill the process group of a leader; one that is gone is no fault."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


@contextlib.contextmanager
def guarded(mark: str) -> Iterator[None]:
    """Nothing marked outlives the block, nor this process, however it ends."""
    guard = subprocess.Popen(  # noqa: S603 - our own interpreter and file
        [sys.executable, "-I", "-S", __file__, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={},  # a replay inside a replay: the guard carries nobody's mark
    )
    try:
        yield
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        try:
            guard.wait(_GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()


def _marked(prefix: bytes) -> Iterator[int]:
    try:
        folders = [one for one in Path("/proc").iterdir() if one.name.isdigit()]
    except OSError:
        return
    for folder in folders:
        if int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            # Ended ones that nobody has waited for have none left.
            environment = (folder / "environ").read_bytes()
            if any(one.startswith(prefix) for one in environment.split(b"\0")):
                yield int(folder.name)


def main() -> None:
    """Wait for the end of stdin, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])


if __name__ == "__main__":
    main()
