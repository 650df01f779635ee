"""Who of a data folder's gateways is alive: each holds a lock file; a dead one's can be taken.

**Rules**
1. An owner lives exactly as long as its process holds its file's lock; the kernel lets go at death,
   so no clock and no heartbeat decides.
2. Who starts removes the files of the dead.
3. Where there is no folder (a ledger in memory) there is one owner, who lives.
"""

import fcntl
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sidecar.errors import StoreUnavailable


class Owners:
    """The lock files beside a ledger: ``path`` and what each is called behind it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._held: dict[str, int] = {}

    def hold(self, owner: str) -> None:
        """Be this owner until ``close`` or death; files of dead owners are removed."""
        if self._path is None:
            return
        with _translating(self._file(owner)), self._alone():
            while owner not in self._held:
                descriptor = os.open(self._file(owner), os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if self._is_named(owner, descriptor):
                    self._held[owner] = descriptor
                else:  # another took it for a dead one's between open and lock
                    os.close(descriptor)
        for other in self._named():
            self.lives(other)

    def dead(self) -> list[str]:
        """The owners whose files are there and whose processes are not. Raises StoreUnavailable."""
        if self._path is None:
            return []
        with _translating(self._path), self._alone():
            return [owner for owner in self._named() if not self._runs(owner)]

    def lives(self, owner: str) -> bool:
        """Whether the owner's process runs; a dead owner's file is removed."""
        return self._runs(owner, remove=True)

    def close(self, *, remove: bool = True) -> None:
        """Let go. Safe to call twice. What is not removed tells the next of this death."""
        while self._held:
            owner, descriptor = self._held.popitem()
            if remove:
                self._file(owner).unlink(missing_ok=True)
            os.close(descriptor)

    def _named(self) -> list[str]:
        if self._path is None:
            return []
        prefix = self._file("").name
        files = self._path.parent.glob(f"{glob.escape(prefix)}*")
        return [file.name.removeprefix(prefix) for file in files]

    def _runs(self, owner: str, *, remove: bool = False) -> bool:
        if self._path is None or owner in self._held:
            return True
        try:
            with _translating(self._file(owner)):
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
            if remove:
                self._file(owner).unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While nobody else of the folder makes a file: one that is free is no newborn's."""
        assert self._path is not None
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _is_named(self, owner: str, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._file(owner).stat())
        except FileNotFoundError:
            return False

    def _file(self, owner: str) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}-owner-{owner}")


@contextmanager
def _translating(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"the store cannot be used: {error}",
            where=str(path),
            do="Check that the folder exists, is writable and has free space.",
        ) from error
