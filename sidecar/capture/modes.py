"""The modes of replay beside strict: what is answered from the tape, what goes live, what stops.

**Rules**
1. A miss never goes live: a crossing is live because the mode, or the plan, says that seam is.
2. ``tools``: models are live, everything else is from the tape. ``fork``: what stands before a seq
   is from the tape, digest by digest, and everything after is live. ``shadow``: models are live,
   and a tool that the tape does not answer is answered with nothing (``requested_only``); no tool
   is ever called.
3. ``counterfactual``: as strict up to the first event that the plan changes; a difference before it
   means that the runs cannot be compared (PREFIX), and no drift. Behind it a seam
   that the plan says is live is; the tape answers what it is asked in the same words, wherever that
   stands; what is neither ends the run. A ``control`` changes nothing and is live from there on.
4. What clock, dice and environment say beyond the tape is real, and is counted (``beyond``).
5. Pure, as ``play``: an instance is one run.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from sidecar.capture.moved import MovedPlayer
from sidecar.capture.plan import AMBIENT, REQUEST, PatchFailed, Plan, answered_by
from sidecar.capture.play import (
    Answer,
    Asked,
    Drift,
    Live,
    Played,
    StrictPlayer,
    Tally,
    answer_of,
)
from sidecar.tape.codec import Codecs
from sidecar.tape.compose import NOTHING, Fact
from sidecar.tape.model import Event, Seam, Status
from sidecar.tape.redaction import Redacts
from sidecar.tape.tape import MISSING, Tape

_TOOLS: Final[frozenset[Seam]] = frozenset({"tool", "http", "fs"})
_SHADOW: Final = "in shadow no tool is called"
_UNREACHED: Final = {"http": "ConnectError", "fs": "PermissionError"}
Decision = Played | Live | Drift


class Told(Struct, frozen=True, kw_only=True):
    """What a run under a plan did beside playing: for its report.

    ``parted``: the first event that the plan changed. ``stopped``: why a counterfactual ended where
    nothing answered it. ``live``, ``beyond``: crossings by seam, of the plan and of rule 4.
    ``repeated``, ``stubbed``: calls by tool.
    """

    parted: int | None = None
    stopped: str | None = None
    live: dict[str, int] = {}
    beyond: dict[str, int] = {}
    repeated: dict[str, int] = {}
    stubbed: dict[str, int] = {}


class PlanPlayer(StrictPlayer):
    """What all modes share; a mode says what becomes of a crossing."""

    def __init__(self, plan: Plan, tape: Tape, redactor: Redacts, codecs: Codecs) -> None:
        super().__init__(tape, redactor, codecs)
        self.plan = plan
        self.parted: int | None = None  # what was asked when the first change was met
        self.shown: int | None = None  # what the change stands in: of a tool its result
        self.stopped: str | None = None
        self._last = {
            (event.agent, event.kind, event.site, event.name): event
            for event in tape.events
            if event.name in plan.exhausted
        }
        self._counts: dict[str, dict[str, int]] = {
            kind: {} for kind in ("live", "beyond", "repeated", "stubbed")
        }

    @property
    def told(self) -> Told:
        """What it did so far."""
        return Told(parted=self.shown, stopped=self.stopped, **self._counts)

    def noted(self, fact: Fact) -> None:  # noqa: ARG002
        """What the run does to the world is its own."""
        return

    def goes_live(self, seam: Seam) -> bool:
        """Whether the plan lets it, at all."""
        return seam in self.plan.live or seam in AMBIENT

    def ended(self, status: Status, output: Mapping[str, Any]) -> Drift | None:  # noqa: ARG002
        """What the run should have asked for; how it ends is its own."""
        return next((_missing(one) for one in self.cursor.left if self.requires(one)), None)

    def followed(self, tally: Tally) -> None:  # noqa: ARG002
        """What comes after what is its own."""
        return

    def requires(self, event: Event) -> bool:
        """Whether a run must ask for an event again."""
        return event.seam not in AMBIENT and event.seam not in self.plan.live

    def from_tape(self, asked: Asked, event: Event | None) -> Played | Drift:
        """The recorded answer, or what kind of drift it is."""
        if event is None or not self.is_asked(asked, event):
            return self.drift(asked, event)
        if (ahead := self.cursor.ahead(event)) is not None:
            return self.drift(asked, event, ahead)
        return self.played(event)

    def played(self, event: Event, answer: Answer | None = None) -> Played:
        """An event's answer, which is given once."""
        self.cursor.take(event)
        return Played(event, self.cursor.results.get(event.seq), answer)

    def lived(self, asked: Asked, how: str = "live") -> Live:
        """The real thing, counted."""
        self.counted(how, asked.seam or "none")
        return Live()

    def counted(self, what: str, name: str) -> None:
        """One more of something."""
        counts = self._counts[what]
        counts[name] = counts.get(name, 0) + 1

    def exhausted(self, asked: Asked) -> Played | None:
        """The last answer again, where the plan says so of this tool and nothing else is left."""
        if asked.seam not in _TOOLS or self.plan.exhausted.get(asked.name) != "repeat_last":
            return None
        last = self._last.get((asked.agent, asked.kind, asked.site, asked.name))
        if last is None:
            return None
        self.counted("repeated", asked.name)
        return Played(last, self.cursor.results.get(last.seq))


