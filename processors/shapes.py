"""What follows from the keys of attributes alone, looked at once a shape.

Rules
1. Spans of one kind have the same keys in the same order; their values are never remembered.
2. A memory is bounded: by shapes, which it forgets all together, and by the text of each.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
Keys = tuple[str, ...]
_SHAPES_MAX = 1024
_KEYS_MAX = 160
_CHARACTERS_MAX = 8192


class _Memory(dict[Keys, T]):
    """What a function gave for some keys; it forgets all when it is full."""

    def __init__(self, function: Callable[[Keys], T]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, keys: Keys) -> T:
        found = self._function(keys)
        if len(keys) <= _KEYS_MAX and sum(map(len, keys)) <= _CHARACTERS_MAX:
            if len(self) >= _SHAPES_MAX:
                self.clear()
            self[keys] = found
        return found


def by_keys(function: Callable[[Keys], T]) -> Callable[[Keys], T]:
    """The same function of the keys of attributes, which remembers the shapes that repeat."""
    return _Memory(function).__getitem__


def groups_of(fields: dict[str, Keys]) -> Callable[[Iterable[str]], frozenset[str]]:
    """A function of some keys: the first words of the fields that any of them stands for.

    ``fields`` is a dialect's table, e.g. ``{"usage.input": ("gen_ai.usage.input_tokens",)}``.
    """
    words: dict[str, set[str]] = {}
    for field, keys in fields.items():
        for key in keys:
            words.setdefault(key, set()).add(field.partition(".")[0])
    nothing: set[str] = set()

    @by_keys
    def groups(keys: Keys) -> frozenset[str]:
        return frozenset().union(*(words.get(key, nothing) for key in keys))

    return lambda keys: groups(tuple(keys))
