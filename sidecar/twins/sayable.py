"""What JSON can say of a value, so that whatever enters a world or an answer can be shown and sent.

Rules
1. A moment, a length of time and bytes of an expression become the text that JSON has for them.
2. No number is made up: what is not finite, and a name that is no text, is no value.
"""

import math
from datetime import datetime, timedelta
from typing import Any

import msgspec


def no_json(value: Any) -> str | None:
    """Why a value is none that JSON has; None where it is one."""
    if value is None or isinstance(value, str | int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is no number of JSON"
    if isinstance(value, dict):
        strange = next((name for name in value if not isinstance(name, str)), None)
        if strange is not None:
            return f"a name in it is of type {type(strange).__name__}, not text"
        return next(filter(None, map(no_json, value.values())), None)
    if isinstance(value, list | tuple):
        return next(filter(None, map(no_json, value)), None)
    return f"a value of type {type(value).__name__} is none of JSON"


def as_json(value: Any) -> Any:
    """The value as JSON has it, the same object where it is one. Raises ValueError."""
    why = no_json(value)
    if why is None:
        return value
    told = msgspec.to_builtins(value) if _is_told(value) else value
    why = no_json(told)
    if why is not None:
        raise ValueError(why)
    return told


def _is_told(value: Any) -> bool:
    """Whether all there is in it besides JSON are moments, lengths of time and bytes."""
    if isinstance(value, dict):
        return all(map(_is_told, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_told, value))
    return no_json(value) is None or isinstance(value, datetime | timedelta | bytes)
