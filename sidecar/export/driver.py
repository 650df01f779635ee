"""The exporters' loops: each sends what waits for it, at its own pace, from its own cursor.

Rules
1. The cursor moves when all before it was delivered, refused for good or given up, and not before:
   a process that dies sends the last window again (at least once, never less).
2. A downstream that fails is tried again for as long as the queue holds; it delays no other.
3. A refusal that may be about one item halves the request until the item stands alone.
4. What is not delivered is counted by its fate and logged without content.
5. Nothing is sent by a process that has stopped being the one to send for its exporter.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.export.batch import Request, Wanted, halves, planned
from sidecar.export.retry import Answer, Delivered, Failed, Pauses, Refused
from sidecar.store.outbox import SENT, Advance, Tally
from sidecar.store.ports import Outbox
from sidecar.telemetry import log

REJECTED = "rejected"
_WINDOW_ITEMS = 512
_WINDOW_REQUESTS = 4
_REST_SECONDS_MIN, _REST_SECONDS_MAX = 0.05, 0.5
_END_SECONDS = 3.0

_log = log("export")


class Sender(Protocol):
    """A wire to one downstream."""

    async def send(self, request: Request) -> Answer:
        """One attempt; never raises for what the world does."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class Lane(Struct, frozen=True, kw_only=True):
    """One exporter: its name, what it wants, its pauses and its wire."""

    name: str
    wanted: Wanted
    pauses: Pauses
    sender: Sender


class _TryLater(Exception):
    def __init__(self, failed: Failed) -> None:
        self.failed = failed
        super().__init__(failed.message)


class _NotOurs(Exception):
    """Another process may send for this lane by now."""


class Exporter:
    """One lane's loop over the outbox. ``dice`` gives a number in [0, 1)."""

    def __init__(self, lane: Lane, outbox: Outbox, dice: Callable[[], float]) -> None:
        self._lane = lane
        self._outbox = outbox
        self._dice = dice
        self._done: set[int] = set()
        self._tallies: list[Tally] = []
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Send until ``stop``. Raises StoreUnavailable."""
        rest = _REST_SECONDS_MIN
        while not stop.is_set():
            try:
                found = await self.step()
            except _TryLater as later:
                await _sleep(self._pause(later.failed), stop)
                continue
            except _NotOurs:  # the next step begins with asking for the lane again
                found = False
            if found:
                rest = _REST_SECONDS_MIN
            else:
                await _sleep(rest, stop)
                rest = min(2 * rest, _REST_SECONDS_MAX)

    async def step(self) -> bool:
        """Send one window and move the cursor; False when nothing waits."""
        before = self._outbox.position(self._lane.name)
        waiting = self._outbox.items_after(
            before,
            count_max=_WINDOW_ITEMS,
            bytes_max=_WINDOW_REQUESTS * self._lane.wanted.bytes_max,
        )
        if not waiting:
            return False
        plan = planned(waiting, self._lane.wanted, self._done)
        for request in plan.requests:
            await self._deliver(request)
        tallies = (*plan.tallies, *self._tallies)
        step = Advance(name=self._lane.name, seq=waiting[-1].seq, tallies=tallies)
        await self._outbox.advance(step)
        self._done.clear()
        self._tallies.clear()
        return True

    async def _deliver(self, request: Request) -> None:
        """Until every item of the request has met its fate. Raises _TryLater, _NotOurs."""
        if not self._outbox.sends(self._lane.name):
            raise _NotOurs
        match await self._attempt(request):
            case Failed() as failed:
                raise _TryLater(failed)
            case Delivered(rejected=rejected):
                self._recovered()
                refused = min(rejected, request.items)
                self._settle(request, SENT, request.items - refused)
                if refused:
                    self._settle(request, REJECTED, refused)
            case Refused(divisible=True) if len(request.parts) > 1:
                for half in halves(request):
                    await self._deliver(half)
            case Refused(fate=fate, message=message):
                self._recovered()
                self._settle(request, fate, request.items)
                _log.error(
                    "export_refused",
                    exporter=self._lane.name,
                    signal=request.signal,
                    items=request.items,
                    reason=message,
                )

    async def _attempt(self, request: Request) -> Answer:
        try:
            return await self._lane.sender.send(request)
        except StoreUnavailable:
            raise
        except Exception as error:
            # A fault of ours in one wire: the others go on, and this one tries again.
            return Failed(message=f"fault: {type(error).__name__}")

    def _settle(self, request: Request, fate: str, items: int) -> None:
        self._done |= request.seqs
        if items:
            self._tallies.append(Tally(signal=request.signal, fate=fate, items=items))

    def _pause(self, failed: Failed) -> float:
        self._failures += 1
        pause = self._lane.pauses.after(self._failures, failed.asked_ns, self._dice()) / 1e9
        _log.warning(
            "export_failed",
            exporter=self._lane.name,
            reason=failed.message,
            failures=self._failures,
            again_in_seconds=round(pause, 3),
        )
        return pause

    def _recovered(self) -> None:
        if self._failures:
            _log.info("export_recovered", exporter=self._lane.name, failures=self._failures)
        self._failures = 0


async def export(
    lanes: Sequence[Lane], outbox: Outbox, dice: Callable[[], float], stop: asyncio.Event
) -> None:
    """All lanes until ``stop``. Raises StoreUnavailable when the store fails."""
    try:
        async with asyncio.TaskGroup() as loops:
            tasks = [loops.create_task(Exporter(lane, outbox, dice).run(stop)) for lane in lanes]
            loops.create_task(_end(tasks, stop))
    except* StoreUnavailable as group:
        raise group.exceptions[0] from None
    finally:
        for lane in lanes:
            await lane.sender.close()


async def _end(tasks: Sequence[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """What is under way at the end may finish, for a moment; what does not is sent again."""
    await stop.wait()
    await asyncio.wait(tasks, timeout=_END_SECONDS)
    for task in tasks:
        task.cancel()


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        pass


def dice() -> float:
    """A throw in [0, 1) from the system's randomness."""
    return int.from_bytes(clock.random_bytes(6)) / 2**48
