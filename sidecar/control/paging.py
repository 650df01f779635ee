"""Pages: a place in a list as text, and a list cut where its page ends.

Rules
1. A place is that of the last thing told: the moment it is ordered by, and its id. What comes or
   goes meanwhile moves nothing.
2. Every text of a cursor's form is a place, so none can be wrong; one that nothing follows is the
   end.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import UNSET, UnsetType

T = TypeVar("T")
_LARGEST = 2**63 - 1


def place(cursor: str | None) -> tuple[int, str] | None:
    """The place that a cursor names."""
    if cursor is None:
        return None
    moment, _, name = cursor.partition(".")
    return min(int(moment), _LARGEST), name


def page(
    found: Sequence[T], limit: int, key: Callable[[T], tuple[int, str]]
) -> tuple[tuple[T, ...], str | UnsetType]:
    """The first ``limit`` of what was found, and the cursor if one more was found."""
    told = tuple(found[:limit])
    if len(found) <= limit or not told:
        return told, UNSET
    moment, name = key(told[-1])
    return told, f"{moment}.{name}"
