"""How a JSON text was written, so that the parsed value can be written the same way again.

**Rules**
1. A value comes back from a tape with its keys in order of name and 1.0 as 1; an agent that shows
   the text of an answer must see the text it saw. ``spelling`` says what is needed beside the
   value, ``spelled`` writes it. What no spelling reproduces is kept as a text.
2. Styles are those of common encoders: compact, spaced, or indented; ASCII or not.
3. A value whose leaves were redacted since is written in the same spelling.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_FIRST: Final = re.compile(r"[\[{](\n *)?")
_COLON: Final = re.compile(r'":( ?)')
_ORDERS_MAX: Final = 1000
# Numbers that a tape or an encoder may write in another way, and halves of surrogate pairs.
_PECULIAR: Final = re.compile(r"\.0+(?![0-9])|[0-9.][eE][-+]?[0-9]|-0(?![0-9])|\\u[dD]")
_DEPTH_MAX: Final = 90
_INFINITE: Final = float("inf")


def parsed(text: str) -> tuple[Any, dict[str, Any] | None]:
    """A JSON text's value, and its spelling; ValueError where it is no JSON that a tape holds.

    The spelling is None where none reproduces the text, ``{}`` where nothing need be said: keys in
    order, compact.
    """
    if _PECULIAR.search(text) is None:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refused)
        _check_depth(value, 0)
        found = _styled(text, value)
        if spelled(value, found) == text:
            return value, found
    return _parsed_by_literals(text)


def _parsed_by_literals(text: str) -> tuple[Any, dict[str, Any] | None]:
    """The same of a text whose numbers may be written in other ways."""
    literals: list[str] = []
    value = json.loads(
        text,
        object_pairs_hook=_object,
        parse_int=lambda literal: _noted(int(literal), literal, literals),
        parse_float=lambda literal: _noted(float(literal), literal, literals),
        parse_constant=_refused,
    )
    plain = _as_kept(value, 0)
    found = _styled(text, value)
    numbers = {str(place): literal for place, literal in enumerate(literals) if _is_odd(literal)}
    if numbers:
        found["numbers"] = numbers
    return value, found if spelled(plain, found) == text else None


def spelled(value: Any, spelling: dict[str, Any]) -> str:
    """A value as a text in this spelling."""
    return _Writer(spelling).text(value)


def _styled(text: str, value: Any) -> dict[str, Any]:
    found = _style(text)
    orders, uses = _orders(value)
    if orders:
        found["orders"], found["uses"] = orders, uses
    return found


class _Writer:
    """Writes a value; by the standard library's encoder where that can, which is much faster."""

    def __init__(self, spelling: dict[str, Any]) -> None:
        self._around = spelling.get("around", ["", ""])
        self._ascii = bool(spelling.get("ascii"))
        self._indent: int | None = spelling.get("indent")
        self._colon = ": " if spelling.get("spaced") else ":"
        self._comma = ", " if spelling.get("spaced") and self._indent is None else ","
        self._orders = [list(map(str, order)) for order in spelling.get("orders", ())]
        self._uses = _unrolled(spelling.get("uses", ()))
        self._numbers: dict[str, Any] = spelling.get("numbers", {})
        self._met = 0
        self._parts: list[str] = []

    def text(self, value: Any) -> str:
        if self._indent is None and not self._numbers:
            return json.dumps(
                self._ordered(value),
                ensure_ascii=self._ascii,
                separators=(self._comma, self._colon),
            ).join(map(str, self._around))
        self._write(value, 0)
        return "".join((str(self._around[0]), *self._parts, str(self._around[1])))

    def _ordered(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._ordered(value[key]) for key in self._keys(value)}
        if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            return [self._ordered(item) for item in value]
        return value

    def _write(self, value: Any, depth: int) -> None:
        if isinstance(value, dict):
            self._members(value, depth)
        elif isinstance(value, list):
            self._parts.append("[")
            for place, item in enumerate(value):
                self._between(place, depth + 1)
                self._write(item, depth + 1)
            self._closed("]", depth, bool(value))
        else:
            self._parts.append(self._scalar(value))

    def _members(self, value: dict[str, Any], depth: int) -> None:
        self._parts.append("{")
        for place, key in enumerate(self._keys(value)):
            self._between(place, depth + 1)
            self._parts += (json.dumps(key, ensure_ascii=self._ascii), self._colon)
            self._write(value[key], depth + 1)
        self._closed("}", depth, bool(value))

    def _keys(self, value: dict[str, Any]) -> list[str]:
        order = next(self._uses, None) if len(value) > 1 else None
        if order is None or not 0 < order <= len(self._orders):
            return sorted(value)
        known = [key for key in self._orders[order - 1] if key in value]
        return known + sorted(value.keys() - set(known)) if len(known) < len(value) else known

    def _between(self, place: int, depth: int) -> None:
        if self._indent is None:
            if place:
                self._parts.append(self._comma)
            return
        self._parts.append(("," if place else "") + "\n" + " " * (self._indent * depth))

    def _closed(self, bracket: str, depth: int, filled: bool) -> None:
        if filled and self._indent is not None:
            self._parts.append("\n" + " " * (self._indent * depth))
        self._parts.append(bracket)

    def _scalar(self, value: Any) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            literal = self._numbers.get(str(self._met))
            self._met += 1
            if literal is not None and _same(literal, value):
                return str(literal)
        return json.dumps(value, ensure_ascii=self._ascii)


