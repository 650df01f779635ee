"""Which rows a call read, as the expressions of its twin asked for them.

Rules
1. Reading is seen at the functions that expressions call (``row``, ``rows``, ``count``, ``sum``);
   nothing about what they answer changes.
2. A table read by its values is read as a whole (``entity/*``) and in each row that was found.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sidecar.twins.world import World, key_text

Seen = dict[str, None]


@contextmanager
def watched(worlds: Mapping[str, World]) -> Iterator[Callable[[], tuple[str, ...]]]:
    """While this holds, the function given answers what was read since it was last asked."""
    seen: Seen = {}
    before = {name: one.functions for name, one in worlds.items()}
    for one in worlds.values():
        one.functions = {**one.functions, **_watching(one, seen)}

    def taken() -> tuple[str, ...]:
        found = tuple(seen)
        seen.clear()
        return found

    try:
        yield taken
    finally:
        for name, one in worlds.items():
            one.functions = before[name]


def _watching(world: World, seen: Seen) -> Mapping[str, Callable[..., Any]]:
    def row(entity: str, key: Any) -> Any:
        seen[f"{entity}/{key_text(key)}"] = None
        return world.row(entity, key)

    def note(entity: str, wanted: Mapping[str, Any] | None) -> None:
        seen[f"{entity}/*"] = None
        for found in world.rows(entity, wanted):
            seen[f"{entity}/{world.key_of(entity, found)}"] = None

    def rows(entity: str, wanted: Mapping[str, Any] | None = None) -> Any:
        note(entity, wanted)
        return world.rows(entity, wanted)

    def count(entity: str, wanted: Mapping[str, Any] | None = None) -> Any:
        note(entity, wanted)
        return world.count(entity, wanted)

    def total(entity: str, field: str, wanted: Mapping[str, Any] | None = None) -> Any:
        note(entity, wanted)
        return world.sum(entity, field, wanted)

    return {"row": row, "rows": rows, "count": count, "sum": total}
