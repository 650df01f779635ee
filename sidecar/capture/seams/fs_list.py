"""What ``os.scandir`` lists for an own file: entries that know what was listed.

**Rules**
1. A listing is read at once and is one event: names and kinds, in the order in which they came.
2. What an entry is asked beyond that (``stat``) is an event of its own.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any, Self

_KINDS = ("is_dir", "is_file", "is_symlink", "is_junction")


class Entry:
    """An ``os.DirEntry`` of a listing that is told or played."""

    __slots__ = ("_kinds", "_stat", "name", "path")

    def __init__(self, path: Any, name: Any, kinds: dict[str, bool], stat: Callable[..., Any]):
        self.name, self._kinds, self._stat = name, kinds, stat
        self.path = os.path.join(path, name)  # noqa: PTH118

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return self._kinds.get("is_dir" if follow_symlinks else "dir", False)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return self._kinds.get("is_file" if follow_symlinks else "file", False)

    def is_symlink(self) -> bool:
        """Whether it is a link."""
        return self._kinds.get("is_symlink", False)

    def is_junction(self) -> bool:
        """Whether it is a junction of Windows."""
        return self._kinds.get("is_junction", False)

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """Its state, asked for now."""
        return self._stat(self.path, follow_symlinks)

    def inode(self) -> int:
        """Its number, asked for now."""
        return int(self.stat(follow_symlinks=False).st_ino)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class Listing:
    """What ``os.scandir`` gives: an iterator that can be closed."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing comes any more."""
        self._entries = iter(())


def kinds_of(entry: os.DirEntry[Any]) -> dict[str, bool]:
    """What an entry says of itself; only what is so."""
    said = {
        "is_dir": entry.is_dir(),
        "dir": entry.is_dir(follow_symlinks=False),
        "is_file": entry.is_file(),
        "file": entry.is_file(follow_symlinks=False),
        "is_symlink": entry.is_symlink(),
        "is_junction": bool(getattr(entry, "is_junction", bool)()),
    }
    return {name: True for name, so in said.items() if so}
