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
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")


class Scrubber:
    """One run's ids in order of first appearance; use one for all values of the run."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        known = sorted({one for one in ids if one}, key=len, reverse=True)
        shapes = [re.escape(one) for one in known] + [_SHAPE.pattern]
        self._ids = re.compile("|".join(shapes))
        self._seen: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        """The value without ids and times, containers walked in a fixed order."""
        if isinstance(value, str):
            return _TIME.sub("<time>", self._ids.sub(self._place, value))
        if isinstance(value, Mapping):
            return {str(self(str(key))): self(value[key]) for key in sorted(value, key=str)}
        if isinstance(value, list | tuple):
            return [self(item) for item in value]
        return value

    def _place(self, match: re.Match[str]) -> str:
        return self._seen.setdefault(match[0].lower(), f"#{len(self._seen) + 1}")
