"""Moments as a tape writes them: RFC 3339 in UTC, with nanoseconds, which no JSON number holds."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000_000
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)


def moment(ns: int) -> str:
    """``2026-07-01T12:00:00.123456789Z`` of nanoseconds since 1970; never raises for 64 bits."""
    seconds, rest = divmod(ns, _SECOND)
    try:
        day = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        day, rest = _EPOCH, 0
    return f"{day:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def nanoseconds(text: str) -> int:
    """Nanoseconds since 1970 of such a text. Raises ValueError."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError("no moment in UTC")
    day = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)  # refuses a 31st of June
    seconds = (day - _EPOCH) // timedelta(seconds=1)
    return seconds * _SECOND + int((found[2] or "0").ljust(9, "0"))
