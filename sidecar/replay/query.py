"""``store:QUERY``: which stored traces to replay.

Rules
1. ``service|trace|since|until|outcome|limit=VALUE``, comma-separated; an unknown or repeated name
   is refused.
2. ``since`` and ``until`` are RFC 3339 times, or durations back from now (``24h``).
"""

from typing import cast, get_args

from processors.model.names import OutcomeStatus
from processors.value import duration_ns
from sidecar.errors import SidecarError
from sidecar.store.traces import TraceQuery
from sidecar.twins.timeline import start_ns

PREFIX = "store:"
LIMIT = 100
_NAMES = ("service", "trace", "since", "until", "outcome", "limit")


class StoreQuery(TraceQuery, frozen=True, kw_only=True):
    """A query for traces; ``trace`` names one, by its id."""

    trace: str | None = None


def read_query(text: str, *, project: str, now_ns: int) -> StoreQuery:
    """The query of ``store:…``. Raises SidecarError."""
    given: dict[str, str] = {}
    for part in text.removeprefix(PREFIX).split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in _NAMES or name in given or not value:
            raise SidecarError(
                f"{part.strip()!r} is no part of a query",
                where=text,
                do=f"Write store:NAME=VALUE,… with each of {', '.join(_NAMES)} at most once.",
            )
        given[name] = value
    outcome = given.get("outcome")
    if outcome is not None and outcome not in get_args(OutcomeStatus):
        words = ", ".join(get_args(OutcomeStatus))
        raise SidecarError(f"{outcome!r} is no outcome", where=text, do=f"Use one of {words}.")
    return StoreQuery(
        project=project,
        service=given.get("service"),
        trace=given.get("trace"),
        since_ns=_time(given.get("since"), text, now_ns),
        until_ns=_time(given.get("until"), text, now_ns),
        outcome=cast(OutcomeStatus | None, outcome),
        limit=_limit(given.get("limit"), text),
    )


def _time(value: str | None, text: str, now_ns: int) -> int | None:
    if value is None:
        return None
    try:
        return now_ns - duration_ns(value)
    except ValueError:
        pass  # not a duration; a time then
    try:
        return start_ns(value)
    except ValueError:
        raise SidecarError(
            f"{value!r} is neither a duration nor a time",
            where=text,
            do="Write e.g. 24h or 2026-01-05T09:00:00Z.",
        ) from None


def _limit(value: str | None, text: str) -> int:
    if value is None:
        return LIMIT
    if not value.isdigit() or not 0 < int(value) <= 10_000:
        raise SidecarError(f"limit={value} is not between 1 and 10000", where=text)
    return int(value)