class ToolsPlayer(PlanPlayer):
    """Mode ``tools``: results from the tape, models live."""

    def goes_live(self, seam: Seam) -> bool:
        """Models, and what the plan says."""
        return seam == "provider" or super().goes_live(seam)

    def decide(self, asked: Asked) -> Decision:
        """Live, played, or a drift."""
        event = self.cursor.find(asked)
        if asked.seam == "provider" or asked.seam in self.plan.live:
            if event is not None:
                self.cursor.take(event)
            return self.lived(asked)
        if event is None:
            if (again := self.exhausted(asked)) is not None:
                return again
            if asked.seam in AMBIENT:
                return self.lived(asked, "beyond")
        return self.from_tape(asked, event)

    def requires(self, event: Event) -> bool:
        """All but models and what is ambient."""
        return event.seam != "provider" and super().requires(event)


class ShadowPlayer(ToolsPlayer):
    """Mode ``shadow``: models live, tools answered from the tape or not at all, never called."""

    def goes_live(self, seam: Seam) -> bool:
        """Never a tool's, whatever the plan says."""
        return seam not in _TOOLS and super().goes_live(seam)

    def decide(self, asked: Asked) -> Decision:
        """Live, played, or a call that was merely asked for."""
        if asked.seam not in _TOOLS:
            return super().decide(asked)
        event = self.cursor.find(asked)
        if event is not None and self.is_asked(asked, event):
            return self.played(event)
        if (again := self.exhausted(asked)) is not None:
            return again
        self.counted("stubbed", asked.name)
        return self.stub(asked)

    def requires(self, event: Event) -> bool:
        """No tool: another version may well ask for others."""
        return event.seam not in _TOOLS and super().requires(event)

    def stub(self, asked: Asked) -> Played:
        """A call that nobody carries out."""
        call = Event(
            seq=len(self.tape.events),
            kind=asked.kind,
            seam=asked.seam,
            site=asked.site,
            agent=asked.agent,
            name=asked.name,
        )
        result = replace(call, kind="tool_result", st="requested_only")
        # Where an answer has a form, none of it is made up: nothing was reached.
        error = None if asked.seam == "tool" else (_UNREACHED[asked.seam or ""], _SHADOW)
        return Played(call, result, Answer(status="requested_only", error=error))


class ForkPlayer(PlanPlayer):
    """Mode ``fork``: the prefix from the tape, the rest live."""

    def __init__(self, plan: Plan, tape: Tape, redactor: Redacts, codecs: Codecs) -> None:
        super().__init__(plan, tape, redactor, codecs)
        assert plan.fork is not None
        self._fork = plan.fork
        self._lanes: dict[tuple[str, str], int] = {}
        for event in self.cursor.left:
            if event.seq < self._fork:
                key = _lane(event)
                self._lanes[key] = self._lanes.get(key, 0) + 1

    def goes_live(self, seam: Seam) -> bool:  # noqa: ARG002
        """Everything may, sooner or later."""
        return True

    def decide(self, asked: Asked) -> Decision:
        """Played before the seq, live from there on; a lane that left its prefix is a drift.

        A call that was made before and answered behind is made.
        """
        event = self.cursor.find(asked)
        lane = (asked.agent, asked.lane)
        if event is not None and event.seq < self._fork:
            found = self.from_tape(asked, event)
            if isinstance(found, Drift):
                return found
            self._lanes[lane] -= 1
            over = found.result is None or found.result.seq < self._fork
            return found if over or event.kind != "tool_call" else self.lived(asked)
        if self._lanes.get(lane, 0):
            return self.drift(asked, None) if event is None else self.missing(lane)
        if event is not None:
            self.cursor.take(event)
        return self.lived(asked)

    def missing(self, lane: tuple[str, str]) -> Drift:
        """The first event that a lane left out of its prefix."""
        return next(_missing(one) for one in self.cursor.left if _lane(one) == lane)

    def requires(self, event: Event) -> bool:
        """The whole prefix."""
        return event.seq < self._fork


