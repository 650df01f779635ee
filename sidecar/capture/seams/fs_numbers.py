"""Files that an own file opens by number: ``os.open``, ``os.read``, ``os.close``.

**Rules**
1. Opening is one event, and each read of such a file one with what was read. ``open`` of its number
   is as ``open`` of its path.
2. Played, the number is that of an empty file nobody sees: what is written there is gone.
"""

import os
import tempfile
from typing import Any, Final

from sidecar.capture.seams.ambient import ask
from sidecar.capture.seams.fs_pieces import content, content_back
from sidecar.capture.seams.fs_place import is_path, place
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.wrapping import Wrapping

NUMBERS: Final[dict[int, Any]] = {}  # of files own code opened: where they are


def stand_in(wrapping: Wrapping) -> None:
    """Stand in for opening, reading and closing by number."""
    NUMBERS.clear()
    wrapping.function(os, "open", _open)
    wrapping.function(os, "read", _read)
    wrapping.function(os, "close", _close)


def _open(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    path, flags = (*args, kwargs.get("path"), kwargs.get("flags"))[:2]
    if not is_path(path) or kwargs.get("dir_fd") is not None or not isinstance(flags, int):
        return real(*args, **kwargs)
    made: list[int] = []

    def make() -> None:
        made.append(real(*args, **kwargs))

    where = place(session, path)
    given = {"path": where, "flags": flag_names(flags)}
    ask(session, "fs", "os.open", make, given=given, kind="tool_call")
    if not made:
        with tempfile.TemporaryFile() as scratch:
            made.append(os.dup(scratch.fileno()))
    NUMBERS[made[0]] = where
    return made[0]


def flag_names(flags: int) -> list[str]:
    """What a file is opened for, in words: their numbers are each system's own."""
    ways = {os.O_RDONLY: "O_RDONLY", os.O_WRONLY: "O_WRONLY", os.O_RDWR: "O_RDWR"}
    said = [ways.get(flags & (os.O_WRONLY | os.O_RDWR), "O_RDWR")]
    names = ("O_APPEND", "O_CREAT", "O_EXCL", "O_TRUNC", "O_DIRECTORY")
    return said + [name for name in names if flags & getattr(os, name, 0)]


def _read(session: Session, real: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    number, size = args
    if number not in NUMBERS:
        return real(number, size)
    return ask(
        session,
        "fs",
        "os.read",
        lambda: real(number, size),
        given={"path": NUMBERS[number], "size": size},
        tell=content,
        back=content_back,
        kind="tool_call",
    )


def _close(session: Session, real: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    for number in (*args, *kwargs.values()):
        NUMBERS.pop(number, None)
    return real(*args, **kwargs)
