"""How much JSON an answer may hold: reading and judging it holds up whatever else the loop does.

Rules
1. A text is not decoded that could hold far more values than an answer may have; its marks tell, at
   the price of a look.
2. More than ``VALUES_MAX`` values are not judged: to hand an expression those takes some 60 ms.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

VALUES_MAX: Final = 20_000
_MARKS_MAX: Final = 3 * VALUES_MAX
"""More than there can be values: text may hold commas and brackets of its own."""


class TooMuch(ValueError):
    """An answer holds more than is read."""


def read_json(text: str) -> Any:
    """The value a text says; None where it is no JSON. Raises TooMuch."""
    if text.lstrip(" \t\r\n")[:1] in ("[", "{"):
        check_marks(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if marks(text) >= VALUES_MAX and count(value) > VALUES_MAX:
        raise TooMuch
    return value


def check_marks(text: str) -> None:
    """Raises TooMuch where decoding it, in one piece or several, would take too long."""
    if marks(text) > _MARKS_MAX:
        raise TooMuch


def marks(text: str) -> int:
    """At least as many as it can hold values, but one."""
    return text.count(",") + text.count("[") + text.count("{")


def count(value: Any) -> int:
    """How many values there are in one of JSON's kinds, with itself."""
    found, left = 0, [value]
    while left:
        each = left.pop()
        found += 1
        if isinstance(each, Mapping):
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
    return found
