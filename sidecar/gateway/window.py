"""The windows of budgets: rolling ones by their length, calendar ones by their start and end.

**Rules**
1. A rolling window (``24h``) ends now. A calendar window (``day``, ``week``, ``month``) begins at
   midnight of a time zone, a week on Monday (ISO 8601): days of 23 and 25 hours are one day.
2. Nothing here reads a clock: the moment is an argument.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from msgspec import Struct

from processors.value import duration_ns

ROLLING_LEAST_NS = 1_000_000_000
_SECOND_NS = 1_000_000_000
_FIRST_DAYS: dict[str, Callable[[date], date]] = {
    "day": lambda day: day,
    "week": lambda day: day - timedelta(days=day.weekday()),
    "month": lambda day: day.replace(day=1),
}
_NEXT_DAYS: dict[str, Callable[[date], date]] = {
    "day": lambda first: first + timedelta(days=1),
    "week": lambda first: first + timedelta(days=7),
    "month": lambda first: (first + timedelta(days=32)).replace(day=1),
}


class Window(Struct, frozen=True, kw_only=True):
    """A window at one moment: of length ``length_ns``, or from ``start_ns`` to ``end_ns``."""

    length_ns: int = 0
    start_ns: int = 0
    end_ns: int | None = None


def is_calendar(text: str) -> bool:
    """Whether a window goes by the calendar."""
    return text in _FIRST_DAYS


def read_window(text: str, zone: str, now_ns: int) -> Window:
    """The window at ``now_ns``. Raises ValueError where the text is none."""
    if not is_calendar(text):
        return Window(length_ns=duration_ns(text, least_ns=ROLLING_LEAST_NS))
    where: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)
    today = datetime.fromtimestamp(now_ns // _SECOND_NS, UTC).astimezone(where).date()
    first = _FIRST_DAYS[text](today)
    return Window(
        start_ns=_midnight(first, where), end_ns=_midnight(_NEXT_DAYS[text](first), where)
    )


def _midnight(day: date, where: tzinfo) -> int:
    local = datetime(day.year, day.month, day.day, tzinfo=where)
    return int(local.timestamp()) * _SECOND_NS
