"""A world: everything mutable of one twin, and what expressions may ask of it.

Rules
1. Tables, flags, queues, counters, idempotency keys, call numbers, calls held back, standing
   faults, the clock and its timers all change through the journal.
2. Rows are read through functions (``row``, ``rows``, ``count``, ``sum``): an expression is never
   handed the whole world.
3. ``digest`` is over all of it, in order: equal before and after an episode, or something leaked.
   A row's own digest is kept until somebody was handed the row, and so could have edited it.
4. What ``rand`` gives depends on the seed, the stream's name and how often it was asked.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from processors.model.twin import Change
from sidecar.evaluate.matching import matches, same
from sidecar.twins import decimals
from sidecar.twins.chance import uniform
from sidecar.twins.declaration import Declaration
from sidecar.twins.journal import Cells, Journal
from sidecar.twins.names import FLAGS
from sidecar.twins.names import FUNCTIONS as FUNCTIONS
from sidecar.twins.timeline import Timeline, start_ns


class NoSuchEntity(LookupError):
    """An expression or a scenario names a table the twin does not declare."""


class World:
    """One twin's state. ``tables`` is entity -> key -> row, ``queues`` queue -> number -> message.

    Worlds of several twins have one ``journal`` and one ``timeline``. ``seed`` is an argument of
    the episode that runs in it, not state.
    """

    def __init__(
        self,
        declaration: Declaration,
        journal: Journal | None = None,
        timeline: Timeline | None = None,
    ) -> None:
        self._declaration = declaration
        self.journal = journal or Journal()
        self.timeline = timeline or Timeline(self.journal, start_ns(declaration.clock.start))
        self.seed = 0
        self.tables: dict[str, Cells] = {
            name: {key_text(row[entity.key]): row for row in entity.rows}
            for name, entity in declaration.entities.items()
        }
        self._handed: dict[str, set[str]] = {name: set() for name in self.tables}
        self._digests: dict[str, dict[str, tuple[Any, bytes]]] = {name: {} for name in self.tables}
        self.flags: Cells = dict(declaration.flags)
        self.counters: Cells = {}
        self.keys: Cells = {}
        self.calls: Cells = {}
        self.queues: dict[str, Cells] = {name: {} for name in declaration.queues}
        self.held: Cells = {}
        self.standing: Cells = {}
        self.answers: Cells = {}
        self._names = {id(cells): name for name, cells in self.tables.items()}
        self._names[id(self.flags)] = FLAGS
        self.functions: Mapping[str, Callable[..., Any]] = {
            "row": self.row,
            "rows": self.rows,
            "count": self.count,
            "sum": self.sum,
            "waiting": self.waiting,
            "add": decimals.add,
            "subtract": decimals.subtract,
            "compare": decimals.compare,
            "next_id": self.next_id,
            "rand": self.rand,
            "text": decimals.text,
        }

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self.timeline.now_ns

    def set_time(self, at_ns: int) -> None:
        """Put the virtual clock somewhere."""
        self.timeline.set_time(at_ns)

    def table(self, entity: str) -> Cells:
        """The rows of an entity by key. Raises NoSuchEntity."""
        table = self._table(entity)
        self._digests[entity].clear()
        return table

    def _table(self, entity: str) -> Cells:
        try:
            return self.tables[entity]
        except KeyError:
            known = ", ".join(self.tables) or "none"
            raise NoSuchEntity(f"there is no entity {entity!r}; known: {known}") from None

    def row(self, entity: str, key: Any) -> Any:
        """The row, or None."""
        name = key_text(key)
        row = self._table(entity).get(name)
        self._handed[entity].add(name)
        return row

    def rows(self, entity: str, wanted: Mapping[str, Any] | None = None) -> list[Any]:
        """The rows with these values, in order of insertion."""
        found = [
            (name, row)
            for name, row in self._table(entity).items()
            if not wanted or matches(row, wanted)
        ]
        self._handed[entity].update(name for name, _ in found)
        return [row for _, row in found]

    def count(self, entity: str, wanted: Mapping[str, Any] | None = None) -> int:
        """How many such rows there are."""
        return len(self.rows(entity, wanted))

    def sum(self, entity: str, field: str, wanted: Mapping[str, Any] | None = None) -> Any:
        """The exact sum of a field over such rows; 0 when there are none."""
        total: Any = 0
        for row in self.rows(entity, wanted):
            total = decimals.add(total, row.get(field, 0))
        return total

    def next_id(self, prefix: str) -> str:
        """``prefix-1``, ``prefix-2``, …"""
        number = self.counters.get(prefix, 0) + 1
        self.journal.put(self.counters, prefix, number)
        return f"{prefix}-{number}"

    def rand(self, stream: str) -> float:
        """The next number in [0, 1) of a stream."""
        name = f"rand|{stream}"
        number = self.counters.get(name, 0) + 1
        self.journal.put(self.counters, name, number)
        return uniform(self.seed, name, str(number))

    def queue(self, name: str) -> Cells:
        """The messages of a queue by number. Raises NoSuchEntity."""
        try:
            return self.queues[name]
        except KeyError:
            known = ", ".join(self.queues) or "none"
            raise NoSuchEntity(f"there is no queue {name!r}; known: {known}") from None

    def waiting(self, name: str) -> list[Any]:
        """The messages of a queue, oldest first. Raises NoSuchEntity."""
        return list(self.queue(name).values())

    def next_call(self, tool: str) -> int:
        """The number of this call of ``tool``, from 1."""
        number: int = self.calls.get(tool, 0) + 1
        self.journal.put(self.calls, tool, number)
        return number

    def put_row(self, entity: str, row: dict[str, Any]) -> None:
        """Insert the row, or replace the one with its key."""
        self.journal.put(self._table(entity), self.key_of(entity, row), row)

    def key_of(self, entity: str, row: Mapping[str, Any]) -> str:
        """The text that names a row. Raises KeyError when the row has no key."""
        return key_text(row[self._declaration.entities[entity].key])

    def changes(self, mark: int) -> tuple[Change, ...]:
        """What rows and flags differ from how they stood at ``mark``, in order of first touch."""
        names = self._names
        first: dict[tuple[str, str], Any] = {}
        for entry in self.journal.since(mark):
            name = names.get(id(entry.cells))
            if name is not None and (name, entry.key) not in first:
                first[name, entry.key] = None if entry.was_absent else entry.before
        changed = []
        for (name, key), before in first.items():
            cells = self.flags if name == FLAGS else self.tables[name]
            after = cells.get(key)
            if name != FLAGS:
                self._handed[name].add(key)
            if not same(before, after):
                changed.append(Change(entity=name, key=key, before=before, after=after))
        return tuple(changed)

    def digest(self) -> str:
        """``sha256:<hex>`` over everything, order included."""
        tables = [(name, self._rows_digest(name, table)) for name, table in self.tables.items()]
        cells = [
            *(self.flags, self.counters, self.keys, self.calls, self.held, self.standing),
            *(self.answers, *self.timeline.cells, *self.queues.values()),
        ]
        # Cells have an order; the members of a value have none (CEL makes them in any).
        whole = [tables, [list(some.items()) for some in cells], self.journal.mark()]
        encoded = msgspec.json.encode(whole, order="sorted")
        return "sha256:" + hashlib.sha256(encoded).hexdigest()

    def _rows_digest(self, entity: str, table: Cells) -> str:
        """Over keys and rows in order."""
        known, handed = self._digests[entity], self._handed[entity]
        for name in handed:
            known.pop(name, None)
        handed.clear()
        whole = hashlib.sha256()
        for name, row in table.items():
            kept = known.get(name)
            if kept is None or kept[0] is not row:
                encoded = msgspec.json.encode([name, row], order="sorted")
                kept = known[name] = row, hashlib.sha256(encoded).digest()
            whole.update(kept[1])
        return whole.hexdigest()


def key_text(key: Any) -> str:
    """How a key is written: text as it is, anything else as JSON."""
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()
