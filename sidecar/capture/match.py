"""What kind of drift a crossing is that is none of its tape's, and what on the tape is nearest.

**Rules**
1. Which event a crossing should be is found by its key (``play``), and never by its input: on a
   mismatch the tape is searched further, to explain only.
2. The same input at the same site another time is ORDER, and so is an event that comes when one
   that comes after it was asked for already; at another site it has MOVED, which explains a drift
   and is none. Else what differs in the input says the kind.
3. What only codecs leave out of account is noise: counted, shown, no drift.
4. Nothing here changes: the same tape and crossing give the same answer, and a miss leaves nothing
   behind. At most ``NEAR_MAX`` events are looked at and ``CANDIDATES_MAX`` told.
5. ``told`` names places and never content.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from sidecar.canonical import NotCanonical
from sidecar.tape.codec import Codecs
from sidecar.tape.drift import Drift, Place, input_drift, output_drift, places_of
from sidecar.tape.model import Event, Kind, Seam, Status
from sidecar.tape.tape import MISSING, Tape

NEAR_MAX: Final = 16
CANDIDATES_MAX: Final = 3
BEFORE_MAX: Final = 64
_MOODS_NS: Final = 10_000_000
# What an agent asks for; everything else on a tape follows from it.
ASKED: Final[frozenset[Kind]] = frozenset({"llm_call", "tool_call", "decision", "human_input"})

# Of several, the one that is told where there is room for one.
_FIRST: Final[tuple[Drift, ...]] = (
    *("ORDER", "EXTRA_CALL", "MISSING_CALL", "PROMPT", "TOOLSET", "PARAMS", "ARGS"),
    *("STATE", "CLAIM", "ERROR_KIND", "RESULT", "OUTPUT", "FINGERPRINT", "LATENCY"),
)

Why = Literal["order", "moved", "here", "alike"]
_Key = tuple[str, Kind, str]


class Crossing(Struct, frozen=True, kw_only=True):
    """What an agent asks, before anything is answered.

    ``given`` is the encoded, redacted input (MISSING: there is none), ``digest`` its, ``normal``
    the digest of what the codec leaves of it, where that is another.
    """

    kind: Kind
    seam: Seam | None
    agent: str = ""
    site: str = ""
    name: str = ""
    given: Any = MISSING
    digest: str | None = None
    normal: str | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """What came of a crossing, or of the whole run: as ``Crossing``, of the output."""

    status: Status = "unset"
    error: str | None = None
    given: Any = MISSING
    digest: str | None = None
    normal: str | None = None


class Candidate(Struct, frozen=True, kw_only=True):
    """A recorded event near a crossing; ``places`` is None where content was not kept.

    ``why``: it has this input another time (``order``) or at another site (``moved``), it stands
    ``here``, or it is merely ``alike``. ``used``: it was consumed already.
    """

    seq: int
    why: Why
    name: str
    used: bool
    places: tuple[Place, ...] | None
    more_places: bool


class Match(Struct, frozen=True, kw_only=True):
    """What a crossing is; no ``drift``: what was recorded, or that but for ``noise``.

    ``seq``: the event that stands in its place. ``moved``: one with the same input at another site.
    ``ahead``: an event that comes after it and was asked for already. ``recorded``: how often its
    agent asked at this site on the tape.
    """

    noise: bool = False
    drift: tuple[Drift, ...] = ()
    seq: int | None = None
    moved: int | None = None
    ahead: int | None = None
    recorded: int = 0
    candidates: tuple[Candidate, ...] = ()

    @property
    def kind(self) -> Drift | None:
        """The drift that is told where there is room for one."""
        return next((one for one in _FIRST if one in self.drift), None)

    def told(self) -> str:
        """One line that says what drifted and where; no content."""
        if not self.drift:
            return "as recorded"
        place = f" at seq {self.seq}" if self.seq is not None else ""
        return f"{' and '.join(self.drift)}{place}: {self.reason()}"

    def reason(self) -> str:
        """The same without which drift it is, and of which event."""
        others = [one for one in self.drift if one != self.kind]
        also = f", {' and '.join(others)} too" if others else ""
        if self.ahead is not None:
            return f"it comes after seq {self.ahead}, which comes after it on the tape"
        nearest = next(iter(self.candidates), None)
        if nearest is None:
            return f"nothing like it is on the tape{also}"
        if nearest.why == "order":
            other = ", asked by another task or thread there" if nearest.seq == self.seq else ""
            return f"this input comes at seq {nearest.seq}{other}"
        if nearest.why == "moved":
            return f"this input stands at another site, at seq {nearest.seq}{also}"
        where = ", ".join(one.pointer or "/" for one in nearest.places or ())
        more = " and more" if nearest.more_places else ""
        differs = f" differs in {where}{more}" if where else ""
        again = f"; {self.recorded} on the tape here" if "EXTRA_CALL" in self.drift else ""
        return f"the nearest, at seq {nearest.seq},{differs or ' is alike'}{again}{also}"


class Recorded:
    """A tape made ready for lookups; ``codecs`` are its own."""

    def __init__(self, tape: Tape, codecs: Codecs) -> None:
        self.tape = tape
        self._codecs = codecs
        self._at: dict[_Key, list[Event]] = {}
        self._same: dict[tuple[Kind, str], list[Event]] = {}
        self._alike: dict[tuple[Kind, str], list[Event]] = {}
        for event in tape.events:
            self._at.setdefault(_key(event), []).append(event)
            self._alike.setdefault((event.kind, event.name), []).append(event)
            counts = event.in_n or event.in_
            if counts is not None:
                self._same.setdefault((event.kind, counts), []).append(event)

    def match(
        self,
        crossing: Crossing,
        event: Event | None,
        left: Container[int],
        ahead: int | None = None,
    ) -> Match:
        """What a crossing is in whose place ``event`` stands; ``left``: seqs not asked for yet."""
        if event is None or not _is(event, crossing):
            return self._mismatch(crossing, event, left)
        drift: tuple[Drift, ...] = ("ORDER",) if ahead is not None else ()
        return Match(noise=event.in_ != crossing.digest, drift=drift, seq=event.seq, ahead=ahead)

    def answered(self, event: Event, answer: Answer) -> tuple[tuple[Drift, ...], tuple[Place, ...]]:
        """What of a recorded answer another one differs in, and where."""
        found: set[Drift] = set()
        error = event.err.type if event.err is not None else None
        if (event.st, error) != (answer.status, answer.error):
            found.add("ERROR_KIND")
        places: tuple[Place, ...] = ()
        if (event.out_n or event.out) != (answer.normal or answer.digest):
            kept = self._payload(event, "out")
            if MISSING not in (kept, answer.given):
                counted = self._codecs.output_of(event.seam).project(answer.given)
                places, _ = places_of("out", kept, counted)
            found |= output_drift(event.kind, [one.pointer for one in places])
        return tuple(sorted(found)), places

    def _mismatch(self, crossing: Crossing, event: Event | None, left: Container[int]) -> Match:
        same = self._same.get((crossing.kind, crossing.normal or crossing.digest or ""), ())
        same = [one for one in same if one.name == crossing.name and one.agent == crossing.agent]
        order = [one for one in same if _key(one) == _key(crossing) and one.seq in left][:1]
        moved = [one for one in same if _key(one) != _key(crossing)]
        moved = sorted(moved, key=lambda one: one.seq not in left)[:1]
        here = [event] if event is not None else []
        alike = self._near(crossing, event)
        found: dict[int, Candidate] = {}
        told: tuple[tuple[Why, Sequence[Event]], ...] = (
            ("order", order),
            ("moved", moved),
            ("here", here),
            ("alike", alike),
        )
        for why, events in told:
            for one in events:
                if one.seq not in found and len(found) < CANDIDATES_MAX:
                    found[one.seq] = self._candidate(crossing, one, why, left)
        return Match(
            drift=self._drift(crossing, event, ordered=bool(order)),
            seq=event.seq if event is not None else None,
            moved=moved[0].seq if moved and not order else None,
            recorded=len(self._at.get(_key(crossing), ())),
            candidates=tuple(found.values()),
        )

    def _drift(
        self, crossing: Crossing, event: Event | None, *, ordered: bool
    ) -> tuple[Drift, ...]:
        if ordered:
            return ("ORDER",)
        if event is None:
            return ("EXTRA_CALL",)
        if event.name != crossing.name and crossing.kind != "llm_call":
            return ("EXTRA_CALL", "MISSING_CALL")
        where, _ = self._places(crossing, event)
        found = input_drift(crossing.kind, [one.pointer for one in where or ()])
        if not where and event.name != crossing.name:
            found = {"PARAMS"}
        return tuple(sorted(found))

    def _near(self, crossing: Crossing, event: Event | None) -> list[Event]:
        """Events of the same name, those first that differ in the fewest places."""
        alike = self._alike.get((crossing.kind, crossing.name), [])
        around = event or next(reversed(self._at.get(_key(crossing), ())), None)
        middle = bisect_left(alike, around.seq, key=_seq) if around is not None else 0
        first = max(0, min(middle - NEAR_MAX // 2, len(alike) - NEAR_MAX))
        near = alike[first : first + NEAR_MAX]

        def far(one: Event) -> tuple[int, int, int]:
            where, _ = self._places(crossing, one)
            return (
                one.agent != crossing.agent,
                len(where) if where is not None else NEAR_MAX,
                abs(one.seq - (around.seq if around is not None else 0)),
            )

        return sorted(near, key=far)[:CANDIDATES_MAX]

    def _candidate(
        self, crossing: Crossing, event: Event, why: Why, left: Container[int]
    ) -> Candidate:
        where, more = self._places(crossing, event)
        return Candidate(
            seq=event.seq,
            why=why,
            name=event.name,
            used=event.seq not in left,
            places=where,
            more_places=more,
        )

    def _places(self, crossing: Crossing, event: Event) -> tuple[tuple[Place, ...] | None, bool]:
        kept = self._payload(event, "in")
        if kept is MISSING or crossing.given is MISSING:
            return None, False
        counted = self._codecs.input_of(crossing.seam).project(crossing.given)
        return places_of("in", kept, counted)

    def _payload(self, event: Event, side: Literal["in", "out"]) -> Any:
        """A recorded payload as far as it counts; MISSING where it was not kept."""
        try:
            value = self.tape.payload(event, side)
        except NotCanonical:  # its digest holds, and it is no JSON
            return MISSING
        if value is MISSING:
            return value
        codecs = self._codecs
        of = codecs.input_of(event.seam) if side == "in" else codecs.output_of(event.seam)
        return of.project(value)


def slower(event: Event, duration_ns: int, *, times: float = 2.0) -> tuple[Drift, ...]:
    """LATENCY where a live answer took that many times as long as the recorded, and longer than a
    machine's own moods make it; report only."""
    start, end = event.t.get("start"), event.t.get("end")
    if start is None or end is None or end <= start:
        return ()
    longer = duration_ns - (end - start) > _MOODS_NS
    return ("LATENCY",) if longer and duration_ns > times * (end - start) else ()


