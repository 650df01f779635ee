"""Ids and times taken out of values, so that two runs can be compared.

Rules
1. An id becomes ``#n``, n by first appearance: two ids that were equal stay equal, different ones
   stay different.
2. What counts as an id: those handed in, and anything shaped like a UUID or 32 hex digits. What
   counts as a time: RFC 3339 text.
3. Nothing else is touched: an amount, a name or a status that differs is a difference.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_SHAPE = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}(?![0-9A-Za-z])"
)
_TIME_CHARS = len("2026-01-01T00:00Z")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")


class Scrubber:
    """One run's ids in order of first appearance; use one for all values of the run."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        known = sorted({one for one in ids if one}, key=len, reverse=True)
        shapes = [re.escape(one) for one in known] + [_SHAPE.pattern]
        self._ids = re.compile("|".join(shapes))
        self._shortest = min([_TIME_CHARS, *map(len, known)])
        self._seen: dict[str, str] = {}
        # An id keeps its number, so a text that came before comes to what it came to then.
        self._texts: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        """The value without ids and times, containers walked in a fixed order."""
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is dict:
            return self._members(value)
        if kind is list or kind is tuple:
            return [self(item) for item in value]
        if kind is int or kind is float or kind is bool or value is None:
            return value
        return self._other(value)

    def _other(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return self._members(value)
        if isinstance(value, list | tuple):
            return [self(item) for item in value]
        return value

    def _members(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        found = {}
        for key in sorted(value, key=str):
            name, member = self._text(str(key)), value[key]
            kind = type(member)
            # Most members are short texts and numbers: a call each would cost more than the rest.
            if kind is str:
                found[name] = self._text(member) if len(member) >= self._shortest else member
            elif kind is int or member is None:
                found[name] = member
            else:
                found[name] = self(member)
        return found

    def _text(self, text: str) -> str:
        if len(text) < self._shortest:
            return text
        known = self._texts.get(text)
        if known is None:
            known = _TIME.sub("<time>", self._ids.sub(self._place, text))
            self._texts[text] = known
        return known

    def _place(self, match: re.Match[str]) -> str:
        return self._seen.setdefault(match[0].lower(), f"#{len(self._seen) + 1}")
