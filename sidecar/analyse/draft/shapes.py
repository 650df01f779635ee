"""The shapes that values were seen in, as JSON Schema: what is outside was never seen.

Rules
1. An object has the members that some value had and no others; those that all had are required.
2. Names that came back again and again, and few of them, are all there are; free text may be any.
3. A pattern is told only where all texts have it: dates, times, decimal numbers.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sidecar.analyse.draft.seen import is_masked

_NAMES_MAX = 8
_TIMES_MIN = 3
_PATTERNS = (r"^\d{4}-\d\d-\d\d$", r"^\d\d:\d\d(:\d\d)?$", r"^\d+\.\d\d$", r"^\d+$")
_TYPES: dict[type, str] = {bool: "boolean", str: "string", list: "array", dict: "object"}


def shape(
    values: Sequence[Any], *, closed: bool = True, free: Iterable[str] = ()
) -> dict[str, Any]:
    """The schema of values. ``closed``: nothing else may stand in an object; ``free``: members of
    the outermost object of which any name may stand."""
    kinds = sorted({_kind(one) for one in values})
    if "integer" in kinds and "number" in kinds:
        kinds.remove("integer")
    made: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    objects = [one for one in values if isinstance(one, dict)]
    if objects:
        made |= _members(objects, closed=closed, free=frozenset(free))
    items = [item for one in values if isinstance(one, list) for item in one]
    if items:
        made["items"] = shape(items, closed=closed)
    texts = [one for one in values if isinstance(one, str)]
    if texts and not any(map(is_masked, texts)):
        pattern = next((one for one in _PATTERNS if all(re.match(one, text) for text in texts)), "")
        if pattern:
            made["pattern"] = pattern
    numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
    if numbers and min(numbers) >= 0:
        made["minimum"] = 0
    return made


def names(values: Sequence[Any]) -> list[str] | None:
    """The names that came back, where they seem to be all there are."""
    if not all(isinstance(one, str) and one and not any(map(str.isspace, one)) for one in values):
        return None
    if any(map(is_masked, values)):
        return None
    counts = Counter(values)
    if len(counts) > _NAMES_MAX or min(counts.values()) < _TIMES_MIN:
        return None
    return sorted(counts)


def _members(
    objects: Sequence[dict[str, Any]], *, closed: bool, free: frozenset[str]
) -> dict[str, Any]:
    there = sorted({name for one in objects for name in one})
    properties: dict[str, Any] = {}
    for name in there:
        values = [one[name] for one in objects if name in one]
        properties[name] = shape(values, closed=closed)
        few = names(values) if closed and name not in free else None
        if few is not None:
            properties[name] = {"enum": few}
        elif name in free:
            properties[name].pop("pattern", None)
    made: dict[str, Any] = {"properties": properties}
    required = [name for name in there if all(name in one for one in objects)]
    if required:
        made["required"] = required
    if closed:
        made["additionalProperties"] = False
    return made


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return "number" if isinstance(value, float) else _TYPES[type(value)]
