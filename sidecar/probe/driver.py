"""The probes' loop: ask, look again while state may still settle, and hand the evidence back.

Rules
1. A probe never raises: whatever goes wrong is evidence with ``held`` None and a code. So is an
   answer that a wire's own reader fails on: what the world holds keeps no trace from its verdict.
2. ``deadline`` bounds each try. While the expectation does not hold, it is asked again with growing
   pauses until ``until`` has passed; the last answer stands.
3. With ``stable_for``, what holds is looked at again until it has held that long; what does not get
   so far in time is unknown.
4. At most ``AT_ONCE`` questions are on their way to one upstream, server or database, whichever
   traces they are about.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

from processors.model.evidence import Evidence
from sidecar import clock
from sidecar.probe.plan import ProbeRequest, unknown
from sidecar.telemetry import log

_LOG = log("probe")
AT_ONCE = 8
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.05, 2.0


class Asker(Protocol):
    """A wire by which the world is asked."""

    async def ask(self, request: ProbeRequest, attempts: int, now: clock.Now) -> Evidence:
        """One try, within the request's deadline. Never raises for what the world does."""
        ...


class Askers(Struct, frozen=True, kw_only=True):
    """The wires of a process, and who waits for which."""

    http: Asker
    sql: Asker
    mcp: Asker
    seats: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    def of(self, request: ProbeRequest) -> Asker:
        """The wire of a request."""
        if request.sql is not None:
            return self.sql
        return self.mcp if request.mcp is not None else self.http


async def run(
    requests: Sequence[ProbeRequest], askers: Askers, *, now: clock.Now = clock.now_ns
) -> tuple[Evidence, ...]:
    """The evidence of each request, in the same order."""
    return tuple(await asyncio.gather(*(_settled(each, askers, now) for each in requests)))


async def _settled(request: ProbeRequest, askers: Askers, now: clock.Now) -> Evidence:
    if request.refused is not None:
        return unknown(request, request.refused, now_ns=now())
    seat = askers.seats.setdefault(request.seat, asyncio.Semaphore(AT_ONCE))
    ends_ns = clock.monotonic_ns() + request.until_ns
    held_since: int | None = None
    pause, attempts = _PAUSE_SECONDS_MIN, 0
    while True:
        attempts += 1
        async with seat:
            found = await _tried(request, askers, attempts, now)
        at = clock.monotonic_ns()
        if found.held:
            held_since = at if held_since is None else held_since
            if at - held_since >= request.stable_ns:
                return found
        else:
            held_since = None
        left = (ends_ns - at) / 1e9
        if left <= 0:
            break
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)
    if found.held:
        return unknown(request, "not_stable_yet", now_ns=now(), data=found.data)
    return found


async def _tried(request: ProbeRequest, askers: Askers, attempts: int, now: clock.Now) -> Evidence:
    try:
        return await askers.of(request).ask(request, attempts, now)
    except Exception as error:  # a date that no datetime holds, a number of 5,000 digits …
        _LOG.warning("probe_answer_unreadable", probe=request.probe, kind=type(error).__name__)
        data = {"attempts": attempts}
        return unknown(request, "answer_unreadable", now_ns=now(), data=data)
