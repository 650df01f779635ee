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
_NOWHERE: _Identity = (-1, -1)


class Presence:
    """The files of an open database; made right after it was opened. Calls come in turn."""

    def __init__(self, path: Path | str) -> None:
        self._path = None if str(path).startswith(MEMORY) else str(path)
        known = _identity(self._path) if self._path else None
        self._files = [(self._path, known or _NOWHERE)] if self._path else []

    def check(self) -> None:
        """Raises StoreUnavailable when a file is gone or another lies in its place."""
        if self._path is None:
            return
        for path, known in self._files:
            try:
                found = os.stat(path)  # noqa: PTH116 - three for each access: a Path costs as much
            except OSError:
                raise _missing(path, "was deleted") from None
            if found.st_ino != known[1] or found.st_dev != known[0]:
                raise _missing(path, "was replaced by another file")
        if len(self._files) <= len(_LOG_FILES):
            self._look_for_logs()

    def _look_for_logs(self) -> None:
        """They are made with the first access."""
        seen = {path for path, _ in self._files}
        for end in _LOG_FILES:
            path = f"{self._path}{end}"
            if path not in seen and (found := _identity(path)) is not None:
                self._files.append((path, found))


def _missing(path: str, what: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the store {what} while it was in use",
        where=path,
        do="Stop the sidecar, put the data folder back, and start again.",
    )


def _identity(path: str) -> _Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino
