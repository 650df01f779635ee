"""The demo's child processes: started, spoken to, and always ended.

Rules
1. Each service is the leader of its own process group; ending it ends all it started.
2. A service is up when it has said where it listens; one that dies or stays silent first is an
   error that shows its last words.
3. Ending is SIGINT, SIGTERM, SIGKILL, five seconds apart, and always a wait: no zombie is left.
4. A demo that is killed can end nobody: its guard, a process of its own, does it then.
"""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from sidecar.demo import guard
from sidecar.errors import SidecarError

START_SECONDS = 30.0
END_SECONDS = 5.0
_ENDING = (signal.SIGINT, signal.SIGTERM)


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs ``module`` with this interpreter."""
    return [sys.executable, "-m", module, *arguments]


class Service:
    """A child; its stderr goes to ``log``, and ``stdin`` is a file's content or nothing."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        stdin: bytes = b"",
    ) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as errors, tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            self._process = subprocess.Popen(
                command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def process_id(self) -> int:
        """The child's process id, which is its group's too."""
        return self._process.pid

    def wait_for(self, pattern: str, *, seconds: float = START_SECONDS) -> re.Match[str]:
        """The first stdout line's match of ``pattern``. Raises SidecarError when it does not
        come.
        """
        deadline = time.monotonic() + seconds
        for line in self._lines(deadline):
            if match := re.search(pattern, line):
                return match
        how = "ended" if self._process.poll() is not None else f"said nothing in {seconds:.0f} s"
        raise SidecarError(
            f"the demo's {self.name} {how} before it was ready: {self.last_words()}",
            where=str(self._log),
            do="Free the port or the folder it names, then run the demo again.",
        )

    def finish(self, *, seconds: float) -> tuple[int, str]:
        """Exit code and whole stdout of a child that ends by itself. Raises SidecarError if
        late.
        """
        try:
            output, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise SidecarError(
                f"the demo's {self.name} was not done after {seconds:.0f} s: {self.last_words()}",
                where=str(self._log),
            ) from None
        return self._process.returncode, output.decode("utf-8", "replace")

    def last_words(self) -> str:
        """The end of the child's stderr, one line."""
        text = self._log.read_text("utf-8", "replace").strip()
        return text.splitlines()[-1][:300] if text else "nothing on stderr"

    def alive(self) -> bool:
        """Whether the child runs."""
        return self._process.poll() is None

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the child ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self) -> None:
        """End the child and its group; safe to call twice."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if self.alive():
                self._signal(number)
                self.pause(END_SECONDS)
        self._signal(signal.SIGKILL)
        self.pause(END_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _lines(self, deadline: float) -> "Lines":
        assert self._process.stdout is not None
        return Lines(self._process.stdout, deadline)


class Lines:
    """Lines of a pipe until it closes or the deadline passes."""

    def __init__(self, pipe: IO[bytes], deadline: float) -> None:
        self._pipe, self._deadline = pipe, deadline
        self._left = b""

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        while b"\n" not in self._left:
            if not (chunk := self._chunk()):
                raise StopIteration
            self._left += chunk
        line, _, self._left = self._left.partition(b"\n")
        return line.decode("utf-8", "replace")

    def _chunk(self) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            if not selector.select(max(0.0, self._deadline - time.monotonic())):
                return b""
        return os.read(self._pipe.fileno(), 65536)


class Family:
    """All of the demo's children; leaving the block ends them, last started first."""

    def __init__(self) -> None:
        self._services: list[Service] = []
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Family":
        self._guard = subprocess.Popen(
            [sys.executable, "-I", guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        with _deaf():
            while self._services:
                service = self._services.pop()
                service.end()
                self._tell_guard(f"-{service.process_id}")
            if self._guard is not None and self._guard.stdin is not None:
                self._guard.stdin.close()
                self._guard.wait()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        stdin: bytes = b"",
    ) -> Service:
        """Start a child that ends with the family at the latest."""
        service = Service(name, command, log=log, environment=environment, stdin=stdin)
        self._services.append(service)
        self._tell_guard(f"+{service.process_id}")
        return service

    def _tell_guard(self, line: str) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(f"{line}\n".encode())
                self._guard.stdin.flush()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """A second Ctrl-C must not leave children behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
