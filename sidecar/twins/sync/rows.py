"""From what a source has to rows of a twin: columns named anew, secrets replaced, nothing guessed.

Rules
1. A row without its key, a key that stands twice and a column that is not there are refused.
2. The value of a secret field never gets into a snapshot: what stands there is a canary, made of
   where it stands and of nothing it held.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.twins.world import key_text


class BadRows(ValueError):
    """What a source has cannot be rows of the entity; the message says why, and quotes no value."""


def mapped(rows: Sequence[Any], columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows with their fields' names. Raises BadRows."""
    found = []
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise BadRows(f"row {index} is no object")
        if not columns:
            found.append({str(name): value for name, value in row.items()})
            continue
        missing = [name for name in columns if name not in row]
        if missing:
            known = ", ".join(sorted(map(str, row))) or "none"
            raise BadRows(f"row {index} has no column {missing[0]!r}; known: {known}")
        found.append({field: row[name] for name, field in columns.items()})
    return found


def keyed(rows: Sequence[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """The same rows in order of their keys. Raises BadRows."""
    by_key: dict[str, dict[str, Any]] = {}
    for index, row in enumerate(rows):
        if row.get(key) is None:
            raise BadRows(f"row {index} has no {key}, which names the row")
        name = key_text(row[key])
        if name in by_key:
            raise BadRows(f"row {index} has a {key} that another row has: it names no row")
        by_key[name] = row
    return [by_key[name] for name in sorted(by_key)]


def hidden(
    rows: Sequence[dict[str, Any]], entity: str, key: str, secrets: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows with canaries in place of secrets; what is absent or null stays so. Raises BadRows
    where a secret may stand in a text that is not taken apart.
    """
    found = []
    for index, row in enumerate(rows):
        where = f"{entity}|{key_text(row[key])}"
        for field in secrets:
            try:
                row = _with_canary(row, field.split("."), f"{where}|{field}")
            except _Unreached:
                said = f"row {index} has a text where {field} should be a field: it may hold it"
                raise BadRows(said) from None
        found.append(row)
    return found


class _Unreached(Exception):
    """A text stands where there should be fields."""


def _with_canary(value: Any, path: Sequence[str], where: str) -> Any:
    if isinstance(value, list):
        return [_with_canary(item, path, f"{where}|{index}") for index, item in enumerate(value)]
    if not path:
        return _canary(value, where)
    if isinstance(value, str) and value:
        raise _Unreached
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    return {**value, path[0]: _with_canary(value[path[0]], path[1:], where)}


def _canary(value: Any, where: str) -> Any:
    if value is None:
        return None
    drawn = hashlib.sha256(f"agenttwin-canary/1|{where}".encode()).hexdigest()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 10**9 + int(drawn[:12], 16) % 10**9
    return f"canary-{drawn[:16]}"