class CounterfactualPlayer(PlanPlayer):
    """Mode ``counterfactual``: strict up to the first change, then what the changes lead to."""

    def __init__(self, plan: Plan, tape: Tape, redactor: Redacts, codecs: Codecs) -> None:
        super().__init__(plan, tape, redactor, codecs)
        asked = answered_by(tape.events)
        self._patches = [
            replace(one, seq=asked[one.seq].seq) if one.seq in asked else one
            for one in plan.patches
        ]
        self._same: dict[tuple[Any, ...], deque[Event]] = {}
        for event in self.cursor.left:
            words = (*self._words(event), event.in_n or event.in_)
            self._same.setdefault(words, deque()).append(event)

    def decide(self, asked: Asked) -> Decision:
        """Played as recorded or as changed; behind the first change live, or the run's end."""
        event = self.cursor.find(asked)
        same = event is not None and self.is_asked(asked, event)
        if self.parted is not None:
            live = asked.seam in self.plan.live
            if event is not None and same and not live and self.cursor.is_left(event):
                return self._answered(event)
            return self._behind(asked)
        ahead = None if event is None else self.cursor.ahead(event)
        if event is not None and same and ahead is None and not self._controls(event):
            return self._answered(event)
        if event is None or ahead is not None or not self._declared(asked, event):
            return self._prefix(asked, event, ahead)
        self.parted = self.shown = event.seq
        self.cursor.take(event)
        return self._behind(asked)

    def ended(self, status: Status, output: Mapping[str, Any]) -> Drift | None:  # noqa: ARG002
        """Nothing is missing behind the change; a change that was never met changed nothing."""
        if self.parted is None:
            return self._incomparable("the run ended before anything that the plan changes")
        for event in self.cursor.left:
            if event.seq < self.parted and self.cursor.ahead(event) is not None:
                return self._incomparable(f"seq {event.seq} is missing before the first change")
        return None

    def _answered(self, event: Event) -> Played | Drift:
        patches = [one for one in self._patches if one.of(event)]
        played = self.played(event)
        if not patches:
            return played
        answer = answer_of(self.tape, played)
        for one in patches:
            if one.what == "fault":
                answer = Answer(status="error", error=(one.error or "", one.message))
                continue
            try:
                answer = Answer(out=one.changed(answer.out), status="ok", usage=answer.usage)
            except PatchFailed as error:
                return self._incomparable(f"{one.what} at seq {event.seq}: {error}")
        if self.parted is None:
            self.parted, self.shown = event.seq, (played.result or event).seq
        return played if self.plan.control else replace(played, answer=answer)

    def _controls(self, event: Event) -> bool:
        """Whether a control goes live here: where a request would have been changed."""
        return self.plan.control and event.kind == "llm_call" and bool(self._parts(event))

    def _behind(self, asked: Asked) -> Decision:
        """Behind the first change: the live, the tape in other places, the exhausted, the end."""
        if asked.seam in self.plan.live:
            return self.lived(asked)
        waiting = self._same.get((*self._words(asked), self.comparison.crossing(asked).normal))
        while waiting:
            event = waiting.popleft()
            if self.cursor.is_left(event):
                return self._answered(event)
        if (again := self.exhausted(asked)) is not None:
            return again
        if asked.seam in AMBIENT:
            return self.lived(asked, "beyond")
        found = self.drift(asked, None)
        self.stopped = f"the tape has no answer: {found.reason}"
        return found

    def _declared(self, asked: Asked, event: Event) -> bool:
        """Whether a request differs only in what the plan says will."""
        parts = self._parts(event)
        if asked.kind != "llm_call" or not parts:
            return False
        if event.name != asked.name and "model" not in parts:
            return False
        kept = self.tape.payload(event, "in")
        crossing = self.comparison.crossing(asked)
        if MISSING in (kept, crossing.given) or asked.given is NOTHING:
            return False
        return self.comparison.same_but(asked.seam, kept, crossing.given, parts)

    def _parts(self, event: Event) -> set[str]:
        """The members of a request that the plan says will differ."""
        return {
            member
            for one in self._patches
            if one.what in REQUEST and event.seq >= (one.seq or 0)
            for member in REQUEST[one.what]
        }

    def _prefix(self, asked: Asked, event: Event | None, ahead: int | None) -> Drift:
        found = self.drift(asked, event, ahead)
        return replace(
            found, kind="INCOMPARABLE", reason=f"PREFIX: before the first change, {found.reason}"
        )

    def _incomparable(self, why: str) -> Drift:
        return Drift(kind="INCOMPARABLE", seq=0, reason=f"PREFIX: {why}")

    @staticmethod
    def _words(of: Asked | Event) -> tuple[Any, ...]:
        return of.agent, of.kind, of.seam, of.name


def _lane(event: Event) -> tuple[str, str]:
    return event.agent, event.attr.get("lane", "")


def _missing(event: Event) -> Drift:
    return Drift(
        kind="MISSING_CALL",
        seq=event.seq,
        reason="it was recorded and not asked for again",
        expected=event,
    )


def player_of(plan: Plan, tape: Tape, redactor: Redacts, codecs: Codecs) -> StrictPlayer:
    """The player of a plan."""
    if plan.mode == "strict":
        return (MovedPlayer if plan.moved else StrictPlayer)(tape, redactor, codecs)
    kind = {
        "tools": ToolsPlayer,
        "shadow": ShadowPlayer,
        "fork": ForkPlayer,
        "counterfactual": CounterfactualPlayer,
    }[plan.mode]
    made: StrictPlayer = kind(plan, tape, redactor, codecs)
    return made
