"""The order of a recording kept in its replay: who may go on, and who waits until it is his turn.

**Rules**
1. An event is due when all before it on the tape have happened. An awaited answer is handed over
   when it is due; another thread's call waits until its event is.
2. Nobody waits for what cannot come: an event due in a thread that waits itself, or is over.
   ``reordered`` counts what happened before its turn; it is no drift: lanes keep their keys.
3. A loop with nothing left to do hands over the earliest answer that is waited for, due or not.
"""

import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from sidecar.capture.seams.lanes import Lane
from sidecar.tape.model import Event

if TYPE_CHECKING:
    import asyncio

_TICK_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 2.0
NEVER: Final = 2**62  # the turn of what was cancelled
_Waiter = tuple["asyncio.AbstractEventLoop", "asyncio.Future[None]"]


class Turns:
    """The turns of one replay. ``events``: those that can happen again."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.reordered = 0
        self._order = [(one.seq, str(one.attr.get("lane", ""))) for one in events]
        self._next = 0
        self._happened: set[int] = set()
        self._waiting: dict[int, _Waiter] = {}
        self._changed = threading.Condition()
        self._threads: set[str] = set()  # lanes that other threads are at work in

    @property
    def due(self) -> int | None:
        """The next event's seq; None when all have happened."""
        return self._order[self._next][0] if self._next < len(self._order) else None

    def happened(self, seq: int) -> None:
        """An event happened; whose turn is next goes on. Called by one thread at a time."""
        if not self._threads and not self._waiting and seq == self.due and not self._happened:
            self._next += 1
            return
        with self._changed:
            if seq != self.due:
                self.reordered += 1
                self._happened.add(seq)
                return
            self._next += 1
            while (due := self.due) is not None and due in self._happened:
                self._happened.discard(due)
                self._next += 1
            if self._waiting and due is not None:
                self._hand_over(due)
            if self._threads:
                self._changed.notify_all()

    def hold(self, seq: int, lane: Lane) -> None:
        """Wait in a thread until an event is due. Where there are no threads, nothing waits."""
        if not self._threads:
            return
        with self._changed:
            waited, before = 0.0, self._next
            while self._is_for_another(seq, lane) and waited < _PATIENCE_SECONDS:
                self._changed.wait(_TICK_SECONDS)
                waited = waited + _TICK_SECONDS if self._next == before else 0.0
                before = self._next

    async def arrive(self, seq: int) -> None:
        """Wait in a loop until an event is due."""
        with self._changed:
            if self._had_its_turn(seq):
                return
            loop = _running()
            assert loop is not None
            future: asyncio.Future[None] = loop.create_future()
            if seq != NEVER:
                self._waiting[seq] = (loop, future)
        if seq != NEVER and not hasattr(
            loop, "_selector"
        ):  # no loop of Python's own says when it has nothing to do
            loop.call_later(_PATIENCE_SECONDS, _resolve, future)
        try:
            await future
        finally:
            self._waiting.pop(seq, None)

    def release(self, loop: Any) -> bool:
        """A loop has nothing to do: let go whoever waits in it for the earliest event."""
        with self._changed:
            mine = [seq for seq, (of, _) in self._waiting.items() if of is loop]
            if not mine:
                return False
            self._hand_over(min(mine))
            return True

    def begin_thread(self, lane: Lane) -> None:
        """A lane's work is another thread's."""
        with self._changed:
            self._threads.add(lane.name)

    def end_thread(self, lane: Lane) -> None:
        """It is done."""
        with self._changed:
            self._threads.discard(lane.name)
            self._changed.notify_all()

    def is_busy_beside(self, lane: Lane) -> bool:
        """Whether other threads than that of a lane are at work."""
        if not self._threads:
            return False
        with self._changed:
            return self._threads != {self._thread_of(lane.name)}

    def _had_its_turn(self, seq: int) -> bool:
        """Whether it is an event's turn, or was: an answer's body is waited for after its head."""
        due = self.due
        return seq in self._happened or (seq != NEVER and (due is None or seq <= due))

    def _is_for_another(self, seq: int, lane: Lane) -> bool:
        """Whether what is due before ``seq`` is another thread's that may still do it."""
        due = self.due
        if due is None or due >= seq:
            return False
        theirs = self._thread_of(self._order[self._next][1])
        return theirs != self._thread_of(lane.name)

    def _thread_of(self, name: str) -> str:
        while name and name not in self._threads:
            name = name.rpartition(".")[0]
        return name

    def _hand_over(self, seq: int) -> None:
        waiter = self._waiting.pop(seq, None)
        if waiter is None:
            return
        loop, future = waiter
        if _running() is loop:
            _resolve(future)
        else:
            loop.call_soon_threadsafe(_resolve, future)


def _running() -> "asyncio.AbstractEventLoop | None":
    """The running loop; an agent that has none need not load what makes them."""
    module = sys.modules.get("asyncio.events")
    return None if module is None else module._get_running_loop()


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
