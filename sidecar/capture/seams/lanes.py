"""Lines of execution: what each has done last, and so what its next event comes after.

**Rules**
1. A lane is one line of execution: the main one, a task's, a thread's, a piece of work handed to a
   pool. It is named by who started it and how many that one had started before (``0.2``), never by
   when; the main lane has no name.
2. ``frontier`` is what the lane's next event comes after. A new lane begins with its starter's; one
   that waits for another takes over what that one had done.
3. What a seam's real thing does inside is mute: other seams see no session there, and what it
   starts is no lane.
4. Whose lane this is: a task's own; else what a pool or a thread was given to do, unless a context
   within it says more; else what the context says.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Key = tuple[str, str, str]


class Lane:
    """One line of execution; used by one thread at a time. ``work``: what a thread does in it;
    ``own``: the agent's own code gave it to a pool."""

    __slots__ = (
        *("_base", "_past", "_taken", "frontier", "hits", "name", "own", "started"),
        *("strangers", "thread", "work"),
    )

    def __init__(
        self, name: str = "", frontier: tuple[int, ...] = (), work: "Lane | None" = None
    ) -> None:
        self.name = name
        self.frontier = self._base = frontier
        self._past = set(frontier)  # what this lane comes after, as far as it was its last
        self._taken: dict[str, tuple[int, ...]] = {}
        self.started = 0
        self.own = False
        self.hits: dict[Key, int] = {}
        self.work = work
        self.thread: int | None = None  # the main lane's
        self.strangers = 0

    def stranger(self) -> "Lane":
        """A lane of a thread that nobody here has started."""
        count = self.strangers
        self.strangers = count + 1
        return Lane(f"~{count}", self.frontier)

    def start(self, *, work: bool = False) -> "Lane":
        """A lane started from here; ``work``: for another thread to do."""
        count = self.started
        self.started = count + 1
        name = f"{self.name}.{count}" if self.name else str(count)
        lane = Lane(name, self.frontier, self.work)
        if work:
            lane.work = lane
        return lane

    def join(self, other: "Lane", done: tuple[int, ...] | None = None) -> None:
        """What comes next comes after what another lane did (``done``: up to there), too, and so
        not merely after what that one came after itself."""
        done = other.frontier if done is None else done
        if done in (other._base, self.frontier) or self._taken.get(other.name) == done:
            return
        self._taken[other.name] = done
        rest = {one for one in self.frontier if one not in other._past}
        self.frontier = tuple(sorted({*rest, *done}))
        self._past.update(done)

    def passed(self, seq: int, cause: tuple[int, ...]) -> None:
        """An event of this lane was written, which came after ``cause``."""
        self._past.add(seq)
        if self.frontier == cause:
            self.frontier = (seq,)
        else:
            rest = {*self.frontier}.difference(cause)
            self.frontier = tuple(sorted({*rest, seq}))

    def hit(self, key: Key) -> int:
        """How often this lane came to a site for a kind before; it came now."""
        count = self.hits.get(key, 0)
        self.hits[key] = count + 1
        return count


LANE: Final[ContextVar[Lane | None]] = ContextVar("agenttwin_lane", default=None)
MUTE: Final[ContextVar[bool]] = ContextVar("agenttwin_mute", default=False)
AGENT: Final[ContextVar[str | None]] = ContextVar("agenttwin_agent", default=None)


@contextmanager
def muted() -> Iterator[None]:
    """Around what is nobody's crossing: the seams within see no session."""
    token = MUTE.set(True)
    try:
        yield
    finally:
        MUTE.reset(token)


class Here(threading.local):
    """What this thread was given to do."""

    work: Lane | None = None
    strange: tuple[Lane, Lane] | None = None  # the main lane, and this thread's beside it


HERE: Final = Here()
_of_task: Callable[[], Lane | None] | None = None


def tasks_are(of_task: Callable[[], Lane | None] | None) -> None:
    """How the running task's lane is found, where there are tasks."""
    global _of_task
    _of_task = of_task


def here(main: Lane) -> Lane:
    """The lane this is; ``main`` where nothing says so."""
    if _of_task is not None and (lane := _of_task()) is not None:
        return lane
    lane, work = LANE.get(), HERE.work
    if work is None or (lane is not None and lane.work is work):
        return lane or _main_or_stranger(main)
    return work


def _main_or_stranger(main: Lane) -> Lane:
    if main.thread is None or main.thread == threading.get_ident():
        return main
    known = HERE.strange
    if known is None or known[0] is not main:
        known = HERE.strange = (main, main.stranger())
    return known[1]
