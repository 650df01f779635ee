"""An agent's command run as a child that records or replays, and what it told in the end.

Rules
1. The agent keeps the terminal: its stdout and stderr pass through. Where the result is JSON, its
   stdout goes to stderr.
2. Signals meant for us are its; an interrupt from the terminal reaches it by itself.
3. How it ended is told apart: it returned, a signal ended it, or it could not be started.
"""

import functools
import os
import re
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

from sidecar.capture.order import BEGUN, Order
from sidecar.capture.process import child_environment
from sidecar.errors import SidecarError
from sidecar.tape.files import end_again

_PASSED: Final = ("SIGTERM", "SIGHUP", "SIGQUIT")
_CALLEE: Final = "sidecar.capture.seams.callee"
_END_SECONDS: Final = 5.0
_PLACE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_CALLABLE: Final = (
    (
        "--agent",
        "callable_",
        "Instead of a command: called as agent(llm, tools).",
    ),
    ("--llm", "llm", "The real model of --agent: called with the request."),
    ("--tools", "tools", "The real tools of --agent: a mapping, a module or an object."),
)
F = Callable[..., Any]


class Ended(Struct, frozen=True, kw_only=True):
    """How a child ended. ``code``: what it returned; ``signal``: the name of what ended it.

    ``late``: it was ended at its deadline. ``begun``: it, or what it started, had taken the tape.
    """

    code: int | None
    signal: str | None
    told: dict[str, Any] | None
    late: bool = False
    begun: bool = False

    @property
    def fault(self) -> str | None:
        """Why the recorder could not do what it was told to."""
        fault = (self.told or {}).get("fault")
        return None if fault is None else str(fault)


def running(function: F) -> F:
    """Add what ``record`` and ``replay`` share: the command, or a callable with its model and tools
    (together ``command``), and whose files are the agent's."""

    @functools.wraps(function)
    def run_(
        *,
        command: Sequence[str],
        callable_: str | None,
        llm: str | None,
        tools: str | None,
        **rest: Any,
    ) -> Any:
        if callable_ is None and (llm or tools):
            raise click.UsageError("--llm and --tools are of --agent py:module:callable")
        if callable_ is not None:
            if command:
                raise click.UsageError("an agent is a command or a callable, not both")
            command = callee_command(callable_, llm, tools)
        return function(command=command, **rest)

    made: F = run_
    for option, name, text in reversed(_CALLABLE):
        made = click.option(option, name, metavar="py:MODULE:NAME", callback=_callable, help=text)(
            made
        )
    made = click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")(
        made
    )
    return click.option(
        "--root",
        "roots",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of the agent's own files [default: here, or the script's folder].",
    )(made)


def callee_command(agent: str, llm: str | None = None, tools: str | None = None) -> list[str]:
    """The command that calls an agent (``module:callable``), given a model and tools."""
    return [sys.executable, "-P", "-m", _CALLEE, agent, llm or "", tools or ""]


def is_callee(command: Sequence[str]) -> bool:
    """Whether a command is one that ``callee_command`` gave."""
    return _CALLEE in command


def _callable(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,
    value: str | None,
) -> str | None:
    if value is None:
        return None
    kind, _, rest = value.partition(":")
    if kind != "py" or not _PLACE.fullmatch(rest):
        raise click.BadParameter("it is named as py:module:name", param=parameter)
    return rest


def argv_of(command: Sequence[str]) -> tuple[str, ...]:
    """A command as a tape tells it: a callable by its name, not by how it is called here."""
    if is_callee(command):
        return (f"py:{command[list(command).index(_CALLEE) + 1]}",)
    return tuple(command)


def run(
    command: Sequence[str],
    order: Order,
    *,
    quiet: bool,
    seconds: float | None = None,
    folder: Path | None = None,
) -> Ended:
    """Run a command to its end under an order, in a ``folder`` or here.

    After ``seconds`` it is ended. Raises SidecarError where it cannot be started.
    """
    if not command:
        raise SidecarError("there is no command to run", do="Give it after --.")
    with tempfile.TemporaryDirectory(prefix="sidecar-") as own:
        report = Path(own) / "report.json"
        told = msgspec.structs.replace(
            order, report=str(report), python=os.environ.get("PYTHONPATH"), asker=os.getpid()
        )
        code, late = _run(
            command, child_environment(told, os.environ), seconds, folder, quiet=quiet
        )
        said, begun = _said(report), Path(f"{report}{BEGUN}").exists()
    if code < 0:
        name = signal.Signals(-code).name
        return Ended(code=None, signal=name, told=said, late=late, begun=begun)
    if order.mode == "record" and said is not None and said.get("ended") is not None:
        said["fault"] = said.get("fault") or _settled(Path(order.tape), said["ended"], code)
    return Ended(code=code, signal=None, told=said, late=late, begun=begun)


def _settled(tape: Path, ended: str, code: int) -> str | None:
    """Let a tape end as the process did, which alone knows; why that could not be."""
    if (code == 0) == (ended == "ok"):
        return None
    try:
        end_again(tape, "error" if code else "ok", f"exit {code}" if code else None)
    except (SidecarError, OSError) as error:
        return error.text() if isinstance(error, SidecarError) else "its end cannot be written"
    return None


def _run(
    command: Sequence[str],
    environment: dict[str, str],
    seconds: float | None,
    folder: Path | None,
    *,
    quiet: bool,
) -> tuple[int, bool]:
    sys.stdout.flush()
    try:
        child = subprocess.Popen(
            list(command),
            env=environment,
            cwd=folder,
            stdout=sys.stderr.fileno() if quiet else None,
        )
    except OSError as error:
        raise SidecarError(
            f"the command cannot be started: {error.strerror}", where=command[0]
        ) from None
    with _passing(child):
        try:
            return child.wait(seconds), False
        except subprocess.TimeoutExpired:
            child.terminate()
        try:
            return child.wait(_END_SECONDS), True
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait(), True


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
