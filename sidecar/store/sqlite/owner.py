"""Whose claims are whose: each running gateway holds a lock file; a dead one's can be taken.

**Rules**
1. An owner lives exactly as long as its process holds its file's lock; the kernel lets go at death,
   so no clock and no heartbeat decides.
2. Who starts removes the files of the dead.
3. A memory ledger dies with its process: it has one owner, who lives.
"""

import fcntl
import glob
import os
from pathlib import Path

from sidecar.errors import StoreUnavailable
from sidecar.store.sqlite.connection import translating


class Owners:
    """The lock files beside a ledger."""

    def __init__(self, path: Path | str) -> None:
        self._path = None if path == ":memory:" else Path(path)
        self._held: dict[str, int] = {}

    def hold(self, owner: str) -> None:
        """Be this owner until ``close`` or death; files of dead owners are removed."""
        if self._path is None:
            return
        with translating(self._file(owner)):
            while owner not in self._held:
                descriptor = os.open(self._file(owner), os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self._is_named(owner, descriptor):
                    self._held[owner] = descriptor
                else:  # another took it for a dead one's between open and lock
                    os.close(descriptor)
            prefix = self._file("").name
            for file in self._path.parent.glob(f"{glob.escape(prefix)}*"):
                self.lives(file.name.removeprefix(prefix))

    def lives(self, owner: str) -> bool:
        """Whether the owner's process runs; a dead owner's file is removed."""
        if self._path is None or owner in self._held:
            return True
        try:
            with translating(self._file(owner)):
                descriptor = os.open(self._file(owner), os.O_RDWR)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return False
            raise  # nobody is declared dead because a file could not be opened
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            self._file(owner).unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Let go. Safe to call twice."""
        while self._held:
            owner, descriptor = self._held.popitem()
            self._file(owner).unlink(missing_ok=True)
            os.close(descriptor)

    def _is_named(self, owner: str, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._file(owner).stat())
        except FileNotFoundError:
            return False

    def _file(self, owner: str) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}-owner-{owner}")
