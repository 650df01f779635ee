"""One recording or replay in this process: what every seam calls at every crossing.

**How a seam uses it**::

    session = current()
    if session is None:                 # nothing is recorded, or this is inside another seam
        return real(*args)
    x = session.enter(kind="llm_call", seam="provider", name=model, given=request)
    if x.played:                        # the real thing must not be touched
        if x.error is not None:         # (class name, message or None)
            raise rebuild(x.error)
        return rebuild(x.out)
    try:
        with x.inside():                # mutes the seams within: around each touch of the real one
            got = real(*args)
    except BaseException as error:
        x.failed(error)                 # a CancelledError or GeneratorExit counts as cancelled
        raise
    x.done(plain(got), use={"input_tokens": 9})
    return got

- **async**: ``x = session.enter(..., awaited=True)``, and where it is played ``await x.arrive()``
  before anything is handed over: it waits until it is this answer's turn.
- **streams**: ``x.chunk(piece)`` for each piece as it passes, then ``x.done(whole)``; who stops
  early calls ``x.cancelled()``. Played, ``x.chunks`` is a tuple of pieces: hand them over, and call
  ``x.done()`` after the last or ``x.cancelled()``, so that the event counts when it did.
- **a value read** (clock, dice, environment): ``ambient.ask(session, "clock", "time.time",
  time.time)`` does all of it.

**Rules**
1. ``enter`` decides: recorded live, played, or a drift, which it raises. Once one was raised, every
   later crossing raises it again. In strict mode nothing goes live.
2. ``tool_call`` is written when it is made and its ``tool_result`` when it came; every other kind
   is one event, written when its answer is there.
3. A crossing is counted (``hit``) when it is entered, in its lane; ``attr`` says lane and hit where
   they are not what ``ord`` says already.
4. A failure of the recorder is never the agent's: what cannot be written is counted as dropped.
5. A forked child records nothing and is played nothing.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from msgspec.structs import replace

from sidecar.capture.play import (
    Asked,
    Drift,
    Drifted,
    Live,
    Played,
    Player,
    Tally,
    answer_of,
)
from sidecar.capture.seams import client_settings
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.lanes import AGENT, MUTE, Lane, here, muted
from sidecar.capture.seams.sites import Site, Sites
from sidecar.capture.seams.turns import NEVER, Turns
from sidecar.tape.compose import NOTHING, Fact
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import Event, Kind, Seam, Status

AGENT_NAME: Final = "agent"
SEAMS: Final[tuple[Seam, ...]] = get_args(Seam)
COUNTED: Final = frozenset(("llm_call", "tool_call", "tool_result", "decision", "human_input"))
_NOTHING_SAID: Final = {"output": None, "claimed": None, "verified": None, "reason": None}
_now_ns: Final = time.time_ns  # the real one: a seam may take its place
_active: "Session | None" = None


def current() -> "Session | None":
    """The session of this process; None where there is none, or inside another seam."""
    session = _active
    return None if session is None or MUTE.get() else session


def active() -> "Session | None":
    """The session of this process, inside a seam too."""
    return _active


class Session:
    """One recording (``writer``) or replay (``player``; with a ``writer`` it is recorded anew).

    ``sites`` tells the agent's own files; ``agent`` is who acts where nobody says otherwise.
    ``opens`` is called before the first event where neither is given yet: it gives the session a
    writer or a player, or says that it is another process's (False).
    """

    def __init__(
        self,
        sites: Sites,
        *,
        writer: TapeWriter | None = None,
        player: Player | None = None,
        agent: str = AGENT_NAME,
        opens: Callable[["Session"], bool] | None = None,
    ) -> None:
        self.sites, self.writer, self.player, self.agent = sites, writer, player, agent
        self.drift: Drift | None = None
        self.asked_from: str | None = None  # the line of the agent's own that drifted
        self.output: dict[str, Any] = {}  # what the terminal event says
        self.refused = 0  # connections that libraries tried to make in strict mode
        self.unseen = 0  # programs that were started while recording and are not on the tape
        self.taken = opens is None  # whether the recording or replay is this process's
        self.on_drift: Callable[[Drift], None] | None = None
        self._opens = opens
        self.broken: dict[str, str] = {}  # seams that could not be put in place, and why
        self.main = Lane()
        self.tally: Tally | None = None
        self.turns: Turns | None = None  # in a strict replay
        self._anew: dict[int, int] | None = {}  # by seqs of a new tape, those of the tape played
        self._lock = threading.RLock()
        self._ords: dict[tuple[str, str, str], int] = {}
        self._open: dict[int, Crossing] = {}  # what is waited for, by identity
        self._closers: list[Callable[[], None]] = []

    # ---- what seams call

    def enter(
        self,
        *,
        kind: Kind,
        seam: Seam | None,
        name: str,
        given: Any = NOTHING,
        site: Site | None = None,
        label: str = "",
        attributes: Mapping[str, Any] | None = None,
        awaited: bool = False,
        piecemeal: bool = False,
        silent: bool = False,
    ) -> Crossing:
        """A crossing is made. Raises Drifted where the tape played holds no such one.

        ``site``: the kernel finds the first frame of the agent's own files where none is given.
        ``label`` tells apart crossings of one site that are made for different things.
        ``piecemeal``: an answer that is read, if not streamed; played, the seam says when it is
        over, as of a stream. ``silent``: where it is cancelled it is no event; played, one that the
        tape does not hold is a drift (``absent``) only when it ends otherwise.
        """
        if self.drift is not None:
            raise Drifted(self.drift)
        if self._opens is not None:
            self.open()
        if site is None:
            site = self.sites.first(sys._getframe(1))
        lane = self.lane()
        place = self.sites.id_of(site, seam or "", label)
        agent = AGENT.get() or self.agent
        asked = Asked(
            kind=kind,
            seam=seam,
            agent=agent,
            name=name,
            site=place,
            lane=lane.name,
            hit=lane.hit((agent, place, kind)),
            given=given,
        )
        x = Crossing(self, asked, lane)
        if attributes:
            x.attr = attributes
        x.awaited, x.silent = awaited, silent
        if self.player is not None and self._decided(x, asked):
            whole = not awaited and not piecemeal and x.chunks is None
            stays = whole and self.turns is not None and self._was_cut_off(x)
            if self.turns is not None and (kind == "tool_call" or not stays):
                self.turns.hold(x.first, lane)
            if kind == "tool_call":
                self._count_call(x)
            if stays:
                self._stay(x, lane)
            if whole:
                self.count(x)
            else:
                self._open[id(x)] = x
            return x
        x.start = _now_ns()
        self._open[id(x)] = x
        if kind == "tool_call":
            x.call = self._written(x, self._fact(x, kind, x.cause, given), x.cause)
        return x

    def live(self, seam: Seam) -> bool:
        """Whether this seam's crossings may go live in the mode at hand."""
        if self._opens is not None:
            self.open()
        return self.player is None or self.player.goes_live(seam)

    @property
    def offline(self) -> bool:
        """A strict replay: nothing can go live."""
        player = self.player
        return player is not None and not any(map(player.goes_live, SEAMS))

    def caller(self) -> Site | None:
        """The site of who called whoever calls this, where it is an own file's."""
        return self.sites.own(sys._getframe(2).f_code)

    def own_frame(self) -> Site | None:
        """The first site of the agent's own files on the stack."""
        return self.sites.first(sys._getframe(1))

    def note(self, fact: Fact) -> int | None:
        """Write an event that is nobody's crossing (``state_patch``, ``error``, a decision).

        Played, it must be the tape's. Raises Drifted.
        """
        lane = self.lane()
        event: Event | None = None
        if self.player is not None:
            with self._lock:
                found = self.player.noted(fact)
            if isinstance(found, Drift):
                raise self._drifted(found)
            event = found
            if self.writer is None:
                if event is None or self.tally is None:
                    return None
                with self._lock:
                    self.tally.add(event, fact.cause)
                    lane.passed(event.seq, fact.cause)
                return event.seq
        if self.writer is None:
            return None
        try:
            with self._lock:
                seq = self.writer.event(fact)
                if event is not None:
                    self._tallied(event, fact.cause, seq)
                if seq is not None:
                    lane.passed(seq, fact.cause)
                return seq
        except ValueError:
            self.writer.drop()
            self._anew = None
            return None

    # ---- what crossings call

    def lane(self) -> Lane:
        """The line of execution this is."""
        return here(self.main)

    async def turn(self, x: Crossing) -> None:
        """Wait until what answers a crossing is due."""
        if self.turns is None:
            return
        await self.turns.arrive(x.last if x.status != "cancelled" else NEVER)

    def began(self, lane: Lane) -> None:
        """Another thread is about to work in a lane."""
        if self.turns is not None:
            self.turns.begin_thread(lane)

    def finished(self, lane: Lane) -> None:
        """It has."""
        if self.turns is not None:
            self.turns.end_thread(lane)

    def put(self, piece: Any) -> str | None:
        """Keep a chunk; its digest."""
        return None if self.writer is None else self.writer.put(piece)

    def count(self, x: Crossing) -> None:
        """What was played has happened, now; twice is once."""
        played = x.recorded
        if played is None or x.over:
            return
        x.over = True
        self._open.pop(id(x), None)
        event, cause = played.event, x.cause
        if event.kind == "tool_call":
            if played.result is None or x.call is None:
                return
            event = played.result
            cause = tuple(sorted({x.call, *x.lane.frontier}))
        if self.turns is not None and not x.awaited:
            self.turns.hold(event.seq, x.lane)
        with self._lock:
            self._counted(x, event, cause)

    def left(self, x: Crossing) -> Drifted:
        """A played answer is read further than it was recorded: what to raise."""
        assert x.recorded is not None
        found = Drift(
            kind="EXTRA_CALL",
            seq=x.recorded.event.seq,
            reason="more of the answer is read than was when it was recorded",
            asked=x.asked,
            expected=x.recorded.event,
        )
        return self._drifted(found)

    def write(
        self,
        x: Crossing,
        status: Status,
        out: Any,
        error: tuple[str, str | None] | None,
        use: Mapping[str, int],
    ) -> None:
        """A crossing that went live is over."""
        self._open.pop(id(x), None)
        if x.silent and status == "cancelled":
            return
        if x.absent is not None:
            raise self._drifted(x.absent)
        kind = x.kind
        if kind != "tool_call":
            fact = self._fact(x, kind, x.cause, x.asked.given, out, status, error, use)
            self._written(x, fact, x.cause)
        elif x.call is not None:
            cause = tuple(sorted({x.call, *x.lane.frontier}))
            fact = self._fact(x, "tool_result", cause, NOTHING, out, status, error, use)
            self._written(x, fact, cause)

    # ---- begin and end

    def begin(self) -> None:
        """Make this the process's session. One at a time."""
        global _active
        assert _active is None
        _active = self
        self.main.thread = threading.get_ident()
        _at_fork()
        if self._opens is None:
            self._start()

    def open(self) -> bool:
        """Take the recording or replay for this process; False where another has it."""
        opens, self._opens = self._opens, None
        if opens is None:
            return self.writer is not None or self.player is not None
        with muted():
            ours = opens(self)
        self.taken = ours
        if ours:
            self._start()
        else:
            self._leave()
        return ours

    def on_end(self, close: Callable[[], None]) -> None:
        """What undoes a seam; called in reverse order at the end."""
        self._closers.append(close)

    def end(self, status: Status = "ok", output: Mapping[str, Any] | None = None) -> None:
        """Undo the seams and write the terminal event. The tape is sealed by who made it."""
        self._leave()
        left = [x for x in list(self._open.values()) if not self._left_again(x)]
        said = {**_NOTHING_SAID, **self.output, **(output or {})}
        if self.player is not None:
            assert self.tally is not None
            self.drift = self.drift or self.player.ended(status, said) or _unread(left)
            if self.drift is None and self._anew is not None:
                last = self.player.tape.events[-1]
                self.tally.add(last, last.cause)  # it comes after everything
                self.drift = self.player.followed(self.tally)
        if self.writer is not None:
            self._guarded(Fact(kind="terminal", agent=self.agent, output=said, status=status))

    def refuse(self, reason: str) -> None:
        """Something that no replay may do is about to be done. Raises Drifted."""
        seq = 0 if self.tally is None else self.tally.events
        raise self._drifted(Drift(kind="EXTRA_CALL", seq=seq, reason=reason))

    # ---- own

    def _start(self) -> None:
        """The first event, which all others come after: that the agent was started."""
        if self.player is not None:
            events = self.player.tape.events
            self.tally = Tally(self.player.tape.header.codecs)
            if self.offline:
                self.turns = Turns(one for one in events if one.kind in COUNTED)
        asked = Asked(kind="decision", seam=None, agent=self.agent, name="start", site="")
        x = Crossing(self, asked, self.main)
        if self.player is None:
            x.done(attributes=client_settings.found())
        elif self._decided(x, asked):
            self.count(x)
            if self.offline:
                before = client_settings.stand_in(x.attributes)
                self.on_end(lambda: client_settings.put_back(before))

    def _left_again(self, x: Crossing) -> bool:
        """Nobody waits for an answer any more: as it was recorded, or as it is now recorded."""
        if x.played and x.status != "cancelled":
            return False
        x.cancelled()
        return True

    def _was_cut_off(self, x: Crossing) -> bool:
        """Whether the end of the recorded run met a daemon thread at this, and so will ours."""
        return x.status == "cancelled" and threading.current_thread().daemon

    def _stay(self, x: Crossing, lane: Lane) -> None:
        """Go no further in this thread: it happens again at the run's end."""
        self._open[id(x)] = x
        self.finished(lane)
        threading.Event().wait()

    def _drifted(self, drift: Drift) -> Drifted:
        """The first drift is the run's."""
        if self.drift is None:
            self.drift = drift
            self.asked_from = self.sites.place(sys._getframe(1))
            if self.on_drift is not None:
                self.on_drift(drift)
        return Drifted(self.drift)

    def _leave(self) -> None:
        global _active
        if _active is self:
            _active = None
        for close in reversed(self._closers):
            close()
        self._closers.clear()

    def _decided(self, x: Crossing, asked: Asked) -> bool:
        """Whether a crossing is answered by the tape. Raises Drifted."""
        assert self.player is not None
        with self._lock:
            found = self.player.decide(asked)
            if isinstance(found, Played):
                answer = answer_of(self.player.tape, found)
                if answer.lost:
                    found = Drift(
                        kind="INCOMPARABLE",
                        seq=found.event.seq,
                        reason="PARTIAL: the answer was not kept on the tape",
                        asked=asked,
                        expected=found.event,
                    )
        if isinstance(found, Live):
            return False
        if isinstance(found, Drift):
            if x.silent and found.kind == "EXTRA_CALL" and found.expected is None:
                x.absent = found
                return False
            self._asked_for(x, found)
            raise self._drifted(found)
        x.recorded, x.played = found, True
        x.first = found.event.seq
        x.last = x.first if found.result is None else found.result.seq
        x.out, x.status, x.error = answer.out, answer.status, answer.error
        x.chunks, x.use = answer.chunks, answer.usage
        failed = found.answer is not None and found.answer.error is not None
        x.attributes = {} if failed else (found.result or found.event).attr
        return True

    def _asked_for(self, x: Crossing, drift: Drift) -> None:
        """What was asked that is not on the tape, on the new one: so that both can be compared.

        Not where a counterfactual ends, as it was declared: nothing was asked that may not be.
        """
        if self.writer is None or self.drift is not None or drift.kind == "INCOMPARABLE":
            return
        if getattr(self.player, "stopped", None) is None:
            fact = self._fact(x, x.kind, x.cause, x.asked.given, status="cancelled")
            self._written(x, fact, x.cause)

    def _fact(
        self,
        x: Crossing,
        kind: Kind,
        cause: tuple[int, ...],
        given: Any,
        out: Any = NOTHING,
        status: Status = "unset",
        error: tuple[str, str | None] | None = None,
        use: Mapping[str, int] | None = None,
    ) -> Fact:
        asked, attributes = x.asked, x.attr
        if kind == "tool_result" and len(cause) > 1:
            attributes = {**attributes, "call": x.call}  # which of them it answers
        return Fact(
            kind=kind,
            seam=asked.seam,
            agent=asked.agent,
            name=asked.name,
            site=asked.site,
            input=given,
            output=out,
            status=status,
            error=error,
            cause=cause,
            chunks=tuple(x.kept) if kind != "tool_call" else (),
            start_ns=x.start,
            end_ns=None if kind == "tool_call" else _now_ns(),
            usage=use or {},
            attributes=attributes,
        )

    def _written(self, x: Crossing, fact: Fact, cause: tuple[int, ...]) -> int | None:
        if self.writer is None:
            return None
        asked = x.asked
        with self._lock:
            if fact.kind != "tool_result":
                place = (asked.agent, asked.site or asked.name, asked.kind)
                order = self._ords.get(place, 0)
                self._ords[place] = order + 1
                more: dict[str, Any] = {}
                if asked.lane:
                    more["lane"] = asked.lane
                if asked.hit != order:
                    more["hit"] = asked.hit
                if more:
                    fact = replace(fact, attributes={**fact.attributes, **more})
            seq = self._guarded(fact)
            if seq is not None:
                x.lane.passed(seq, cause)
            return seq

    def _count_call(self, x: Crossing) -> None:
        """A tool's call that was played has been made."""
        assert x.recorded is not None
        with self._lock:
            x.call = self._counted(x, x.recorded.event, x.cause)

    def _counted(self, x: Crossing, event: Event, cause: tuple[int, ...]) -> int | None:
        """A played event happens, after ``cause``: on the new tape, or in the tally."""
        seq: int | None = event.seq
        if self.writer is not None:
            seq = self._written_again(x, event, cause)
            self._tallied(event, cause, seq)
        else:
            assert self.tally is not None
            self.tally.add(event, cause)
            x.lane.passed(event.seq, cause)
        if self.turns is not None:
            self.turns.happened(event.seq)
        return seq

    def _tallied(self, event: Event, cause: tuple[int, ...], seq: int | None) -> None:
        """A played event stands at ``seq`` of the new tape; its causes are counted as the tape has
        them. One that could not be written is no other's cause: nothing can be said of them."""
        if seq is None:
            self._anew = None
        if self._anew is None or seq is None:
            return
        assert self.tally is not None
        self._anew[seq] = event.seq
        self.tally.add(event, tuple(sorted({self._anew.get(one, one) for one in cause})))

    def _written_again(self, x: Crossing, event: Event, cause: tuple[int, ...]) -> int | None:
        """What was played, on the new tape."""
        assert x.recorded is not None
        if event.kind == "tool_call":
            return self._written(x, self._fact(x, "tool_call", cause, x.asked.given), cause)
        x.kept = [kept for piece in x.chunks or () if (kept := self.put(piece)) is not None]
        answered = event.out is not None if x.recorded.answer is None else x.error is None
        out = x.out if answered else NOTHING
        said = {key: item for key, item in event.attr.items() if key not in ("lane", "hit")}
        is_result = event.kind == "tool_result"
        x.attr = said if is_result else {**x.attr, **said}
        given = NOTHING if is_result else x.asked.given
        fact = self._fact(x, event.kind, cause, given, out, x.status, x.error, x.use)
        return self._written(x, fact, cause)

    def _guarded(self, fact: Fact) -> int | None:
        """Write; a fault of ours or of the agent's payload costs the event, never the agent."""
        assert self.writer is not None
        try:
            return self.writer.event(fact)
        except Exception:
            self.writer.drop()
            return None


def _unread(left: list[Crossing]) -> Drift | None:
    """The drift of answers that were read to their end when they were recorded."""
    for x in left:
        if x.recorded is not None:
            return Drift(
                kind="MISSING_CALL",
                seq=x.first,
                reason="its answer was not read to its end, as it was when it was recorded",
                asked=x.asked,
                expected=x.recorded.event,
            )
    return None


_forks = False


def _at_fork() -> None:
    global _forks
    if not _forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)
    _forks = True


def _forget() -> None:
    global _active
    _active = None
