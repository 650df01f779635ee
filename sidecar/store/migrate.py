"""Numbered migrations: which of them a store still needs, and which programs may use it after.

**Rules**
1. A migration is a file ``NNNN_name.sql``; numbers run from 1 without a gap. A released one is
   followed by another, never edited.
2. Migrations are additive, so that the release before runs on the new schema while others are
   still being replaced. One that is not says so in its first line: ``-- oldest: N`` is the oldest
   schema number whose programs can use the store from then on.
3. A program uses a newer schema than it knows only while ``oldest`` allows it.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

_NAME = re.compile(r"([0-9]{4})_([a-z0-9_]+)\.sql")
_OLDEST = re.compile(r"-- oldest: ([0-9]+)\s*\n")


class Migration(Struct, frozen=True, kw_only=True):
    """One step of a schema; ``oldest`` is None where the release before can go on."""

    number: int
    name: str
    text: str
    oldest: int | None = None


class Applied(Struct, frozen=True, kw_only=True):
    """What a store has: its schema number, and the oldest number whose programs may use it."""

    number: int
    oldest: int


NOTHING = Applied(number=0, oldest=0)


class SchemaTooNew(Exception):
    """The store can be used by newer programs only."""

    def __init__(self, applied: Applied, known: int) -> None:
        self.applied = applied
        self.known = known
        super().__init__(
            f"the store has schema {applied.number}, which needs a program that knows at least"
            f" schema {applied.oldest}; this one knows {known}"
        )


def numbered(files: Iterable[tuple[str, str]]) -> tuple[Migration, ...]:
    """Names and texts as migrations, in order. Raises ValueError for a name or gap of ours."""
    made = [_migration(name, text) for name, text in files]
    found = tuple(sorted(made, key=lambda each: each.number))
    for place, each in enumerate(found, start=1):
        if each.number != place:
            raise ValueError(f"migration {each.name} has the number {each.number}, not {place}")
    return found


def pending(migrations: Sequence[Migration], applied: Applied) -> tuple[Migration, ...]:
    """What is still to be applied, in order. Raises SchemaTooNew."""
    if applied.number > len(migrations) and applied.oldest > len(migrations):
        raise SchemaTooNew(applied, len(migrations))
    return tuple(migrations[applied.number :])


def after(applied: Applied, migration: Migration) -> Applied:
    """What a store has once a migration is done."""
    oldest = applied.oldest if migration.oldest is None else migration.oldest
    return Applied(number=migration.number, oldest=max(applied.oldest, oldest))


def _migration(name: str, text: str) -> Migration:
    matched = _NAME.fullmatch(name)
    if matched is None:
        raise ValueError(f"a migration's name is NNNN_name.sql, not {name}")
    oldest = _OLDEST.match(text)
    return Migration(
        number=int(matched[1]),
        name=matched[2],
        text=text,
        oldest=int(oldest[1]) if oldest else None,
    )
