"""Answers that are wrong on the wire: bytes that are no JSON, fields that are gone, renamed,
of another type, or poisoned.

Rules
1. A corruption is a function of the answer and the rule; where a rule names no field, the draw it
   is handed chooses one.
2. Where there is nothing to strike (no such field, no object) the answer is None: the rule does not
   fire.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from sidecar.twins.payloads import PAYLOADS
from sidecar.twins.rules import Fault

Path = tuple[str, ...]


class Corrupted(msgspec.Struct, frozen=True, kw_only=True):
    """What goes out: ``value`` as JSON, or ``raw`` bytes in its place; ``cut`` when the connection
    ends before the body does.
    """

    value: Any = None
    raw: bytes | None = None
    cut: bool = False


def corrupted(fault: Fault, value: Any, body: bytes, drawn: float) -> Corrupted | None:
    """The answer (``body`` is its bytes) as the fault lets it out; None where it finds nothing."""
    kind = fault.fault
    if kind == "malformed_json":
        return Corrupted(raw=body[:-1] + b",]")
    if kind == "truncated":
        return Corrupted(raw=body[: len(body) // 2], cut=True)
    if kind == "replaced_answer":
        return Corrupted(value=fault.body)
    path = _path(fault, value, drawn)
    if path is None:
        return None
    return Corrupted(value=_edited(value, path, fault))


def _path(fault: Fault, value: Any, drawn: float) -> Path | None:
    found = [path for path in _leaves(value) if _struck(fault, value, path)]
    if fault.field:
        wanted = tuple(fault.field.split("."))
        # Members of a list's items are named without their index; the first that fits is struck.
        fits = (path for path in _members(value) if _named(path) == wanted)
        return next((path for path in fits if _struck(fault, value, path)), None)
    return found[int(drawn * len(found))] if found else None


def _struck(fault: Fault, value: Any, path: Path) -> bool:
    if fault.fault == "injected_content":
        return isinstance(_at(value, path), str)
    return not path[-1].isdigit()


def _named(path: Path) -> Path:
    return tuple(part for part in path if not part.isdigit())


def _leaves(value: Any) -> list[Path]:
    """Members that hold no others, in order of their names."""
    return [path for path in _members(value) if not isinstance(_at(value, path), Mapping | list)]


def _members(value: Any, above: Path = ()) -> list[Path]:
    if isinstance(value, Mapping):
        inner = [(str(name), value[name]) for name in sorted(value)]
    elif isinstance(value, list | tuple):
        inner = [(str(index), item) for index, item in enumerate(value)]
    else:
        return []
    found: list[Path] = []
    for name, item in inner:
        found += [(*above, name), *_members(item, (*above, name))]
    return found


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part] if isinstance(value, Mapping) else value[int(part)]
    return value


def _edited(value: Any, path: Path, fault: Fault) -> Any:
    name, rest = path[0], path[1:]
    if isinstance(value, list | tuple):
        items = list(value)
        items[int(name)] = (
            _edited(items[int(name)], rest, fault) if rest else _changed(items[int(name)], fault)
        )
        return items
    if rest:
        return {**value, name: _edited(value[name], rest, fault)}
    if fault.fault == "missing_field":
        return {key: item for key, item in value.items() if key != name}
    if fault.fault == "renamed_field":
        to = fault.to or f"{name}_v2"
        return {(to if key == name else key): item for key, item in value.items()}
    return {**value, name: _changed(value[name], fault)}


def _changed(item: Any, fault: Fault) -> Any:
    if fault.fault == "injected_content":
        return f"{item} {fault.text or PAYLOADS[fault.payload]}".lstrip()
    if isinstance(item, str):
        return [item]
    if isinstance(item, Mapping | list):
        return msgspec.json.encode(item, order="sorted").decode()
    return str(item).lower() if isinstance(item, bool) or item is None else str(item)
