"""Places in JSON-like values: JSON Pointer (RFC 6901) with ``*`` for one step, ``**`` for any.

**Rules**
1. One grammar for what is ignored, unordered, redacted and shown as a difference.
2. ``~0`` is ``~``, ``~1`` is ``/``, ``~2`` is a key that is a star itself.
3. Editing gives a new value and leaves the old one; the innermost place is changed first.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

REMOVED: Final = object()
STEPS_MAX: Final = 64
_ONE: Final = "*"
_ANY: Final = "**"

States = frozenset[tuple[int, int]]


def pointer(keys: Iterable[str | int]) -> str:
    """Keys and indices as a path."""
    return "".join(f"/{_escaped(str(key))}" for key in keys)


class Paths:
    """Some paths, to be found in a value together."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)
        self._patterns = tuple(_parsed(text) for text in self.texts)
        self.start = self._closed((number, 0) for number in range(len(self._patterns)))

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def step(self, states: States, key: str | int) -> States:
        """What is left to find below a key."""
        text = str(key)
        after: list[tuple[int, int]] = []
        for number, place in states:
            pattern = self._patterns[number]
            if place == len(pattern):
                continue
            wanted, literal = pattern[place]
            if literal:
                if wanted == text:
                    after.append((number, place + 1))
            elif wanted == _ONE:
                after.append((number, place + 1))
            else:
                after.append((number, place))
        return self._closed(after)

    def ends(self, states: States) -> list[str]:
        """The paths that end here."""
        return [
            self.texts[number]
            for number, place in sorted(states)
            if place == len(self._patterns[number])
        ]

    def edit(self, value: Any, change: Callable[[Any, list[str]], Any]) -> Any:
        """The value with ``change(value, paths)`` at every place found; REMOVED takes it away.

        A list's removed item becomes null: the others keep their places.
        """
        found = self._edited(value, self.start, change) if self._patterns else value
        return None if found is REMOVED else found

    def found(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Where the paths lead, as path and value, outermost first."""
        yield from self._found(value, self.start, ())

    def only(self, value: Any) -> Any:
        """What of a value lies on the paths: members beside them go, list items become null."""
        found = self._only(value, self.start)
        return None if found is REMOVED else found

    def _edited(self, value: Any, states: States, change: Callable[[Any, list[str]], Any]) -> Any:
        if not states:
            return value
        after = value
        if isinstance(value, dict):
            pairs = (
                (key, self._edited(item, self.step(states, key), change))
                for key, item in value.items()
            )
            after = {key: item for key, item in pairs if item is not REMOVED}
        elif isinstance(value, list):
            items = [
                self._edited(item, self.step(states, place), change)
                for place, item in enumerate(value)
            ]
            after = [None if item is REMOVED else item for item in items]
        here = self.ends(states)
        return change(after, here) if here else after

    def _found(
        self, value: Any, states: States, keys: tuple[str | int, ...]
    ) -> Iterator[tuple[str, Any]]:
        if not states:
            return
        if self.ends(states):
            yield pointer(keys), value
        if isinstance(value, dict):
            for key, item in value.items():
                yield from self._found(item, self.step(states, key), (*keys, key))
        elif isinstance(value, list):
            for place, item in enumerate(value):
                yield from self._found(item, self.step(states, place), (*keys, place))

    def _only(self, value: Any, states: States) -> Any:
        if not states:
            return REMOVED
        if self.ends(states):
            return value
        if isinstance(value, dict):
            pairs = ((key, self._only(item, self.step(states, key))) for key, item in value.items())
            kept = {key: item for key, item in pairs if item is not REMOVED}
            return kept or REMOVED
        if isinstance(value, list):
            items = [self._only(item, self.step(states, n)) for n, item in enumerate(value)]
            if all(item is REMOVED for item in items):
                return REMOVED
            return [None if item is REMOVED else item for item in items]
        return REMOVED

    def _closed(self, states: Iterable[tuple[int, int]]) -> States:
        """With every state that ``**`` reaches by matching nothing."""
        found: set[tuple[int, int]] = set()
        for number, first in states:
            place = first
            pattern = self._patterns[number]
            found.add((number, place))
            while place < len(pattern) and pattern[place] == (_ANY, False):
                place += 1
                found.add((number, place))
        return frozenset(found)


def path_problem(text: str) -> str | None:
    """What is wrong with a path; None where nothing is."""
    if text and not text.startswith("/"):
        return "a path begins with /, or is empty"
    return f"more than {STEPS_MAX} steps" if text.count("/") > STEPS_MAX else None


def _parsed(text: str) -> tuple[tuple[str, bool], ...]:
    problem = path_problem(text)
    if problem:
        raise ValueError(f"{text}: {problem}")
    return tuple(_token(part) for part in text.split("/")[1:])


def _token(part: str) -> tuple[str, bool]:
    if part in (_ONE, _ANY):
        return part, False
    return part.replace("~2", "*").replace("~1", "/").replace("~0", "~"), True


def _escaped(key: str) -> str:
    text = key.replace("~", "~0").replace("/", "~1")
    return text.replace("*", "~2") if text in (_ONE, _ANY) else text
