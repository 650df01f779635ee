"""Operators on the world: numbers at their bounds, rows missing, doubled, foreign, expired.

Rules
1. A changed or added row satisfies its schema, or it is not proposed.
2. A missing row that the errand needs makes the errand one to be refused; a changed value may
   change what is right, so that it is judged in full only beside a reference.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from sidecar.analyse.fuzz.base import Base
from sidecar.analyse.fuzz.mutations import (
    AnyMutation,
    FlagSet,
    Forbidden,
    RowAdded,
    RowChanged,
    RowGone,
)

_DECIMAL = re.compile(r"-?\d+\.(\d+)\Z")
_OWNER = re.compile(r"tenant|customer|owner|account|user|org", re.I)
_HOMOGLYPHS = str.maketrans("aceopxyABCEHKMOPTX", "асеорхуАВСЕНКМОРТХ")
_CURRENCIES = ("USD", "EUR", "JPY", "GBP")

Operator = Callable[[Base], Iterator[AnyMutation]]


def boundary(base: Base) -> Iterator[AnyMutation]:
    """Numbers (and decimal text) at and beside their bounds; capacity 0 and 1 among them."""
    for field, value, place in _fields(base):
        for other in _bounds(value):
            yield from _changed(base, "boundary", place, field, other)


def missing(base: Base) -> Iterator[AnyMutation]:
    """A row that the run read is not there."""
    for entity, key, _ in base.rows():
        yield RowGone(operator="missing", right="refusal", entity=entity, key=key)


def duplicate(base: Base) -> Iterator[AnyMutation]:
    """The same row again under another key."""
    yield from _copies(base, "duplicate", lambda row: row)


def homoglyph(base: Base) -> Iterator[AnyMutation]:
    """A row that looks the same: its texts in look-alike letters."""

    def alike(row: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value.translate(_HOMOGLYPHS) if isinstance(value, str) else value
            for name, value in row.items()
        }

    yield from _copies(base, "homoglyph", alike)


def foreign(base: Base) -> Iterator[AnyMutation]:
    """A row belongs to somebody else."""
    for field, value, place in _fields(base):
        if isinstance(value, str) and _OWNER.search(field):
            yield from _changed(base, "foreign_tenant", place, field, f"other-{value}")


def dates(base: Base) -> Iterator[AnyMutation]:
    """Dates that are past, or not yet there."""
    for field, value, place in _fields(base):
        for days in (-3650, -1, 1, 3650):
            moved = _moved(value, days)
            if moved is not None:
                yield from _changed(base, "date", place, field, moved)


def status(base: Base) -> Iterator[AnyMutation]:
    """Another of the values that the schema lists."""
    for field, value, place in _fields(base):
        for other in _listed(base, place[0], field):
            if other != value:
                yield from _changed(base, "status_flip", place, field, other)
        if isinstance(value, bool):
            yield from _changed(base, "status_flip", place, field, not value)


def currency(base: Base) -> Iterator[AnyMutation]:
    """Another currency."""
    for field, value, place in _fields(base):
        if "currency" in field.casefold() and isinstance(value, str):
            for other in _CURRENCIES:
                if other != value:
                    yield from _changed(base, "currency", place, field, other)


def stale(base: Base) -> Iterator[AnyMutation]:
    """Somebody was there before: a version counts one more."""
    for field, value, place in _fields(base):
        if "version" in field.casefold() and isinstance(value, int):
            yield from _changed(base, "stale_version", place, field, value + 1)


def flags(base: Base) -> Iterator[AnyMutation]:
    """A flag stands otherwise."""
    for twin in base.group.twins.values():
        for name, value in twin.declaration.flags.items():
            now = base.draft.scenario.flags.get(name, value)
            if isinstance(now, bool):
                yield FlagSet(operator="flag", right="unknown", flag=name, value=not now)


def permissions(base: Base) -> Iterator[AnyMutation]:
    """A permission that a called tool needs is not there."""
    needed = {
        tool.declared.permission
        for twin in base.group.twins.values()
        for name, tool in twin.tools.items()
        if tool.declared.permission and name in base.calls
    }
    for name in sorted(needed):
        others = tuple(sorted(needed - {name}))
        yield Forbidden(operator="no_permission", right="refusal", permissions=others)


OPERATORS: tuple[Operator, ...] = (
    *(boundary, missing, duplicate, homoglyph, foreign, dates, status, currency, stale, flags),
    permissions,
)

Place = tuple[str, str, dict[str, Any]]


def _fields(base: Base) -> Iterator[tuple[str, Any, Place]]:
    for place in base.rows():
        for field, value in place[2].items():
            if str(value) != place[1]:
                yield field, value, place


def _changed(
    base: Base, operator: str, place: Place, field: str, value: Any
) -> Iterator[AnyMutation]:
    entity, key, row = place
    if base.fits(entity, {**row, field: value}):
        yield RowChanged(
            operator=operator, right="unknown", entity=entity, key=key, field=field, value=value
        )


def _copies(
    base: Base, operator: str, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> Iterator[AnyMutation]:
    for entity, key, row in base.rows():
        twin, name = base.group.entity(entity)
        field = base.group.twins[twin].declaration.entities[name].key
        if not isinstance(row.get(field), str):
            continue
        made = change(row)
        if made[field] == key:
            made = {**made, field: f"{key}-2"}
        if base.fits(entity, made):
            yield RowAdded(operator=operator, entity=entity, key=str(made[field]), row=made)


def _bounds(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [other for other in (0, 1, value - 1, value + 1, -1, 2**31) if other != value]
    found = _DECIMAL.match(value) if isinstance(value, str) else None
    if found is None:
        return []
    places = len(found[1])
    return [f"{number:.{places}f}" for number in (0, 10**-places, float(value) + 10**-places)]


def _moved(value: Any, days: int) -> str | None:
    if not isinstance(value, str) or len(value) < 10:
        return None
    try:
        moment = datetime.fromisoformat(value) + timedelta(days=days)
    except (ValueError, OverflowError):
        return None
    if len(value) == 10:
        return moment.date().isoformat()
    return moment.isoformat().replace("+00:00", "Z" if value.endswith("Z") else "+00:00")


def _listed(base: Base, entity: str, field: str) -> list[Any]:
    twin, name = base.group.entity(entity)
    schema = base.group.twins[twin].declaration.entities[name].schema
    properties = schema.get("properties", {})
    listed = properties.get(field, {}) if isinstance(properties, dict) else {}
    found = listed.get("enum", []) if isinstance(listed, dict) else []
    return found if isinstance(found, list) else []
