"""Points in time as people type them: ``2026-07-01T12:00:00Z``, ``2026-07-01``, or ``24h`` ago.

What looks at tapes loads this and nothing of ``processors``, so a length is read where it is asked.
"""

from datetime import UTC, datetime

import click

from sidecar import clock

HELP = "A time (2026-07-01T12:00:00Z) or how long ago (30m, 24h, 7d)."


class Moment(click.ParamType[int]):
    """Nanoseconds since the Unix epoch; a time without a zone is UTC."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The moment a text means; click reports one that means none."""
        if isinstance(value, int):
            return value
        text = str(value)
        from processors.value import duration_ns

        try:
            return clock.now_ns() - duration_ns(text)
        except ValueError:
            pass  # not a duration: it may be a time
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is neither a time nor a duration", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1_000_000) * 1000


class Duration(click.ParamType[int]):
    """Nanoseconds of ``30m``, ``24h`` or ``7d``."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The length a text means; click reports one that means none."""
        if isinstance(value, int):
            return value
        from processors.value import duration_ns

        try:
            return duration_ns(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def instant(at_ns: int) -> str:
    """A point in time for people, in UTC: ``2026-07-01T12:00:00Z``."""
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
