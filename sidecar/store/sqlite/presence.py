"""Whether a database's files are still those that its connection has open.

A connection goes on happily in a file that was deleted: what it commits is gone with the process.

**Rules**
1. A file is known by device and inode, not by its name; the write-ahead log and its index belong to
   the database.
2. What was deleted or replaced under a running process stays unusable for it: only a restart opens
   what lies there now.
3. A database in memory is always there.
"""

import os
from pathlib import Path

from sidecar.errors import StoreUnavailable
from sidecar.store.sqlite.connection import MEMORY

_LOG_FILES = ("-wal", "-shm")
_Identity = tuple[int, int]


class Presence:
    """The files of an open database; made right after it was opened. Calls come in turn."""

    def __init__(self, path: Path | str) -> None:
        self._path = None if str(path).startswith(MEMORY) else str(path)
        self._known = _identity(self._path) if self._path else None
        self._logs: dict[str, _Identity] = {}

    def check(self) -> None:
        """Raises StoreUnavailable when a file is gone or another lies in its place."""
        if self._path is None:
            return
        _compare(self._path, self._known)
        for end in _LOG_FILES:
            path = self._path + end
            known = self._logs.get(end)
            if known is not None:
                _compare(path, known)
            elif (found := _identity(path)) is not None:
                self._logs[end] = found  # it is made with the first access


def _compare(path: str, known: _Identity | None) -> None:
    found = _identity(path)
    if found is None or found != known:
        what = "was deleted" if found is None else "was replaced by another file"
        raise StoreUnavailable(
            f"the store {what} while it was in use",
            where=path,
            do="Stop the sidecar, put the data folder back, and start again.",
        )


def _identity(path: str) -> _Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - three for each commit: a Path costs as much again
    except OSError:
        return None
    return found.st_dev, found.st_ino
