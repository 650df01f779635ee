"""Virtual time: it moves when a call says so, and never looks at a wall.

Rules
1. Times are integer nanoseconds since the Unix epoch; ``text`` is RFC 3339 in UTC with
   milliseconds.
2. Nothing waits: a timeout of 30 s moves the clock by 30 s and returns at once.
"""

from datetime import UTC, datetime

from processors.value import duration_ns

_SECOND_NS = 1_000_000_000


def start_ns(text: str) -> int:
    """Nanoseconds of an RFC 3339 time with an offset, exact to the microsecond. Raises
    ValueError.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * _SECOND_NS + since.microseconds * 1_000


def text(at_ns: int) -> str:
    """``2026-01-05T09:00:00.000Z``."""
    moment = datetime.fromtimestamp(at_ns // _SECOND_NS, tz=UTC)
    milliseconds = at_ns % _SECOND_NS // 1_000_000
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def later(at_ns: int, duration: str) -> int:
    """The time a duration such as ``1s`` or ``250ms`` after ``at_ns``."""
    return at_ns + duration_ns(duration)
