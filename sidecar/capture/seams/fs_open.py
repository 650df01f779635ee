"""``open`` from own files: the layers Python puts on a file, on one that is told or played.

**Rules**
1. Opening is one event of its own: it may fail, and it empties a file. What cannot be opened at all
   (a mode there is none of) is refused by the real ``open``, and no event.
2. An ``opener``, and a number that is not known to be a file's (``fs_numbers``), are left to the
   real ``open``.
"""

import io
import os
from typing import Any

from sidecar.capture.seams.ambient import ask
from sidecar.capture.seams.fs_file import TapedFile
from sidecar.capture.seams.fs_numbers import NUMBERS
from sidecar.capture.seams.fs_place import is_path, place
from sidecar.capture.seams.session import Session


def open_(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    """``open``, of which an own file is the caller."""
    given = _given(*args, **kwargs)
    if given is None:
        return real(*args, **kwargs)
    file, mode, buffering, encoding, errors, newline = given
    where = NUMBERS.pop(file) if isinstance(file, int) else place(session, file)
    raw_mode = _raw_mode(mode)
    found: list[io.FileIO] = []

    def opened() -> dict[str, Any]:
        real_file = io.FileIO(file, raw_mode)
        found.append(real_file)
        return _known(real_file)

    known = ask(
        session,
        "fs",
        "open",
        opened,
        given={"path": where, "mode": mode},
        tell=lambda known: known,
        back=lambda known: known,
        kind="tool_call",
    )
    if not found and isinstance(file, int):
        os.close(file)
    raw = TapedFile(
        session,
        session.own_frame(),
        file,
        where,
        raw_mode,
        found[0] if found else None,
        known,
    )
    try:
        return _layers(raw, mode, buffering, encoding, errors, newline)
    except BaseException:
        raw.close()
        raise


def _given(
    file: Any,
    mode: Any = "r",
    buffering: Any = -1,
    encoding: Any = None,
    errors: Any = None,
    newline: Any = None,
    closefd: Any = True,
    opener: Any = None,
) -> tuple[Any, ...] | None:
    """What ``open`` was given; None where the real one is to see to it."""
    if opener is not None or not closefd or not (is_path(file) or file in NUMBERS):
        return None
    if not isinstance(mode, str) or not isinstance(buffering, int) or not _is_mode(mode):
        return None
    binary = "b" in mode
    if binary and (encoding, errors, newline) != (None, None, None):
        return None
    if not binary and (buffering == 0 or newline not in (None, "", "\n", "\r", "\r\n")):
        return None
    return (
        file if isinstance(file, int) else os.fspath(file),
        mode,
        buffering,
        encoding,
        errors,
        newline,
    )


def _is_mode(mode: str) -> bool:
    letters = set(mode)
    return (
        len(letters) == len(mode)
        and letters <= set("rwaxbt+")
        and len(letters & set("rwax")) == 1
        and not {"b", "t"} <= letters
    )


def _raw_mode(mode: str) -> str:
    (how,) = set(mode) & set("rwax")
    return f"{how}b+" if "+" in mode else f"{how}b"


def _known(real: io.FileIO) -> dict[str, Any]:
    """What is known of a file that was opened."""
    seekable = real.seekable()
    size = os.fstat(real.fileno()).st_size
    return {"seekable": seekable, "at": real.tell() if seekable else 0, "size": size}


def _layers(
    raw: TapedFile, mode: str, buffering: int, encoding: Any, errors: Any, newline: Any
) -> Any:
    binary = "b" in mode
    if buffering == 0:
        return raw
    by_line = not binary and (buffering == 1 or (buffering < 0 and raw.isatty()))
    size = io.DEFAULT_BUFFER_SIZE if buffering < 0 or buffering == 1 else buffering
    buffer: Any
    if "+" in mode:
        buffer = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffer = io.BufferedWriter(raw, size)
    else:
        buffer = io.BufferedReader(raw, size)
    if binary:
        return buffer
    text = io.TextIOWrapper(buffer, encoding, errors, newline, by_line)
    text.mode = mode  # type: ignore[misc]
    return text
