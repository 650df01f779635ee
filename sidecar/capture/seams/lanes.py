"""Lines of execution: what each has done last, and so what its next event comes after.

**Rules**
1. A lane is one line of execution: the main one, a task's, a thread's, a piece of work handed to a
   pool. It is named by who started it and how many that one had started before (``0.2``), never by
   when; the main lane has no name.
2. ``frontier`` is what the lane's next event comes after. A new lane begins with its starter's; one
   that waits for another takes over what that one had done.
3. What a seam's real thing does inside is mute: other seams see no session there.
"""

from contextvars import ContextVar
from typing import Final

Key = tuple[str, str, str]


class Lane:
    """One line of execution; used by one thread at a time."""

    __slots__ = ("frontier", "hits", "name", "started")

    def __init__(self, name: str = "", frontier: tuple[int, ...] = ()) -> None:
        self.name = name
        self.frontier = frontier
        self.started = 0
        self.hits: dict[Key, int] = {}

    def start(self) -> "Lane":
        """A lane started from here."""
        count = self.started
        self.started = count + 1
        name = f"{self.name}.{count}" if self.name else str(count)
        return Lane(name, self.frontier)

    def join(self, other: "Lane") -> None:
        """What comes next comes after what another lane did, too."""
        if other.frontier != self.frontier:
            self.frontier = tuple(sorted({*self.frontier, *other.frontier}))

    def passed(self, seq: int, cause: tuple[int, ...]) -> None:
        """An event of this lane was written, which came after ``cause``."""
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
