"""The seam TOOL, programs: what the agent's own code runs by ``subprocess`` and waits for.

**Rules**
1. ``run``, ``check_output``, ``check_call``, ``call``, ``getoutput``, ``getstatusoutput`` and
   ``os.system`` are a tool called ``subprocess``: the command, the folder and what it is fed are
   the arguments; its exit and what it wrote, as far as that was caught, are the result.
2. The environment it gets is not told. The interpreter's own path is ``{python}``, and a folder is
   told from the working directory, so that a tape is one on every machine. What follows an option
   with a secret's name stands below the key ``secret``, so that redaction hides it.
3. ``Popen`` itself, and asyncio's programs, are no seam: they pass unseen when recorded, and a
   strict replay ends there.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sidecar.capture.seams.ambient import failed
from sidecar.capture.seams.forms import described
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.tools import answer, done, entered
from sidecar.tape.redaction import names_secret

NAME: Final = "subprocess"


def install(session: Session) -> None:
    """Patch what runs a program to its end."""
    run = subprocess.run

    def run_(*popenargs: Any, **kwargs: Any) -> Any:
        seen = _asked()
        if seen is None:
            return run(*popenargs, **kwargs)
        check = kwargs.pop("check", False)
        ran = _ran(seen, popenargs, kwargs, lambda: run(*popenargs, **kwargs))
        if check:
            ran.check_returncode()
        return ran

    patch(session, subprocess, "run", run_)
    patch(session, subprocess, "call", _code(subprocess.call, run))
    patch(session, subprocess, "check_call", _code(subprocess.check_call, run, check=True))
    patch(session, os, "system", _system(os.system))


def _code(real: Any, run: Any, *, check: bool = False) -> Callable[..., int]:
    """``call`` and ``check_call``: the exit code."""

    def call(*popenargs: Any, **kwargs: Any) -> int:
        seen = _asked()
        if seen is None:
            code: int = real(*popenargs, **kwargs)
            return code
        ran = _ran(seen, popenargs, kwargs, lambda: run(*popenargs, **kwargs))
        if check and ran.returncode:
            raise subprocess.CalledProcessError(ran.returncode, ran.args)
        return int(ran.returncode)

    return call


def _system(real: Any) -> Callable[[Any], int]:
    def system(command: Any) -> int:
        seen = _asked()
        if seen is None:
            status: int = real(command)
            return status

        def run() -> Any:
            return subprocess.CompletedProcess(command, real(command))

        return int(_ran(seen, (command,), {"shell": True}, run).returncode)

    return system


def _asked() -> Session | None:
    """The session, where the agent's own code asks, through the standard library at most."""
    session = current()
    if session is None:
        return None
    return session if session.sites.is_asked_by_own(sys._getframe(2)) else None


def _ran(session: Session, args: Any, kwargs: Any, real: Callable[[], Any]) -> Any:
    """A program run to its end, or what the tape says of it."""
    command = _command(args, kwargs)
    x = entered(session, NAME, _given(command, kwargs))
    if x.played:
        found = answer(x)
        return subprocess.CompletedProcess(
            command, found["returncode"], found.get("stdout"), found.get("stderr")
        )
    try:
        with x.inside():
            ran = real()
    except BaseException as error:
        failed(x, error)
        raise
    told = {"returncode": ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr}
    done(x, {key: one for key, one in told.items() if one is not None})
    return ran


def _command(args: Any, kwargs: Any) -> Any:
    return args[0] if args else kwargs.get("args")


def _given(command: Any, kwargs: Any) -> dict[str, Any]:
    words = [command] if isinstance(command, str | bytes | os.PathLike) else [*(command or ())]
    found: dict[str, Any] = {"command": _words(words)}
    if kwargs.get("shell"):
        found["shell"] = True
    if kwargs.get("cwd") is not None:
        found["cwd"] = _place(os.fspath(kwargs["cwd"]))
    if kwargs.get("input") is not None:
        found["input"] = described(kwargs["input"])
    return found


def _words(words: list[Any]) -> list[Any]:
    told, option = [], False
    for one in words:
        said = described(_word(one))
        is_option = isinstance(said, str) and said.startswith("-")
        told.append({"secret": said} if option and not is_option else said)
        option = is_option and names_secret(said)
    return told


def _word(word: Any) -> Any:
    text = os.fspath(word) if isinstance(word, os.PathLike) else word
    return "{python}" if text == sys.executable else text


def _place(folder: Any) -> str:
    text = os.fsdecode(folder)
    try:
        return Path(os.path.relpath(text)).as_posix()
    except ValueError:  # on another drive
        return text
