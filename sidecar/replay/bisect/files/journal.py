"""The runs of a bisection, on disk as they are made, so that a killed one goes on where it was.

**Rules**
1. One line a run, appended and forced to disk before the next run begins; a line that a crash cut
   off is not there.
2. Whoever bisects holds a lock on the file, which the kernel lets go at its death.
3. The first line says which question it is, and in which folder its worktrees are.
4. A bisection that came to a conclusion leaves no file.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sidecar.errors import SidecarError

_VERSION = 1


class Journal:
    """The open journal of one bisection."""

    def __init__(self, path: Path, descriptor: int, entries: list[dict[str, Any]]) -> None:
        self._path = path
        self._descriptor = descriptor
        self.entries = entries
        """The runs so far, oldest first."""

    def add(self, entry: dict[str, Any]) -> None:
        """Append one run. Raises SidecarError where it cannot be written."""
        _append(self._descriptor, entry, self._path)
        self.entries.append(entry)

    def discard(self) -> None:
        """The bisection is over."""
        with contextlib.suppress(OSError):  # others may have theirs beside it
            self._path.unlink()
            self._path.parent.rmdir()


@contextlib.contextmanager
def held(folder: Path, key: str, trees: Path, *, fresh: bool) -> Iterator[Journal]:
    """The journal of a question, held for as long as the block; ``fresh`` forgets earlier runs.

    ``trees``: the folder of this bisection's worktrees. Raises SidecarError where another process
    holds it, or where it cannot be written.
    """
    path = folder / f"{key}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        if not _lock(descriptor):
            raise SidecarError(
                "the same bisection is running already",
                where=str(path),
                do="Wait for it, or stop it first.",
            )
        entries, end = ([], 0) if fresh else _entries(path, key)
        os.truncate(descriptor, end)
        os.lseek(descriptor, 0, os.SEEK_END)
        _append(descriptor, {"version": _VERSION, "key": key, "trees": str(trees)}, path)
        yield Journal(path, descriptor, entries)
    finally:
        os.close(descriptor)


def abandoned(folder: Path) -> list[Path]:
    """Folders of worktrees that bisections left which are no longer running."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if _lock(descriptor):
                trees = [one["trees"] for one in _lines(path)[0] if "trees" in one]
                found += [Path(one) for one in trees if isinstance(one, str)]
        finally:
            os.close(descriptor)
    return found


def _entries(path: Path, key: str) -> tuple[list[dict[str, Any]], int]:
    lines, end = _lines(path)
    if not lines or (lines[0].get("version"), lines[0].get("key")) != (_VERSION, key):
        return [], 0
    return [one for one in lines if "trees" not in one], end


def _lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a file, and where they end."""
    data = path.read_bytes()
    found, end = [], 0
    for line in data.splitlines(keepends=True):
        try:
            value = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            break
        if not line.endswith(b"\n"):
            break
        found.append(value)
        end += len(line)
    return found, end


def _append(descriptor: int, entry: dict[str, Any], path: Path) -> None:
    data = msgspec.json.encode(entry) + b"\n"
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    except OSError as error:
        raise _unwritable(path, error) from None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unwritable(path: Path, error: OSError) -> SidecarError:
    return SidecarError(
        f"what was found cannot be written down: {error.strerror}",
        where=str(path),
        do="Make room, or allow it, and start the same again.",
    )
