"""Temporary files and folders that an own file makes.

**Rules**
1. Their names are dice, and come back from the tape as they were.
2. Played, a folder is not made; a file is, under another name, so that it can be written and read
   as long as it is open.
"""

import os
import tempfile
import weakref
from typing import Any

from sidecar.capture.seams.ambient import ask
from sidecar.capture.seams.fs_place import path_back, path_told
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.wrapping import Wrapping


def stand_in(wrapping: Wrapping) -> None:
    """Stand in for what ``tempfile`` makes under a name."""
    wrapping.function(tempfile, "mkdtemp", _folder)
    wrapping.function(tempfile, "mkstemp", _descriptor)
    wrapping.function(tempfile, "NamedTemporaryFile", _file)
    wrapping.method(tempfile.TemporaryDirectory, "__init__", _directory)
    wrapping.method(tempfile.TemporaryDirectory, "cleanup", _cleanup)
    wrapping.method(tempfile.TemporaryDirectory, "__exit__", _cleanup)


def _named(session: Session, name: str, make: Any) -> Any:
    """A name that was made, or played."""
    return ask(
        session,
        "fs",
        name,
        make,
        tell=lambda path: path_told(session, path),
        back=lambda out: path_back(session, out),
        kind="tool_call",
    )


def _folder(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    return _named(session, "tempfile.mkdtemp", lambda: real(*args, **kwargs))


def _descriptor(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    made: list[int] = []

    def make() -> Any:
        number, path = real(*args, **kwargs)
        made.append(number)
        return path

    path = _named(session, "tempfile.mkstemp", make)
    if made:
        return made[0], path
    with tempfile.TemporaryFile() as scratch:
        return os.dup(scratch.fileno()), path


def _file(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    made: list[Any] = []

    def make() -> Any:
        file = real(*args, **kwargs)
        made.append(file)
        return file.name

    name = _named(session, "tempfile.NamedTemporaryFile", make)
    if made:
        return made[0]
    kept = {key: one for key, one in kwargs.items() if key not in ("dir", "delete")}
    file = real(*args[:6], **kept)
    file.name = name
    return file


def _directory(session: Session, real: Any, args: Any, kwargs: Any) -> None:
    me = args[0]
    made: list[Any] = []

    def make() -> Any:
        real(*args, **kwargs)
        made.append(me)
        return me.name

    name = _named(session, "tempfile.TemporaryDirectory", make)
    if not made:
        me.name = name
        me._ignore_cleanup_errors, me._delete = True, False
        me._finalizer = weakref.finalize(me, int)
        me._played = True


def _cleanup(session: Session, real: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    me = args[0]
    if not getattr(me, "_played", False):
        return real(*args, **kwargs)
    me._finalizer.detach()
    return None
