"""One episode of calls on a world of a twin: calls, time, and taking it all back.

Rules
1. A call goes through the pipeline of ``turn``; then time passes, and what is due then happens.
2. The twin answers only what it declares. Anything else is a gap: 501, an event, and a void
   episode.
3. Time can be stopped, moved to the next timer, moved on, and taken back call by call: a place to
   go back to is a position of the journal.
4. ``close`` takes everything back and tells whether something leaked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from processors.model.twin import Change, TwinEvent
from sidecar.twins import chance, effects, timeline
from sidecar.twins.faults import ready
from sidecar.twins.place import Late, Place, let
from sidecar.twins.place import Setting as Setting
from sidecar.twins.reply import Call as Call
from sidecar.twins.reply import Reply as Reply
from sidecar.twins.reply import problem
from sidecar.twins.timeline import Timer
from sidecar.twins.turn import UNFORESEEN, Turn
from sidecar.twins.twin import Twin
from sidecar.twins.world import World

FIRINGS_MAX = 10_000


class Position(Struct, frozen=True):
    """A place to go back to: of the journal, and of the list of events."""

    mark: int
    events: int


class Episode:
    """One agent's run over one world of a twin, or several agents'."""

    def __init__(
        self, twin: Twin, world: World, setting: Setting, events: list[TwinEvent] | None = None
    ) -> None:
        self.twin = twin
        self.world = world
        self.setting = setting
        self.events: list[TwinEvent] = [] if events is None else events
        self.company: dict[str, Episode] = {twin.name: self}
        world.seed = setting.seed
        self._place = Place(
            twin=twin,
            world=world,
            setting=setting,
            rules=(*ready(setting.faults), *twin.faults),
            events=self.events,
            versions=[],
        )
        self._clean = world.digest()
        self._opened = world.journal.mark()
        self._started = Position(self._opened, len(self.events))
        self._positions: list[Position] = []

    def begin(
        self,
        rows: Mapping[str, Sequence[dict[str, Any]]],
        *,
        clear: Sequence[str] = (),
        flags: Mapping[str, Any] | None = None,
        now_ns: int | None = None,
    ) -> None:
        """Set the initial state of the episode; changes are counted from here."""
        for entity in clear:
            for key in list(self.world.table(entity)):
                self.world.journal.drop(self.world.table(entity), key)
        for entity, some in rows.items():
            for row in some:
                self.world.put_row(entity, row)
        for name, value in (flags or {}).items():
            self.world.journal.put(self.world.flags, name, value)
        if now_ns is not None:
            self.world.set_time(now_ns)
        self._started = self.position()

    def call(self, call: Call) -> Reply:
        """Answer one call."""
        tool = self.twin.tools.get(call.tool)
        if tool is None:
            return self.gap(
                call.tool, f"the twin declares no tool {call.tool!r}", call_id=call.call_id
            )
        if not timeline.EARLIEST_NS <= self.world.now_ns <= timeline.LATEST_NS:
            detail = "virtual time has left the years 1 to 9999"
            return self.gap(call.tool, detail, call_id=call.call_id)
        self._positions.append(self.position())
        number = self.world.next_call(call.tool)
        waiting = list(self.world.held) if tool.declared.has_effect else []
        turn = Turn(self._place, tool, call, number)
        reply = turn.answer()
        if not self.world.timeline.paused:
            self._run_until(self.world.now_ns + turn.spent_ns)
        self._deliver(waiting)
        return reply

    def gap(self, tool: str, detail: str, *, call_id: str = "") -> Reply:
        """Record that something undeclared was asked for; the answer is 501."""
        call = Call(tool=tool, arguments={}, call_id=call_id)
        self._place.write("gap", call, 0, 501, detail=detail)
        return problem(501, "twin_gap", detail)

    def finish(self) -> None:
        """Let what is still on its way happen: calls held back, and timers for ``clock.settle``."""
        self.deliver_held()
        self.settle(self.world.now_ns + self.twin.settle_ns)

    def deliver_held(self) -> None:
        """Let calls happen whose effects are held back."""
        self._deliver(list(self.world.held))

    def settle(self, ends_ns: int) -> None:
        """Let what is due by ``ends_ns`` happen, of all twins that share the clock."""
        while self._fire_next(ends_ns):
            pass

    def fire(self, timer: Timer) -> None:
        """Let something of this twin happen whose time has come, all of it or nothing."""
        mark = self.world.journal.mark()
        try:
            if timer.kind == "message":
                self._handle(timer)
            else:
                late: Late = timer.payload
                tool = self.twin.tools[timer.subject]
                Turn(self._place, tool, late.call, late.number).arrive(late)
        except UNFORESEEN as error:
            self.world.journal.rollback(mark)
            self.gap(timer.subject, str(error))

    # -- time --

    def wait_for_person(self, tool: str) -> int:
        """Move time on by what a person takes to decide on a call of ``tool``; nanoseconds.

        While the clock is paused people take no time either.
        """
        declared = self.twin.tools[tool].declared.person
        if declared == "":
            return 0
        count = f"person|{tool}"
        number = self.world.counters.get(count, 0) + 1
        self.world.journal.put(self.world.counters, count, number)
        if self.world.timeline.paused:
            return 0
        key = f"{self.twin.name}|{tool}|{number}"
        waited_ns = chance.drawn_ns(declared, self.setting.seed, "person", key)
        self.fast_forward(waited_ns)
        return waited_ns

    def pause(self) -> None:
        """From now on calls take no time, and no timer fires by itself."""
        self.world.timeline.pause()

    def resume(self) -> None:
        """Let time run again."""
        self.world.timeline.pause(False)

    def step(self) -> bool:
        """Go to the next timer and let it fire; whether there was one."""
        pending = self.world.timeline.pending()
        return bool(pending) and self._fire_next(pending[0].at_ns)

    def fast_forward(self, by_ns: int) -> None:
        """Move time on; what is due until then happens."""
        self._run_until(self.world.now_ns + by_ns)

    def position(self) -> Position:
        """Where the episode is now; ``rewind`` goes back there."""
        return Position(self.world.journal.mark(), len(self.events))

    def before(self, calls: int) -> Position:
        """Where the episode was before its last ``calls`` calls, at the furthest its start."""
        if calls <= 0:
            return self.position()
        return self._positions[-calls] if calls <= len(self._positions) else self._started

    def rewind(self, position: Position) -> None:
        """Go back: what happened since did not happen, and is not recorded."""
        self.world.journal.rollback(position.mark)
        del self.events[position.events :]
        versions, places = self._place.versions, self._positions
        while versions and versions[-1].mark >= position.mark:
            versions.pop()
        while places and places[-1].mark >= position.mark:
            places.pop()

    # -- what came of it --

    def changes(self) -> tuple[Change, ...]:
        """What differs from the start of the episode."""
        return self.world.changes(self._started.mark)

    def close(self) -> bool:
        """Take everything back; whether the world is as it was before (no leak)."""
        self.world.journal.rollback(self._opened)
        return self.world.digest() == self._clean

    def _run_until(self, at_ns: int) -> None:
        while self._fire_next(at_ns):
            pass
        self.world.set_time(at_ns)

    def _fire_next(self, until_ns: int) -> bool:
        timer = self.world.timeline.take_due(until_ns)
        if timer is None:
            return False
        if self.world.timeline.fired > FIRINGS_MAX:
            self.gap(self.twin.name, f"more than {FIRINGS_MAX} timers fired: they never end")
            return False
        self.company[timer.twin].fire(timer)
        return True

    def _deliver(self, held: Sequence[str]) -> None:
        for name in held:
            one = self.world.held.get(name)
            if one is None:
                continue
            self.world.journal.drop(self.world.held, name)
            turn = Turn(self._place, self.twin.tools[one.call.tool], one.call, one.number)
            try:
                turn.deliver("delivered after a later call")
            except UNFORESEEN as error:
                self.gap(one.call.tool, str(error), call_id=one.call.call_id)

    def _handle(self, timer: Timer) -> None:
        messages = self.world.queue(timer.subject)
        if str(timer.seq) not in messages:
            return  # taken out before its time came
        mark = self.world.journal.mark()
        message = messages[str(timer.seq)]
        self.world.journal.drop(messages, str(timer.seq))
        handle = self.twin.handles[timer.subject]
        bindings = {
            "message": message,
            "flags": self.world.flags,
            "now": timeline.text(self.world.now_ns),
        }
        let(handle.let, bindings, self.world.functions)
        effects.apply_all(
            handle.effects, self.world, self.twin.schemas, bindings, source=timer.payload
        )
        changes = self.world.changes(mark)
        if changes:
            self._place.supersede(mark)
        call = Call(tool=f"queue:{timer.subject}", arguments={"message": message})
        self._place.write("handled", call, timer.seq, None, changes=changes)
