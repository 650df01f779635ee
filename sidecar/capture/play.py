"""What becomes of a crossing when a tape is played: it is answered from the tape, goes live, or
is a drift.

**Rules**
1. A crossing is looked up by its key: agent, seam, site, and how often this line of execution came
   there before. What was asked is compared with what was recorded, and never searched by.
2. Strict: a crossing that the tape does not hold, or that asks something else, is a drift. Nothing
   goes live.
3. What was recorded and not asked for by the end is a drift too. ``state_patch`` and ``error`` are
   never asked for: they must happen as recorded, each in the order of its agent, kind and name.
4. The first drift is the run's; who swallows it meets it again at the next crossing.
5. The exact digest of what was played folds its events in the tape's order, with what each came
   after in this run: equal digests mean the same events, each after the same. Where it ends as
   another than the tape's, that is a drift: ORDER, at the first event that came after others.

How a drift is explained (its nearest candidates) is ``match``'s; the other modes are players of
their own.
"""

import hashlib
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from sidecar.canonical import NotCanonical, canonical
from sidecar.capture.comparable import obstacles
from sidecar.capture.match import Answer as Ended
from sidecar.capture.match import Crossing, Match, Recorded, asked_before
from sidecar.capture.plan import Plan
from sidecar.tape.answers import results_of
from sidecar.tape.codec import Codecs
from sidecar.tape.compose import NOTHING, Fact
from sidecar.tape.drift import Drift as Drift_
from sidecar.tape.model import Event, Kind, Seam, Status
from sidecar.tape.redaction import Redacts
from sidecar.tape.seal import exact_start, identity
from sidecar.tape.tape import MISSING, Tape
from sidecar.tape.value import address, decoded, encoded

DriftKind = Drift_ | Literal["INCOMPARABLE"]
_ASSERTED: Final[dict[Kind, DriftKind]] = {
    "llm_call": "PROMPT",
    "tool_call": "ARGS",
    "decision": "ARGS",
    "human_input": "PROMPT",
}
_STRICT: Final = Plan()
_SEQS_MAX: Final = 8
_REQUIRED: Final = frozenset(_ASSERTED)
# What happens without being asked for, and the drift where it does not, or otherwise.
_NOTED: Final[dict[Kind, DriftKind]] = {"state_patch": "STATE", "error": "ERROR_KIND"}


class Asked(Struct, frozen=True, kw_only=True, gc=False):
    """One crossing: ``lane`` is the line of execution, ``hit`` how often it came to this site for
    this kind before; ``given`` is what is asked, ``NOTHING`` where there is nothing."""

    kind: Kind
    seam: Seam | None
    agent: str
    name: str
    site: str
    lane: str = ""
    hit: int = 0
    given: Any = NOTHING


class Played(Struct, frozen=True):
    """Answered by ``event``; a tool's answer is in ``result``, None where it was in flight.

    ``answer``: another answer than the tape's, as a mode of replay was told to give.
    """

    event: Event
    result: Event | None = None
    answer: "Answer | None" = None


class Live(Struct, frozen=True):
    """The real thing is to be asked."""


class Drift(Struct, frozen=True, kw_only=True):
    """Where a run left its tape. ``seq`` is the recorded event's, or where it would have stood.

    ``expected`` is the recorded event, ``asked`` the crossing that was none of the tape's.
    ``reason`` says in our words why, and quotes nothing. ``match``: what on the tape is nearest.
    """

    kind: DriftKind
    seq: int
    reason: str
    asked: Asked | None = None
    expected: Event | None = None
    match: Match | None = None


class Drifted(BaseException):
    """A run left its tape; no ``except Exception`` of an agent swallows it."""

    def __init__(self, drift: Drift) -> None:
        self.drift = drift
        super().__init__(f"{drift.kind} at {drift.seq}: {drift.reason}")


class Player(Protocol):
    """A mode of replay. Called under the session's lock, in the order of the crossings."""

    tape: Tape

    def decide(self, asked: Asked) -> Played | Live | Drift:
        """What becomes of a crossing."""
        ...

    def goes_live(self, seam: Seam) -> bool:
        """Whether this seam's next crossing could go live; said without a crossing."""
        ...

    def noted(self, fact: Fact) -> Event | Drift | None:
        """Something happened that nobody asks for (a change of state): the recorded event."""
        ...

    def ended(self, status: Status, output: Mapping[str, Any]) -> Drift | None:
        """The run is over, with this terminal event: what it should have asked for, or said."""
        ...

    def followed(self, tally: "Tally") -> Drift | None:
        """All happened: the first event that came after others than it should have."""
        ...


