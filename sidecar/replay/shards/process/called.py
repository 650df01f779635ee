"""Callable agents of a worker: imported once, called for each episode.

Rules
1. ``module:callable`` is found from the folder the replay was started in, as ``python -c`` would.
2. Whatever the agent does is data (``AgentExit``): it raises, it answers what is no JSON, it
   prints, it takes too long. Only code that never returns to the interpreter cannot be stopped.
3. What it prints is kept from our stdout; of it the tail is kept.
"""

import contextlib
import importlib
import io
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from sidecar.errors import SidecarError
from sidecar.replay.direct import CallTool, EndedAgent
from sidecar.replay.record import AgentExit

_PRINTED_CHARS_KEPT = 8 * 1024
_FRAMES = 8


class _Late(BaseException):
    """The deadline of an episode, raised wherever its agent is."""


def load(reference: str, folder: str) -> Callable[..., Any]:
    """The callable of ``module:attribute``. Raises SidecarError."""
    module_name, _, attribute = reference.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        target: Any = importlib.import_module(module_name)
        for name in attribute.split("."):
            target = getattr(target, name)
    except Exception as error:
        raise SidecarError(
            f"it cannot be imported: {type(error).__name__}: {error}",
            where=f"py:{reference}",
            do="Name a module that can be imported from this folder.",
        ) from None
    if not callable(target):
        raise SidecarError("it cannot be called", where=f"py:{reference}")
    return target  # type: ignore[no-any-return]


def ended(agent: Callable[..., Any], deadline_s: float) -> EndedAgent:
    """The agent, with everything it may do told as how it ended."""

    def run(request: dict[str, Any], call: CallTool) -> AgentExit:
        printed = _Tail()
        try:
            with (
                _deadline(deadline_s),
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
            ):
                answered = agent(request, call)
        except _Late:
            return AgentExit(
                ending="timed_out", detail="stopped at its deadline", stderr_tail=printed.text()
            )
        except (Exception, SystemExit) as error:
            return AgentExit(
                ending="failed",
                detail=f"{type(error).__name__}: {error}"[:500],
                stderr_tail=(printed.text() + _frames(error))[-_PRINTED_CHARS_KEPT:],
            )
        return _answered(answered, printed.text())

    return run


def _answered(value: Any, printed: str) -> AgentExit:
    if isinstance(value, dict) and "output" in value:
        value = value["output"]
    try:
        value = msgspec.json.decode(msgspec.json.encode(value))  # a value of its own, and JSON
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        detail = f"it answered what is no JSON: {error}"
        return AgentExit(ending="failed", detail=detail, stderr_tail=printed)
    return AgentExit(ending="completed", exit_code=0, output=value, stderr_tail=printed)


def _frames(error: BaseException) -> str:
    """Where it failed: the last frames, by file name and line, so that a folder is told nobody."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    lines = [f"  {one.filename.rpartition('/')[2]}:{one.lineno} in {one.name}" for one in frames]
    return "\n".join(("", *lines, f"{type(error).__name__}: {error}", ""))


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Raise _Late in the block after so many seconds; only a main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def late(number: int, frame: object) -> None:  # noqa: ARG001 (as signals call it)
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)  # again, should the agent swallow it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Tail(io.TextIOBase):
    """The last of what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._chars = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Take text in."""
        self._parts.append(text)
        self._chars += len(text)
        if self._chars > 4 * _PRINTED_CHARS_KEPT:
            self._parts = [self.text()]
            self._chars = len(self._parts[0])
        return len(text)

    def text(self) -> str:
        """What was written last."""
        return "".join(self._parts)[-_PRINTED_CHARS_KEPT:]
