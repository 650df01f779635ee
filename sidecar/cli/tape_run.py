"""An agent's command run as a child that records or replays, and what it told in the end.

Rules
1. The agent keeps the terminal: its stdout and stderr pass through. Where the result is JSON, its
   stdout goes to stderr.
2. Signals meant for us are its; an interrupt from the terminal reaches it by itself.
3. How it ended is told apart: it returned, a signal ended it, or it could not be started.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from sidecar.capture.order import Order
from sidecar.capture.process import child_environment
from sidecar.errors import SidecarError

_PASSED: Final = ("SIGTERM", "SIGHUP", "SIGQUIT")
F = Callable[..., Any]


class Ended(Struct, frozen=True, kw_only=True):
    """How a child ended. ``code``: what it returned; ``signal``: the name of what ended it."""

    code: int | None
    signal: str | None
    told: dict[str, Any] | None

    @property
    def fault(self) -> str | None:
        """Why the recorder could not do what it was told to."""
        fault = (self.told or {}).get("fault")
        return None if fault is None else str(fault)


def running(function: F) -> F:
    """Add what ``record`` and ``replay`` share: the command, and whose files are the agent's."""
    function = click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")(
        function
    )
    return click.option(
        "--root",
        "roots",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of the agent's own files [default: here, or the script's folder].",
    )(function)


def run(command: Sequence[str], order: Order, *, quiet: bool) -> Ended:
    """Run a command to its end under an order. Raises SidecarError where it cannot be started."""
    if not command:
        raise SidecarError("there is no command to run", do="Give it after --.")
    with tempfile.TemporaryDirectory(prefix="sidecar-") as folder:
        report = Path(folder) / "report.json"
        told = msgspec.structs.replace(
            order, report=str(report), python=os.environ.get("PYTHONPATH")
        )
        code = _run(command, child_environment(told, os.environ), quiet=quiet)
        said = _said(report)
    if code < 0:
        return Ended(code=None, signal=signal.Signals(-code).name, told=said)
    return Ended(code=code, signal=None, told=said)


def _run(command: Sequence[str], environment: dict[str, str], *, quiet: bool) -> int:
    sys.stdout.flush()
    try:
        child = subprocess.Popen(
            list(command), env=environment, stdout=sys.stderr.fileno() if quiet else None
        )
    except OSError as error:
        raise SidecarError(
            f"the command cannot be started: {error.strerror}", where=command[0]
        ) from None
    with _passing(child):
        return child.wait()


@contextmanager
def _passing(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Pass signals on to a child while it runs."""

    def on(number: int, _: Any) -> None:
        if child.poll() is None:
            child.send_signal(number)

    before: dict[int, Any] = {}
    for name in _PASSED:
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, on)
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _said(report: Path) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(report.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return None
