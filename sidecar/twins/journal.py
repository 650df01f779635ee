"""The undo journal: every change of a world, so that all of it can be taken back.

Rules
1. A world changes through ``put`` and ``drop`` alone; values once put are never edited in place.
2. ``rollback`` restores contents *and order*: after it nothing tells that anything ever happened.
3. A mark is a position; marks nest, and rolling back to one forgets the later ones.
4. The past can be looked at (``rewound``) without a copy: what was done since is undone, and done
   again afterwards; what is changed meanwhile did not happen.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

Cells = dict[str, Any]
_ABSENT: Any = object()


class Entry(Struct, frozen=True):
    """One change: the cell and what it held before; ``position`` only where a cell was dropped."""

    cells: Cells
    key: str
    before: Any
    position: int = -1

    @property
    def was_absent(self) -> bool:
        """Whether there was no such cell before."""
        return self.before is _ABSENT


class Journal:
    """Changes in order, newest last."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def mark(self) -> int:
        """The present position."""
        return len(self._entries)

    def put(self, cells: Cells, key: str, value: Any) -> None:
        """``cells[key] = value``, remembered."""
        self._entries.append(Entry(cells, key, cells.get(key, _ABSENT)))
        cells[key] = value

    def drop(self, cells: Cells, key: str) -> None:
        """``del cells[key]``, remembered with its place in the order."""
        position = next(index for index, name in enumerate(cells) if name == key)
        self._entries.append(Entry(cells, key, cells.pop(key), position))

    def since(self, mark: int) -> list[Entry]:
        """The changes after ``mark``, oldest first."""
        return self._entries[mark:]

    def rollback(self, mark: int) -> None:
        """Undo everything after ``mark``, newest first."""
        while len(self._entries) > mark:
            _undo(self._entries.pop())

    @contextmanager
    def rewound(self, mark: int) -> Iterator[None]:
        """The world as it was at ``mark``, for as long as the block runs."""
        undone = []
        while len(self._entries) > mark:
            entry = self._entries.pop()
            undone.append((entry, entry.cells.get(entry.key, _ABSENT)))
            _undo(entry)
        try:
            yield
        finally:
            self.rollback(mark)
            for entry, after in reversed(undone):
                if after is _ABSENT:
                    del entry.cells[entry.key]
                else:
                    entry.cells[entry.key] = after
                self._entries.append(entry)


def _undo(entry: Entry) -> None:
    if entry.position >= 0:
        _restore(entry)
    elif entry.was_absent:
        del entry.cells[entry.key]
    else:
        entry.cells[entry.key] = entry.before


def _restore(entry: Entry) -> None:
    items = list(entry.cells.items())
    items.insert(entry.position, (entry.key, entry.before))
    entry.cells.clear()
    entry.cells.update(items)
