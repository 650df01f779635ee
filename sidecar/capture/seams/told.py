"""Values of the ambient seams as payloads, and back with equal value and type.

**Rules**
1. ``read_back(told(x))`` equals ``x`` and has its type, to the bit of a float.
2. What JSON has is told plainly. What it lacks is ``{"type": …, "value": …}``: a float that looks
   like an integer, an integer beyond 2**53 - 1 (in hexadecimal: sixteen decimal digits may pass for
   a card's), a tuple, bytes that are no text, a time.
3. What has no such form raises ``Untold``; numpy's values are told only where the agent has numpy.
"""

import os
import sys
import time
import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone, tzinfo
from datetime import time as clock_time
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, Final

from sidecar.tape.value import INTEGER_MAX

LOST: Final = object()  # no form on a tape: the composer counts it as truncated


class Untold(Exception):
    """A value that no payload can hold."""


def told(value: Any) -> Any:
    """A value as a payload. Raises Untold."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    teller = _TOLD.get(kind)
    if teller is not None:
        return teller(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return _numpy_told(numpy, value)
    raise Untold(kind.__name__)


def class_told(value: Any) -> dict[str, str]:
    """What is told of a value that cannot be: its class."""
    kind = type(value)
    return _typed("object", f"{kind.__module__}.{kind.__qualname__}")


def read_back(payload: Any) -> Any:
    """The value that was told."""
    if isinstance(payload, list):
        return [read_back(one) for one in payload]
    if not isinstance(payload, dict):
        return payload
    return _BACK[payload["type"]](payload["value"])


def _typed(kind: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "value": value}


def _text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return _typed("surrogates", value.encode("utf-8", "surrogatepass"))
    return value


def _int(value: int) -> Any:
    return value if -INTEGER_MAX <= value <= INTEGER_MAX else _typed("int", hex(value))


def _float(value: float) -> Any:
    plain = value == value and abs(value) < INTEGER_MAX and not value.is_integer()
    return value if plain else _typed("float", repr(value))


def _moment(value: datetime) -> Any:
    zone = None if value.tzinfo is None else _zone(value.tzinfo, value)
    return _typed("datetime", [value.replace(tzinfo=None).isoformat(), value.fold, zone])


def _zone(zone: tzinfo, at: datetime | None) -> Any:
    key = getattr(zone, "key", None)
    if isinstance(key, str) and type(zone).__module__ == "zoneinfo":
        return {"key": key}
    offset = zone.utcoffset(at)
    if type(zone) is not timezone or offset is None:
        raise Untold(type(zone).__name__)
    plain = timezone(offset)
    name = zone.tzname(None)
    return {"offset": _length(offset)["value"], "name": None if repr(zone) == repr(plain) else name}


def _moment_back(parts: list[Any]) -> datetime:
    text, fold, zone = parts
    return datetime.fromisoformat(text).replace(tzinfo=zone and _zone_back(zone), fold=fold)


def _zone_back(zone: dict[str, Any]) -> tzinfo:
    if "key" in zone:
        from zoneinfo import ZoneInfo

        return ZoneInfo(zone["key"])
    offset = timedelta(*zone["offset"])
    if zone["name"] is not None:
        return timezone(offset, zone["name"])
    return timezone(offset) if offset else timezone.utc  # noqa: UP017 - as datetime.UTC, itself


def _length(value: timedelta) -> dict[str, Any]:
    return _typed("timedelta", [value.days, value.seconds, value.microseconds])


def _day_time(value: clock_time) -> Any:
    zone = None if value.tzinfo is None else _zone(value.tzinfo, None)
    return _typed("time", [value.replace(tzinfo=None).isoformat(), value.fold, zone])


def _day_time_back(parts: list[Any]) -> clock_time:
    text, fold, zone = parts
    return clock_time.fromisoformat(text).replace(tzinfo=zone and _zone_back(zone), fold=fold)


def _broken_down(value: time.struct_time) -> Any:
    return _typed("struct_time", [*value, value.tm_zone, value.tm_gmtoff])


def _uuid(value: uuid.UUID) -> Any:
    return _typed("uuid", [str(value), value.is_safe.name])


def _uuid_back(parts: list[str]) -> uuid.UUID:
    return uuid.UUID(parts[0], is_safe=uuid.SafeUUID[parts[1]])


def _stat(value: os.stat_result) -> Any:
    made: Any = value.__reduce__()
    plain, more = made[1]
    named = {key: told(one) for key, one in more.items()}
    return _typed("stat", [[told(one) for one in plain], named])


def _stat_back(parts: list[Any]) -> os.stat_result:
    named = {key: read_back(one) for key, one in parts[1].items()}
    return os.stat_result(tuple(map(read_back, parts[0])), named)


def _path(value: PurePath) -> Any:
    return _typed("path", [type(value).__name__, told(str(value))])


def _path_back(parts: list[Any]) -> PurePath:
    kind, text = parts
    try:
        return _PATHS[kind](read_back(text))
    except NotImplementedError:  # a path of the other system
        return _PATHS[f"Pure{kind}"](read_back(text))


def _several(kind: str) -> Callable[[Any], Any]:
    return lambda value: _typed(kind, [told(one) for one in value])


def _unordered(kind: str) -> Callable[[Any], Any]:
    return lambda value: _typed(kind, sorted(map(told, value), key=repr))


def _pairs(value: dict[Any, Any]) -> Any:
    return _typed("dict", [[told(key), told(one)] for key, one in value.items()])


def _numpy_told(numpy: Any, value: Any) -> Any:
    kind = "array" if isinstance(value, numpy.ndarray) else "scalar"
    if value.dtype.hasobject or value.dtype.names is not None:
        raise Untold(f"numpy {kind} of {value.dtype}")
    whole = numpy.ascontiguousarray(value)
    return _typed(kind, [value.dtype.str, list(value.shape), whole.tobytes()])


def _array_back(parts: list[Any]) -> Any:
    numpy = sys.modules["numpy"]
    kind, shape, data = parts
    return numpy.frombuffer(bytearray(data), dtype=kind).reshape(tuple(shape))


_PATHS: Final[dict[str, type[PurePath]]] = {
    one.__name__: one for one in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
}
_TOLD: Final[dict[type, Callable[[Any], Any]]] = {
    str: _text,
    int: _int,
    float: _float,
    bytes: lambda value: value,
    bytearray: lambda value: _typed("bytearray", bytes(value)),
    complex: lambda value: _typed("complex", [repr(value.real), repr(value.imag)]),
    list: lambda value: [told(one) for one in value],
    tuple: _several("tuple"),
    set: _unordered("set"),
    frozenset: _unordered("frozenset"),
    dict: _pairs,
    datetime: _moment,
    date: lambda value: _typed("date", value.isoformat()),
    clock_time: _day_time,
    timedelta: _length,
    time.struct_time: _broken_down,
    uuid.UUID: _uuid,
    Decimal: lambda value: _typed("decimal", str(value)),
    Fraction: lambda value: _typed("fraction", [told(value.numerator), told(value.denominator)]),
    os.stat_result: _stat,
    **dict.fromkeys(_PATHS.values(), _path),
}
_BACK: Final[dict[str, Callable[[Any], Any]]] = {
    "surrogates": lambda value: value.decode("utf-8", "surrogatepass"),
    "int": lambda value: int(value, 16),
    "float": float,
    "bytearray": bytearray,
    "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "tuple": lambda parts: tuple(map(read_back, parts)),
    "set": lambda parts: set(map(read_back, parts)),
    "frozenset": lambda parts: frozenset(map(read_back, parts)),
    "dict": lambda pairs: {read_back(key): read_back(one) for key, one in pairs},
    "datetime": _moment_back,
    "date": date.fromisoformat,
    "time": _day_time_back,
    "timedelta": lambda parts: timedelta(*parts),
    "struct_time": lambda parts: time.struct_time(tuple(parts)),
    "uuid": _uuid_back,
    "decimal": Decimal,
    "fraction": lambda parts: Fraction(read_back(parts[0]), read_back(parts[1])),
    "stat": _stat_back,
    "path": _path_back,
    "array": _array_back,
    "scalar": lambda parts: _array_back(parts)[()],
}
