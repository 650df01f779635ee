"""JSON read so that no two readers can see it differently; everything else is refused.

**Rules**
1. Refused: invalid UTF-8, a byte order mark, trailing data, NaN and infinities, leading zeros, a
   key twice in one object, NUL in a key, lone surrogates, more than 64 levels, more than 10,000
   members and elements.
2. Numbers are read from their text. An integer beyond 2**53 - 1, or a decimal that a double does
   not give back exactly, is refused: policy, approver and upstream must see one number.
3. A refusal names what was found and where, as a JSON pointer or a line and column.
"""

import json
import math
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

DEPTH_MAX = 64
MEMBERS_MAX = 10_000
_LITERAL_CHARS_MAX = 400
_INTEGER_MAX = 2**53 - 1


class NotStrict(ValueError):
    """The text is not unambiguous JSON; the message says what and where."""


class _Fault(Struct, frozen=True):
    """Stands in the tree where something must be refused, so that the walk can say where."""

    why: str


def read_json(data: bytes) -> Any:
    """The value of one strict JSON document. Raises NotStrict."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotStrict(f"the body is not UTF-8 at byte {error.start}") from error
    if text.startswith("\ufeff"):
        raise NotStrict("the body starts with a byte order mark")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotStrict(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except RecursionError as error:
        raise NotStrict(f"the body nests deeper than {DEPTH_MAX} levels") from error
    _check(value, escapes="\\" in text)
    return value


def _check(value: Any, *, escapes: bool) -> None:
    for members, (pointer, item, depth) in enumerate(_walk(value)):
        if members > MEMBERS_MAX:
            raise NotStrict(f"the body has more than {MEMBERS_MAX} members and elements")
        if depth > DEPTH_MAX:
            raise NotStrict(f"the body nests deeper than {DEPTH_MAX} levels at {_spell(pointer)}")
        if isinstance(item, _Fault):
            raise NotStrict(f"{item.why} at {_spell(pointer)}")
        if escapes and isinstance(item, str) and _has_surrogate(item):
            raise NotStrict(f"a lone surrogate at {_spell(pointer)}")


_Pointer = tuple[Any, ...] | None


def _walk(value: Any) -> Iterator[tuple[_Pointer, Any, int]]:
    """Every value with a linked pointer (parent, key) and its depth: scalars stand at their
    holder's.
    """
    stack: list[tuple[_Pointer, Any, int]] = [(None, value, 1)]
    while stack:
        pointer, item, depth = stack.pop()
        yield pointer, item, depth
        if isinstance(item, dict):
            stack.extend(
                ((pointer, key), child, _below(child, depth)) for key, child in item.items()
            )
        elif isinstance(item, list):
            stack.extend(
                ((pointer, index), child, _below(child, depth)) for index, child in enumerate(item)
            )


def _below(child: Any, depth: int) -> int:
    return depth + 1 if isinstance(child, dict | list) else depth


def _spell(pointer: _Pointer) -> str:
    parts: list[str] = []
    while pointer is not None:
        pointer, key = pointer
        parts.append(str(key).replace("~", "~0").replace("/", "~1"))
    text = "/" + "/".join(reversed(parts)) if parts else "the top"
    return text.encode("ascii", "backslashreplace").decode()[:300]


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) != len(pairs):
        return _Fault(f"the key {_quote(_first_repeated(pairs))} stands twice in the object")
    for key in found:
        if "\x00" in key or (not key.isascii() and _has_surrogate(key)):
            return _Fault(f"the key {_quote(key)} has a NUL or a lone surrogate in the object")
    return found


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    raise AssertionError("no key is repeated")


def _integer(text: str) -> Any:
    if len(text) > 17 or abs(int(text)) > _INTEGER_MAX:
        return _Fault(f"the integer {text[:40]} is beyond 2**53 - 1 (send it as text)")
    return int(text)


def _decimal(text: str) -> Any:
    value = float(text)
    try:
        exact = (
            len(text) <= _LITERAL_CHARS_MAX
            and math.isfinite(value)
            and Decimal(text) == Decimal(repr(value))
        )
    except InvalidOperation:  # an exponent beyond all bounds
        exact = False
    if not exact:
        return _Fault(f"the number {text[:40]} has no exact double (send it as text)")
    return value


def _constant(text: str) -> Any:
    return _Fault(f"{text} is not JSON")


def _quote(key: str) -> str:
    return json.dumps(key)[:80]


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_decimal, parse_constant=_constant
)
