"""Exact arithmetic on whole numbers and decimal text, for money in twins.

Rules
1. Whole numbers stay whole; decimal text stays text with the larger number of places (``"49.00"``).
2. A binary double takes part by its shortest decimal form, so that 0.1 + 0.2 is 0.3.
3. What is no number is an error, never zero. Text is plain ASCII digits: no exponent, no grouping.
"""

import re
from decimal import Decimal
from typing import Any

from msgspec import json

_PLAIN = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?\Z")


def add(left: Any, right: Any) -> Any:
    """The exact sum. Raises ValueError where one is no number."""
    return _written(_number(left) + _number(right), left, right)


def subtract(left: Any, right: Any) -> Any:
    """The exact difference. Raises ValueError where one is no number."""
    return _written(_number(left) - _number(right), left, right)


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1."""
    difference = _number(left) - _number(right)
    return (difference > 0) - (difference < 0)


def text(value: Any) -> str:
    """The value as text; text is itself, everything else its JSON."""
    return value if isinstance(value, str) else json.encode(value).decode()


def _number(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no number")
    if isinstance(value, str) and not _PLAIN.match(value):
        raise ValueError(f"{value[:40]!r} is no plain decimal number")
    number = Decimal(value if isinstance(value, int | str) else repr(value))
    if not number.is_finite():
        raise ValueError(f"{value!r} is no finite number")
    return number


def _written(result: Decimal, left: Any, right: Any) -> Any:
    if isinstance(left, str) or isinstance(right, str):
        return format(result, "f")
    if isinstance(left, float) or isinstance(right, float):
        return float(result)
    return int(result)