class Comparison:
    """Whether what is asked is what was recorded: redacted, projected, digest by digest."""

    def __init__(self, redactor: Redacts, codecs: Codecs) -> None:
        self._redactor, self._codecs = redactor, codecs
        self.noise = 0  # inputs that were other than recorded in what does not count

    def same_input(self, seam: Seam | None, given: Any, event: Event) -> bool:
        """Whether a crossing asks what an event asked."""
        if given is NOTHING or event.in_ is None:
            return (given is NOTHING) == (event.in_ is None)
        try:
            plain = encoded(given)
            if address(canonical(plain)) == event.in_:  # redacting it again would change nothing
                return True
            same = self.normal(seam, plain) == (event.in_n or event.in_)
        except NotCanonical:
            return False
        self.noise += same
        return same

    def crossing(self, asked: Asked) -> Crossing:
        """What is asked, as ``match`` compares it."""
        said = Crossing(
            kind=asked.kind, seam=asked.seam, agent=asked.agent, site=asked.site, name=asked.name
        )
        if asked.given is NOTHING:
            return said
        try:
            given = self._redactor.value(encoded(asked.given))
            digest = address(canonical(given))
            normal = address(canonical(self._codecs.input_of(asked.seam).project(given)))
        except NotCanonical:
            return said
        return replace(said, given=given, digest=digest, normal=normal)

    def match(
        self,
        tape: Tape,
        asked: Asked,
        event: Event | None,
        left: Container[int],
        ahead: int | None = None,
    ) -> Match:
        """What a crossing is that is none of the tape's: looked for only once it is known to be."""
        return Recorded(tape, self._codecs).match(self.crossing(asked), event, left, ahead)

    def happened(
        self, tape: Tape, event: Event, status: Status, output: Any, error: str | None
    ) -> DriftKind | None:
        """The drift of what happened, an end or a change of state, otherwise than an event says."""
        try:
            given = self._redactor.value(encoded(output))
            digest = address(canonical(given))
        except NotCanonical:
            given, digest = MISSING, None
        recorded = event.err.type if event.err is not None else None
        if (status, digest, error) == (event.st, event.out_n or event.out, recorded):
            return None
        end = Ended(status=status, error=error, given=given, digest=digest)
        found, _ = Recorded(tape, self._codecs).answered(event, end)
        return next(
            (one for one in ("CLAIM", "STATE", "ERROR_KIND", "OUTPUT") if one in found), None
        )

    def same_but(self, seam: Seam | None, one: Any, other: Any, members: Container[str]) -> bool:
        """Whether two encoded inputs are the same but for some of their members."""
        if not (isinstance(one, dict) and isinstance(other, dict)):
            return False
        project = self._codecs.input_of(seam).project
        rest = [{k: v for k, v in each.items() if k not in members} for each in (one, other)]
        return canonical(project(rest[0])) == canonical(project(rest[1]))

    def normal(self, seam: Seam | None, plain: Any) -> str:
        """The digest of what counts of an encoded input. Raises NotCanonical."""
        redacted = self._redactor.value(plain)
        return address(canonical(self._codecs.input_of(seam).project(redacted)))


