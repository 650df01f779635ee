"""Virtual time: it moves when a call says so, and never looks at a wall.

Rules
1. Times are integer nanoseconds since the Unix epoch; ``text`` is RFC 3339 in UTC with
   milliseconds.
2. Nothing waits: a timeout of 30 s moves the clock by 30 s and returns at once.
3. Timers fire in the order of (time, agent, sequence number): ties have one order, whoever set
   them.
4. The clock and its timers change through the journal alone, so that they go back with the rest.
5. While the clock is paused, calls take no time; what moves it then is asked for by name.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from processors.value import duration_ns
from sidecar.twins.journal import Cells, Journal

_SECOND_NS = 1_000_000_000
EARLIEST_NS = -62_135_596_800 * _SECOND_NS
LATEST_NS = 253_402_300_799 * _SECOND_NS
"""The first second of the year 1 and the last of 9999: what RFC 3339 can write."""


class Timer(Struct, frozen=True, kw_only=True):
    """Something of ``twin`` that happens at a time: a message of a queue, or effects on their way.

    ``subject`` is the queue or the tool, ``payload`` what its twin needs to know then.
    """

    at_ns: int
    agent: str
    seq: int
    twin: str
    kind: Literal["message", "effects"]
    subject: str
    payload: Any = None

    @property
    def order(self) -> tuple[int, str, int]:
        """Which of two timers fires first."""
        return self.at_ns, self.agent, self.seq


class Timeline:
    """The clock of a world, or of several that share one, and what is to happen."""

    def __init__(self, journal: Journal, at_ns: int) -> None:
        self._journal = journal
        self._clock: Cells = {"now": at_ns, "seq": 0, "fired": 0, "paused": False}
        self._timers: Cells = {}

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return int(self._clock["now"])

    @property
    def paused(self) -> bool:
        """Whether calls take no time."""
        return bool(self._clock["paused"])

    @property
    def cells(self) -> tuple[Cells, Cells]:
        """All of it, for a digest."""
        return self._clock, self._timers

    def set_time(self, at_ns: int) -> None:
        """Put the clock somewhere; nothing fires."""
        self._journal.put(self._clock, "now", at_ns)

    def pause(self, paused: bool = True) -> None:
        """Stop the clock, or let it run again."""
        self._journal.put(self._clock, "paused", paused)

    @property
    def fired(self) -> int:
        """How many timers have fired."""
        return int(self._clock["fired"])

    def next_seq(self) -> int:
        """A number larger than those before."""
        seq: int = self._clock["seq"] + 1
        self._journal.put(self._clock, "seq", seq)
        return seq

    def schedule(self, timer: Timer) -> None:
        """Set a timer."""
        self._journal.put(self._timers, str(timer.seq), timer)

    def pending(self) -> list[Timer]:
        """The timers in the order in which they will fire."""
        return sorted(self._timers.values(), key=_order)

    def take_due(self, until_ns: int) -> Timer | None:
        """The first timer that is due by then, taken; the clock is put to its time."""
        if not self._timers:
            return None
        first: Timer = min(self._timers.values(), key=_order)
        if first.at_ns > until_ns:
            return None
        self._journal.drop(self._timers, str(first.seq))
        self._journal.put(self._clock, "fired", self.fired + 1)
        self.set_time(max(self.now_ns, first.at_ns))
        return first


def _order(timer: Timer) -> tuple[int, str, int]:
    return timer.order


def start_ns(text: str) -> int:
    """Nanoseconds of an RFC 3339 time with an offset, exact to the microsecond. Raises
    ValueError.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * _SECOND_NS + since.microseconds * 1_000


@lru_cache(maxsize=256)  # a clock stands, or goes in few steps
def text(at_ns: int) -> str:
    """``2026-01-05T09:00:00.000Z``; of a time that cannot be written, the nearest that can."""
    at_ns = max(EARLIEST_NS, min(at_ns, LATEST_NS))
    moment = datetime.fromtimestamp(at_ns // _SECOND_NS, tz=UTC)
    milliseconds = at_ns % _SECOND_NS // 1_000_000
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def later(at_ns: int, duration: str) -> int:
    """The time a duration such as ``1s`` or ``250ms`` after ``at_ns``."""
    return at_ns + duration_ns(duration)
