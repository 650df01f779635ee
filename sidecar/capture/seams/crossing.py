"""One crossing of a seam: what was asked, and how it is told that it is over.

**Rules**
1. It is made by ``Session.enter``; what becomes of it is the session's to decide.
2. It is over once, whoever says so first.
3. Seams read ``played``, ``out``, ``status``, ``error``, ``chunks``, ``use``, ``attributes``,
   ``absent``, ``kind`` and ``lane``; the rest is the session's.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NoReturn, Protocol

from sidecar.capture.play import Asked, Drift, Drifted, Played
from sidecar.capture.seams.lanes import Lane, muted
from sidecar.tape.compose import NOTHING
from sidecar.tape.model import Kind, Status

_CANCELLED: Final = frozenset(("CancelledError", "GeneratorExit"))


class Keeper(Protocol):
    """What a crossing tells; a ``Session``."""

    async def turn(self, x: "Crossing", /) -> None: ...

    def count(self, x: "Crossing", /) -> None: ...

    def put(self, piece: Any, /) -> str | None: ...

    def left(self, x: "Crossing", /) -> Drifted: ...

    def write(
        self,
        x: "Crossing",
        status: Status,
        out: Any,
        error: tuple[str, str | None] | None,
        use: Mapping[str, int],
        /,
    ) -> None: ...


class Crossing:
    """One crossing of a seam, from ``Session.enter``."""

    __slots__ = (
        "_session",
        "absent",
        "asked",
        "attr",
        "attributes",
        "awaited",
        "call",
        "cause",
        "chunks",
        "error",
        "first",
        "kept",
        "lane",
        "last",
        "out",
        "over",
        "played",
        "recorded",
        "silent",
        "start",
        "status",
        "use",
    )

    def __init__(self, session: Keeper, asked: Asked, lane: Lane) -> None:
        self._session, self.asked, self.lane = session, asked, lane
        self.cause = lane.frontier
        self.start = 0
        self.attr: Mapping[str, Any] = {}  # of the event that is written
        self.kept: list[str] = []  # digests of the pieces that passed
        self.call: int | None = None
        self.over = self.awaited = self.silent = False
        self.absent: Drift | None = None
        self.first = self.last = -1  # played: the recorded events, the same but for a tool's
        self.recorded: Played | None = None
        self.played = False
        self.out: Any = None
        self.status: Status = "unset"
        self.error: tuple[str, str | None] | None = None
        self.chunks: tuple[Any, ...] | None = None
        self.use: dict[str, int] = {}
        self.attributes: Mapping[str, Any] = {}  # of the event that is played

    @property
    def kind(self) -> Kind:
        """The event's kind."""
        return self.asked.kind

    def inside(self) -> AbstractContextManager[None]:
        """Around each touch of the real thing: the seams within see no session."""
        return muted()

    async def arrive(self) -> None:
        """Played and awaited: wait until it is this answer's turn; one that was cancelled never
        comes, and who waits for it is cancelled again."""
        session = self._session
        try:
            await session.turn(self)
        finally:
            session.count(self)

    def settle(self) -> None:
        """What was waited for comes before this event, too."""
        self.cause = self.lane.frontier

    def chunk(self, piece: Any) -> None:
        """One piece of a stream, as it passes."""
        if not self.played and not self.over:
            digest = self._session.put(piece)
            if digest is not None:
                self.kept.append(digest)

    def done(
        self,
        out: Any = NOTHING,
        use: Mapping[str, int] | None = None,
        status: Status = "ok",
        *,
        error: tuple[str, str | None] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """The answer is there; twice is once. ``error``: an answer that says so, as HTTP's do.

        ``attributes`` go with the event that holds the answer; played, they are in ``attributes``.
        """
        if attributes:
            self.attr = {**self.attr, **attributes}
        self._end(status, out, error, use)

    def failed(self, error: BaseException, use: Mapping[str, int] | None = None) -> None:
        """The real thing raised; a cancellation counts as one."""
        if is_cancellation(error):
            self._end("cancelled", NOTHING, None, use)
        elif not isinstance(error, Drifted):
            self._end("error", NOTHING, (class_name(error), text_of(error)), use)

    def cancelled(self, use: Mapping[str, int] | None = None) -> None:
        """Nobody waits for the answer any more."""
        self._end("cancelled", NOTHING, None, use)

    def beyond(self) -> NoReturn:
        """Played: more is asked of the answer than was read when it was recorded. A drift."""
        raise self._session.left(self)

    def _end(
        self,
        status: Status,
        out: Any,
        error: tuple[str, str | None] | None,
        use: Mapping[str, int] | None,
    ) -> None:
        if self.over:
            return
        if self.played:
            self._session.count(self)
            return
        self.over = True
        self._session.write(self, status, out, error, use or {})


def is_cancellation(error: BaseException) -> bool:
    """Whether an exception says that nobody waits any more."""
    return type(error).__name__ in _CANCELLED


def class_name(error: BaseException) -> str:
    """An exception's class with its module, builtins by name alone: ``openai.RateLimitError``."""
    kind = type(error)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def text_of(error: BaseException) -> str | None:
    """An exception's text; None where it has none that can be told."""
    try:
        return str(error)
    except Exception:
        return None