class Cursor:
    """A tape's events by the key of the crossing that asks for them; each is given once."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._by_key: dict[tuple[Any, ...], Event] = {}
        self.results = results_of(events)
        self._left: dict[int, Event] = {}
        self._before = asked_before(events)
        self._overtaken: dict[int, int] = {}
        for event in events:
            if event.kind in _REQUIRED:
                self._by_key[key_of(event)] = event
                self._left[event.seq] = event

    def find(self, asked: Asked) -> Event | None:
        """The event a crossing asks for, which stays."""
        return self._by_key.get(
            (asked.agent, asked.seam, asked.site or asked.name, asked.kind, asked.lane, asked.hit)
        )

    def take(self, event: Event) -> None:
        """An event was given; what it comes after and was not given yet, it has overtaken.

        If that never comes it is missing, and not out of order.
        """
        self._left.pop(event.seq, None)
        if event.seam == "scheduler":  # who won is asked before they run, and comes after them
            return
        for seq in self._before[event.seq]:
            if seq in self._left:
                self._overtaken.setdefault(seq, event.seq)

    def ahead(self, event: Event) -> int | None:
        """An event that comes after this one and was asked for already."""
        return self._overtaken.get(event.seq)

    def is_left(self, event: Event) -> bool:
        """Whether nobody asked for it yet."""
        return event.seq in self._left

    @property
    def left_seqs(self) -> Container[int]:
        """The same by seq."""
        return self._left

    @property
    def left(self) -> Iterable[Event]:
        """What nobody asked for yet, in order."""
        return self._left.values()


def key_of(event: Event) -> tuple[Any, ...]:
    """The key an event is found by; lane and hit stand in ``attr`` where they are not plain."""
    attr = event.attr
    lane, hit = ("", event.ord) if not attr else (attr.get("lane", ""), attr.get("hit", event.ord))
    return (event.agent, event.seam, event.site or event.name, event.kind, lane, hit)


class StrictPlayer:
    """Mode strict: everything from the tape."""

    def __init__(self, tape: Tape, redactor: Redacts, codecs: Codecs) -> None:
        self.tape = tape
        self.cursor = Cursor(tape.events)
        self._notes: dict[tuple[Any, ...], deque[Event]] = {}
        for event in tape.events:
            if event.kind in _NOTED:
                key = (event.agent, event.kind, event.name)
                self._notes.setdefault(key, deque()).append(event)
        self.comparison = Comparison(redactor, codecs)

    def decide(self, asked: Asked) -> Played | Live | Drift:
        """Played, or a drift."""
        event = self.cursor.find(asked)
        if event is None or not self.is_asked(asked, event):
            return self.drift(asked, event)
        if (ahead := self.cursor.ahead(event)) is not None:
            return self.drift(asked, event, ahead)
        self.cursor.take(event)
        return Played(event, self.cursor.results.get(event.seq))

    def is_asked(self, asked: Asked, event: Event) -> bool:
        """Whether a crossing asks what was recorded."""
        same = event.name == asked.name
        return same and self.comparison.same_input(asked.seam, asked.given, event)

    def drift(self, asked: Asked, event: Event | None, ahead: int | None = None) -> Drift:
        """What kind of drift a crossing is; ``event`` stands in its place on the tape."""
        found = self.comparison.match(self.tape, asked, event, self.cursor.left_seqs, ahead)
        following = next((one.seq for one in self.cursor.left), len(self.tape.events))
        return Drift(
            kind=found.kind or _ASSERTED[asked.kind],
            seq=following if event is None else event.seq,
            reason=found.reason(),
            asked=asked,
            expected=event,
            match=found,
        )

    def noted(self, fact: Fact) -> Event | Drift | None:
        """The recorded event, or a drift where the tape says another or none."""
        waiting = self._notes.get((fact.agent, fact.kind, fact.name))
        if not waiting:
            return Drift(
                kind=_NOTED.get(fact.kind, "EXTRA_CALL"),
                seq=next((one.seq for one in self.cursor.left), len(self.tape.events)),
                reason="it did not happen on the tape",
            )
        event = waiting.popleft()
        error = fact.error[0] if fact.error is not None else None
        kind = self.comparison.happened(self.tape, event, fact.status, fact.output, error)
        if kind is None:
            return event
        return Drift(kind=kind, seq=event.seq, reason="it happened otherwise", expected=event)

    def goes_live(self, seam: Seam) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def ended(self, status: Status, output: Mapping[str, Any]) -> Drift | None:
        """The first recorded event that was not asked for; else another end than recorded."""
        for event in self.cursor.left:
            return Drift(
                kind="MISSING_CALL",
                seq=event.seq,
                reason="it was recorded and not asked for again",
                expected=event,
            )
        for event in (one for waiting in self._notes.values() for one in waiting):
            why = "it was recorded and did not happen again"
            return Drift(kind=_NOTED[event.kind], seq=event.seq, reason=why, expected=event)
        last = self.tape.events[-1]
        error = last.err.type if last.err is not None else None
        kind = self.comparison.happened(self.tape, last, status, output, error)
        if kind is None:
            return None
        kept = self.tape.payload(last, "out")
        said = kept.get("output") if isinstance(kept, dict) else None
        if kind == "OUTPUT" and said is not None and output.get("output") is None:
            why = "the run did not say what it answered, as it did when it was recorded (output)"
        else:
            why = "the run ended in another way"
        return Drift(kind=kind, seq=last.seq, reason=why, expected=last)

    def followed(self, tally: "Tally") -> Drift | None:
        """The first event that the exact digest folds otherwise than the tape's does."""
        found = tally.parted(self.tape.events)
        if found is None:
            return None
        event, causes = found
        why = (
            f"not played once ({len(causes)} times)"
            if len(causes) != 1
            else f"it came after {_seqs(causes[0])} here, and after {_seqs(event.cause)} on the "
            "tape (causes)"
        )
        return Drift(kind="ORDER", seq=event.seq, reason=why, expected=event)


