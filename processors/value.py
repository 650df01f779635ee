"""Parse, coerce, compare and walk JSON-like values. The dialects share what stands here.

Rules
1. Nothing here knows a dialect; a rule that needs an attribute's name belongs to the dialect's
   file.
2. A value that cannot be coerced is None with a state, never an exception and never a guess.
3. JSON in a string is parsed at most three times deep; broken JSON is kept as text and never
   closed.
4. Two values are equal when their canonical texts are: key order is nothing, 1 equals 1.0, true is
   not 1.

Source of the rules: the coercion table of docs/specs/trace.md, "Values".
"""

import ast
import base64
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from processors.model.names import ContentState
from processors.shapes import Keys, by_keys

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)")
_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
DURATION_MAX_NS = 3650 * _UNIT_NS["d"]
TIMEOUT_LEAST_NS = _UNIT_NS["ms"]
"""The least a deadline or lifetime may be: nothing can be done in no time."""
_NO_NAME = frozenset(
    {
        *("", "null", "None", "none", "undefined", "unknown", "<not specified>", "N/A", "n/a"),
        "__fake_id__",  # OpenAI Agents SDK: chat models behind its Responses interface
    }
)
_HIDDEN = frozenset(
    {"__REDACTED__", "<REDACTED>", "[REDACTED]", "<replaced>", "<not serializable>"}
)
_HIDDEN_CHARACTERS_MAX = max(map(len, _HIDDEN))
_CUT = re.compile(r"(\.\.\.|…|\[TRUNCATED: original length \d+\]|… \(truncated\))$")
_SURROGATES = re.compile(r"[\ud800-\udfff\x00]")
_OPENERS = {"{": "}", "[": "]", '"': '"'}
_DECODES_MAX = 3
_REPR_BYTES_MAX = 65_536
_SLOTS_MAX = 10_000
_DEPTH_MAX = 100
_EXACT_FLOAT = 2**53

Parsed = tuple[Any, ContentState]


def duration_ns(text: str, *, least_ns: int = 0) -> int:
    """Nanoseconds of a duration such as ``30s``, ``1.5h`` or ``1h30m``, of at most 3650d.

    ``least_ns`` is for where a shorter one has no meaning. Raises ValueError.
    """
    position, total = 0, 0.0
    for match in _DURATION.finditer(text):
        if match.start() != position:
            break
        total += float(match[1]) * _UNIT_NS[match[2]]
        position = match.end()
    if not text or position != len(text):
        said = repr(text[:80])
        raise ValueError(f"{said} is not a duration; write e.g. 500ms, 30s, 10m, 24h or 30d")
    if total > DURATION_MAX_NS:  # sums with the present must fit in 64 bits
        raise ValueError(f"{text[:80]} is longer than {DURATION_MAX_NS // _UNIT_NS['d']}d")
    if total < least_ns:
        raise ValueError(f"{text[:80]} is shorter than {least_ns / _UNIT_NS['ms']:g}ms")
    return int(total)


def name(value: Any) -> str | None:
    """An id or name without blanks around it; None for anything that stands for "no value"."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    return None if text in _NO_NAME else text


def integer(value: Any) -> int | None:
    """A whole number from an int, an integral float, its text or ``{low, high}``; else None."""
    if type(value) is int:  # the usual case first; a bool is no number
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        text = value.strip()
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,40}", text) else _from_float(text)
    if isinstance(value, dict) and value.keys() == {"low", "high"}:
        low, high = integer(value["low"]), integer(value["high"])
        return None if low is None or high is None else (high << 32) | (low & 0xFFFFFFFF)
    return None


def _from_float(text: str) -> int | None:
    number = finite(text)
    return int(number) if number is not None and number.is_integer() else None


def finite(value: Any) -> float | None:
    """A finite number from a number or its text; None for NaN, infinities and anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def truth(value: Any) -> bool | None:
    """A known boolean from true, "true", 1 and their opposites; None for anything else."""
    if isinstance(value, str):
        return {"true": True, "false": False, "1": True, "0": False}.get(value.strip().lower())
    return bool(value) if isinstance(value, bool | int) and value in (0, 1) else None


def bytes_value(raw: bytes) -> dict[str, str]:
    """Bytes as JSON: ``{"$b64": ...}``."""
    return {"$b64": base64.b64encode(raw).decode()}


def clean(value: Any) -> Any:
    """The value without NaN, infinities, lone surrogates and NUL: what JSON and UTF-8 can hold."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value


def first(attributes: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The value of the first key that is there and not None."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value
    return None


def first_name(attributes: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """The first usable name under the keys."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and (text := value.strip()) not in _NO_NAME:
            return text
    return None