def _noted(value: Any, literal: str, literals: list[str]) -> Any:
    if value != value or value in (_INFINITE, -_INFINITE):
        raise ValueError(literal)
    literals.append(literal)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refused(constant: str) -> Any:
    raise ValueError(constant)


def _style(text: str) -> dict[str, Any]:
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    found: dict[str, Any] = {}
    if start or end < len(text):
        found["around"] = [text[:start], text[end:]]
    first = _FIRST.match(text, start)
    if first is not None and first[1] is not None:
        found["indent"] = len(first[1]) - 1
    colon = _COLON.search(text)
    if (colon is not None and colon[1]) or (colon is None and ", " in text):
        found["spaced"] = True
    if "\\u" in text and text.isascii():
        found["ascii"] = True
    return found


def _orders(value: Any) -> tuple[list[list[str]], list[int]]:
    """Distinct orders of keys, and for each object of two and more keys, in the order they are
    met, which one it has (0: by name): as counts and numbers in turn."""
    orders: dict[tuple[str, ...], int] = {}
    uses: list[int] = []
    for keys in _objects(value):
        if keys == sorted(keys):
            uses.append(0)
        elif len(orders) < _ORDERS_MAX:
            uses.append(orders.setdefault(tuple(keys), len(orders) + 1))
    if not orders:
        return [], []
    return [list(keys) for keys in orders], _rolled(uses)


def _objects(value: Any) -> Iterator[list[str]]:
    if isinstance(value, dict):
        if len(value) > 1:
            yield list(value)
        for item in value.values():
            yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


def _rolled(uses: list[int]) -> list[int]:
    found: list[int] = []
    for one in uses:
        if found and found[-1] == one:
            found[-2] += 1
        else:
            found += (1, one)
    return found


def _unrolled(rolled: Any) -> Iterator[int]:
    for place in range(0, len(rolled) - 1, 2):
        for _ in range(int(rolled[place])):
            yield int(rolled[place + 1])


def _as_kept(value: Any, depth: int) -> Any:
    """A value as a tape gives it back: floats that are whole numbers are integers."""
    if depth > _DEPTH_MAX:
        raise ValueError("nested deeper than a tape holds")
    if isinstance(value, dict):
        return {_told(key): _as_kept(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_kept(item, depth + 1) for item in value]
    return _told(value) if isinstance(value, str) else _whole(value)


def _check_depth(value: Any, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError("nested deeper than a tape holds")
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        if isinstance(item, dict | list):
            _check_depth(item, depth + 1)


def _told(text: str) -> str:
    text.encode()  # a lone surrogate raises, and is kept as the escape it was
    return text


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_odd(literal: str) -> bool:
    """Whether a number is not written as Python writes what a tape gives back."""
    if literal.lstrip("-").isdecimal():
        return literal == "-0"
    value = float(literal)
    return value.is_integer() or repr(value) != literal


def _same(literal: Any, value: float) -> bool:
    try:
        return float(str(literal)) == value
    except ValueError:
        return False