def _is(event: Event, crossing: Crossing) -> bool:
    counts = event.in_n or event.in_
    return event.name == crossing.name and counts == (crossing.normal or crossing.digest)


def _key(of: Event | Crossing) -> _Key:
    return of.agent, of.kind, of.site or of.name


def _seq(event: Event) -> int:
    return event.seq


def asked_before(events: Iterable[Event]) -> list[tuple[int, ...]]:
    """For each event, what its agent asked for last before it: past what only follows from that.

    An event without causes is let through: lines of execution that begin before anything was asked
    say none either. Of more than ``BEFORE_MAX`` the last: an order is checked, not proved.
    """
    found: list[tuple[int, ...]] = []
    asked: list[
        tuple[int, ...]
    ] = []  # an event itself where it was asked for, else what it follows
    frontiers: dict[str, list[int]] = {}
    agents: list[str] = []
    for event in events:
        frontier = frontiers.setdefault(event.agent, [])
        past = event.cause or tuple(frontier)
        before = {one for seq in past if agents[seq] == event.agent for one in asked[seq]}
        if not event.cause:
            frontier.clear()
        frontier.append(event.seq)
        told = tuple(sorted(before)[-BEFORE_MAX:])
        found.append(told if event.cause else ())
        asked.append((event.seq,) if event.kind in ASKED else told)
        agents.append(event.agent)
    return found