class Answer(Struct, frozen=True, kw_only=True):
    """What a tape answers: decoded payloads. ``lost``: there was one, and it was not kept."""

    out: Any = None
    status: Status = "unset"
    error: tuple[str, str | None] | None = None
    chunks: tuple[Any, ...] | None = None
    usage: dict[str, int] = {}
    lost: bool = False


def answer_of(tape: Tape, played: Played) -> Answer:
    """What stands on a tape as the answer to a crossing."""
    if played.answer is not None:
        return played.answer
    event = played.event
    if event.kind == "tool_call":
        if played.result is None:
            return Answer(lost=True)
        event = played.result
    out = tape.payload(event, "out") if event.out is not None else None
    chunks = tape.chunks(event) if event.chunks else None
    error = None
    lost = out is MISSING or (chunks is not None and MISSING in chunks)
    if event.err is not None:
        message = tape.blob(event.err.message)
        lost = lost or (event.err.message is not None and message is MISSING)
        error = (event.err.type, None if message is MISSING else message)
    return Answer(
        out=None if out is MISSING else decoded(out),
        status=event.st,
        error=error,
        chunks=None if chunks is None or lost else tuple(map(decoded, chunks)),
        usage=event.use,
        lost=lost,
    )


class Tally:
    """The exact digest of what was played, by the rules of a seal: events in the tape's order, each
    after what it came after this time."""

    def __init__(self, codecs: Mapping[str, str]) -> None:
        self._codecs = codecs
        self._happened: list[tuple[Event, tuple[int, ...]]] = []

    @property
    def events(self) -> int:
        """How many have happened."""
        return len(self._happened)

    def add(self, event: Event, cause: tuple[int, ...]) -> None:
        """A recorded event happened again, after ``cause``."""
        self._happened.append((event, cause))

    def parted(self, events: Sequence[Event]) -> tuple[Event, list[tuple[int, ...]]] | None:
        """The first of a tape's events that did not happen once and after what it came after
        there, with what it came after each time."""
        causes: dict[int, list[tuple[int, ...]]] = {}
        for event, cause in self._happened:
            causes.setdefault(event.seq, []).append(cause)
        for event in events:
            if (found := causes.get(event.seq, [])) != [event.cause]:
                return event, found
        return None

    def digest(self) -> str:
        """``sha256:<hex>``."""
        found = exact_start(self._codecs)
        for event, cause in sorted(self._happened, key=_place):
            same = event if cause == event.cause else replace(event, cause=cause)
            found = hashlib.sha256(found + canonical(identity(same))).digest()
        return f"sha256:{found.hex()}"


def _place(happened: tuple[Event, tuple[int, ...]]) -> int:
    return happened[0].seq


def _seqs(cause: Sequence[int]) -> str:
    if not cause:
        return "nothing"
    told = ", ".join(map(str, cause[:_SEQS_MAX]))
    return f"seq {told}{' and more' if len(cause) > _SEQS_MAX else ''}"


def incomparable(
    tape: Tape, redactor: Redacts, codecs: Codecs, plan: Plan = _STRICT
) -> Drift | None:
    """Why a tape cannot be replayed so here: partial, tainted, of another codec or redactor, or
    without the content that a replay hands out."""
    found = obstacles(
        tape,
        codecs=codecs.fingerprints(),
        redactor=redactor.identity,
        least="L3" if plan.mode in ("strict", "counterfactual", "fork") else "L2",
        until=plan.fork,
        clean=plan.moved,
    )
    reason = next((f"{one.reason}: {one.detail}" for one in found), None)
    return None if reason is None else Drift(kind="INCOMPARABLE", seq=0, reason=reason)
