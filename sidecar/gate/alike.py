"""Values that many runs share, held once.

**Rules**
1. What is handed back is equal to what was given, and of one type with it: callers pool texts,
   whole numbers, and tuples of these, each kind apart.
2. So many different values are known and no more: where runs have little in common a pool costs
   no more than that.
"""

from collections.abc import Hashable
from typing import Final, TypeVar, cast

KNOWN_MAX: Final = 4_096

_Value = TypeVar("_Value")


class Alike:
    """A pool of values: of equal ones the first is handed back each time."""

    def __init__(self, most: int = KNOWN_MAX) -> None:
        self._known: dict[Hashable, object] = {}
        self._most = most

    def held(self, key: Hashable, value: _Value) -> _Value:
        """The value that is known under a key; ``value`` itself where none is."""
        known = self._known.get(key)
        if known is not None:
            return cast(_Value, known)
        if len(self._known) < self._most:
            self._known[key] = value
        return value

    def once(self, value: _Value) -> _Value:
        """The same for a value that is its own key."""
        return self.held(cast(Hashable, value), value)