def first_integer(attributes: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """The first whole number that is not negative under the keys."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and (found := integer(value)) is not None and found >= 0:
            return found
    return None


def parse(value: Any) -> Parsed:
    """What a content value says, and its state.

    A string whose first character opens an object, a list or a string is read as JSON, then as a
    Python literal; any other string is itself. Broken JSON comes back as text, state truncated or
    invalid_json.
    """
    if value is None:
        return None, "null"
    if not isinstance(value, str):
        return value, "captured"
    if _is_hidden(value):
        return None, "redacted"
    begins = value[:1]
    if begins not in _OPENERS:
        begins = value.lstrip()[:1]
        if begins not in _OPENERS:
            return value, "captured" if begins else "empty"
    current: Any = value
    for _ in range(_DECODES_MAX):
        if not isinstance(current, str) or _is_hidden(current):
            break
        if current.lstrip()[:1] not in _OPENERS:
            break
        decoded, state = _parse_text(current)
        if state not in ("captured", "repr"):
            return (value, state) if current is value else (current, "captured")
        current = decoded
        if state == "repr":
            return current, state
    if isinstance(current, str) and _is_hidden(current):
        return None, "redacted"
    return current, "captured"


def _is_hidden(text: str) -> bool:
    return len(text) <= _HIDDEN_CHARACTERS_MAX and text in _HIDDEN


def _parse_text(text: str) -> Parsed:
    decoded, state = _decode(text)
    if state in ("captured", "repr") and too_deep(decoded, text):
        return text, "invalid_json"
    return decoded, state


def too_deep(value: Any, text: str | None = None) -> bool:
    """Whether a value nests deeper than 100: walkers recurse, so nothing deeper is let in.

    ``text``, where the value was read from one, saves the walk when it opens few brackets.
    """
    if text is not None and text.count("{") + text.count("[") + text.count("(") <= _DEPTH_MAX:
        return False
    level = [value]
    for _ in range(_DEPTH_MAX):
        level = [
            item
            for node in level
            if isinstance(node, dict | list)
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


def _decode(text: str) -> Parsed:
    try:
        return msgspec.json.decode(text), "captured"
    except (ValueError, RecursionError):
        pass
    try:  # lone surrogates and doubles out of range pass here, NaN and Infinity do not
        return clean(json.loads(text, parse_constant=_refuse)), "captured"
    except (ValueError, RecursionError):
        pass
    literal = _literal(text)
    if literal is not None:
        return literal, "repr"
    tail = text.rstrip()
    opener = text.lstrip()[0]
    cut = _CUT.search(tail) or tail[-1] != _OPENERS[opener] or tail == opener
    return text, "truncated" if cut else "invalid_json"


def _refuse(token: str) -> Any:
    raise ValueError(token)


def _literal(text: str) -> Any:
    """A Python literal of JSON-like content (``{'a': None}``), or None."""
    if len(text) > _REPR_BYTES_MAX:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
    try:
        return json.loads(json.dumps(clean(found)))
    except (ValueError, TypeError, RecursionError):
        return None


_sorted_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode


def canonical(value: Any) -> str:
    """A text equal for equal JSON values (rule 4); a string that holds JSON is that JSON."""
    parsed, _ = parse(value)
    return _sorted_json(_plain(parsed))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
        return int(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def slots(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Flattened lists regrouped: ``prefix + "3.a.b"`` gives ``{"a.b": value}`` as item 3.

    In the order of the numbers; gaps are closed; at most 10,000 items; a key without number is left
    out.
    """
    places = _PLACES.get(prefix) or _PLACES.setdefault(prefix, by_keys(partial(_places, prefix)))
    return [{rest: attributes[key] for rest, key in item} for item in places(tuple(attributes))]


_Slot = tuple[tuple[str, str], ...]
_PLACES: dict[str, Callable[[Keys], tuple[_Slot, ...]]] = {}  # one a prefix: they are constants


def _places(prefix: str, keys: Keys) -> tuple[_Slot, ...]:
    """For each number after the prefix what follows it, and the whole key."""
    found: dict[int, dict[str, str]] = {}
    start = len(prefix)
    for key in [key for key in keys if key.startswith(prefix)]:
        number, _, rest = key[start:].partition(".")
        if number.isdecimal() and len(number) < 20 and (len(found) < _SLOTS_MAX):
            found.setdefault(int(number), {})[rest] = key
    return tuple(tuple(found[number].items()) for number in sorted(found))


def looks_like_schema(value: Any) -> bool:
    """Whether an object is a JSON schema of arguments rather than arguments."""
    if not isinstance(value, dict) or not value:
        return False
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        return True
    return all(
        isinstance(item, dict) and item.keys() & {"type", "description", "anyOf", "$ref"}
        for item in value.values()
    )
