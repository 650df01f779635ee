"""Two tapes compared: per agent the first divergence, then the rest aligned.

**Rules**
1. An event is common when it and all that comes before it in its agent are equal on both sides:
   whatever order the causes permit is no divergence.
2. Behind an agent's first divergence everything that is not common is its consequence.
3. Tapes that different rules made (codecs, redactors, content against none), or that do not hold,
   are not compared; a partial or tainted one is, and nothing is concluded. Never drift.
4. Swapping the tapes swaps sides, ``insert`` and ``delete``, and changes nothing else.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from sidecar.canonical import canonical
from sidecar.replay.diff.explain import changes, drift_of, kind_of, places, suspects
from sidecar.replay.diff.model import (
    Agent,
    Change,
    Diff,
    Divergence,
    Incomparable,
    Outcome,
    Reason,
    Row,
)
from sidecar.replay.diff.reading import Reading
from sidecar.tape.align import aligned
from sidecar.tape.codec import Codecs
from sidecar.tape.lineage import Lineage, lineage
from sidecar.tape.model import Event
from sidecar.tape.record import as_dict
from sidecar.tape.tape import Tape

_ENDS: tuple[Reason, ...] = ("CODEC", "REDACTOR", "BROKEN")
_ABOUT = {"tape_id", "run_id", "trace_ids", "captured_at", "expires_at", "derived_from"}


class _Lane(Struct, frozen=True):
    """One agent's events that are not common, by side, and the pairs of those that are."""

    agent: str
    common: list[tuple[int, int]]
    rest_l: list[int]
    rest_r: list[int]


class _Start(Struct, frozen=True):
    """Where a lane's runs part: an event of each side, or of one."""

    seq_l: int | None
    seq_r: int | None
    kind: Change


def compare(left: Tape, right: Tape, codecs: Codecs | None) -> Diff:
    """The diff of two tapes; ``codecs`` are theirs, None where they are not known."""
    reasons = _reasons(left, right)
    if any(one.reason in _ENDS for one in reasons):
        return _diff(left, right, reasons, (), "nothing")
    bare = not (_has_content(left) and _has_content(right))
    reading = Reading(left, right, codecs, structure=bare)
    agents = _Comparison(left, right, reading).agents()
    return _diff(left, right, reasons, agents, "structure" if bare else "content")


class _Comparison:
    def __init__(self, left: Tape, right: Tape, reading: Reading) -> None:
        self._left, self._right, self._reading = left, right, reading
        self._lines = (
            lineage(left.events, reading.label),
            lineage(right.events, reading.label),
        )

    def agents(self) -> tuple[Agent, ...]:
        """Every agent of either tape, by name."""
        one, other = self._lines
        names = sorted(one.lanes.keys() | other.lanes.keys())
        lanes = [_lane(name, one, other, one.own, other.own) for name in names]
        if any(lane.rest_l or lane.rest_r for lane in lanes):
            return tuple(self._agent(lane, self._start(lane)) for lane in lanes)
        # Each agent did the same; what they did may still hang together in another way.
        lanes = [_lane(name, one, other, one.whole, other.whole) for name in names]
        loose_l = {seq for lane in lanes for seq in lane.rest_l}
        loose_r = {seq for lane in lanes for seq in lane.rest_r}
        return tuple(
            self._agent(
                lane,
                _turned(_first(lane.rest_l, one, loose_l), _first(lane.rest_r, other, loose_r)),
            )
            for lane in lanes
        )

    def _agent(self, lane: _Lane, start: _Start | None) -> Agent:
        one, other = self._lines
        return Agent(
            agent=lane.agent,
            common=len(lane.common),
            left=len(one.lanes.get(lane.agent, ())),
            right=len(other.lanes.get(lane.agent, ())),
            first_divergence=None if start is None else self._divergence(lane.agent, start),
            rows=tuple(self._rows(lane, start)),
        )

    def _start(self, lane: _Lane) -> _Start | None:
        """The divergence that nothing else comes before; of several the one of the least seq."""
        ready_l = _first(lane.rest_l, self._lines[0], {*lane.rest_l})
        ready_r = _first(lane.rest_r, self._lines[1], {*lane.rest_r})
        if not (ready_l or ready_r):
            return None
        pairs: list[tuple[int, int]] = []
        if ready_l and (partner := self._like(self._one(ready_l[0]), ready_r, self._other)) >= 0:
            pairs.append((ready_l[0], partner))
        if ready_r and (partner := self._like(self._other(ready_r[0]), ready_l, self._one)) >= 0:
            pairs.append((partner, ready_r[0]))
        best = min(pairs, key=self._rank, default=None)
        alone = [seq for seq in (*ready_l[:1], *ready_r[:1]) if all(seq not in p for p in pairs)]
        if best is not None and min(alone, default=min(best)) >= min(best):
            return _Start(*best, self._kind(lane, *best))
        return self._alone(
            lane,
            ready_l[0] if ready_l and not any(p[0] == ready_l[0] for p in pairs) else None,
            ready_r[0] if ready_r and not any(p[1] == ready_r[0] for p in pairs) else None,
        )

    def _alone(self, lane: _Lane, one: int | None, other: int | None) -> _Start:
        """Of events without a counterpart at the same place."""
        if one is None or other is None:
            return _Start(one, other, "delete" if other is None else "insert")
        if self._moved(lane, one, other):
            return _Start(one, other, "reordered")
        pairs = self._counterparts(lane)
        if any(seq == one for seq, _ in pairs):
            return _Start(None, other, "insert")
        if any(seq == other for _, seq in pairs):
            return _Start(one, None, "delete")
        return _Start(one, other, "replaced")

    def _counterparts(self, lane: _Lane) -> list[tuple[int, int]]:
        """The alignment, without pairs of which one side has its own input at another event."""
        fine_l = [self._fine(self._one(seq)) for seq in lane.rest_l]
        fine_r = [self._fine(self._other(seq)) for seq in lane.rest_r]
        equal = [
            (lane.rest_l[n], lane.rest_r[m]) for n, m in aligned(fine_l, fine_r, (fine_l, fine_r))
        ]
        of_l, of_r = dict(equal), {other: one for one, other in equal}
        return [
            (one, other)
            for one, other in self._aligned(lane.rest_l, lane.rest_r)
            if of_l.get(one, other) == other and of_r.get(other, one) == one
        ]

    def _kind(self, lane: _Lane, one: int, other: int) -> Change:
        changed = changes(self._reading, self._one(one), self._other(other))
        if not changed or ("input" in changed and self._moved(lane, one, other)):
            return "reordered"
        return kind_of(changed)

    def _moved(self, lane: _Lane, one: int, other: int) -> bool:
        """Whether both events stand on both sides, as often: only their order differs."""
        in_l = Counter(self._label(self._one(seq)) for seq in lane.rest_l)
        in_r = Counter(self._label(self._other(seq)) for seq in lane.rest_r)
        return all(
            in_l[label] == in_r[label]
            for label in (self._label(self._one(one)), self._label(self._other(other)))
        )

    def _like(self, event: Event, ready: list[int], at: Callable[[int], Event]) -> int:
        """The counterpart of an event among those that could stand in its place; -1 for none."""
        reading = self._reading
        alike = [seq for seq in ready if reading.identity(at(seq)) == reading.identity(event)]
        same = [seq for seq in alike if reading.given(at(seq)) == reading.given(event)]
        equal = [seq for seq in same if self._label(at(seq)) == self._label(event)]
        return (equal or same or alike or [-1])[0]

    def _rank(self, pair: tuple[int, int]) -> tuple[int, bool, int, list[bytes]]:
        """What decides between pairs: nothing of it changes where the sides are swapped."""
        one, other = self._one(pair[0]), self._other(pair[1])
        differs = self._reading.given(one) != self._reading.given(other)
        return min(pair), differs, max(pair), sorted((self._label(one), self._label(other)))

    def _divergence(self, agent: str, start: _Start) -> Divergence:
        one = None if start.seq_l is None else self._one(start.seq_l)
        other = None if start.seq_r is None else self._other(start.seq_r)
        event = one or other
        assert event is not None
        changed: tuple[str, ...] = ()
        where, more = None, False
        if one is not None and other is not None and start.kind != "replaced":
            changed = changes(self._reading, one, other)
            sides = (self._left, self._right)
            where, more = places(self._reading, sides, one, other, changed)
        return Divergence(
            agent=agent,
            seq_l=start.seq_l,
            seq_r=start.seq_r,
            kind=start.kind,
            drift=drift_of(event, start.kind, changed, where),
            changed=changed,
            places=where,
            more_places=more,
            suspects_l=tuple(suspects(self._left, one, where, "left") if one else ()),
            suspects_r=tuple(suspects(self._right, other, where, "right") if other else ()),
        )

    def _rows(self, lane: _Lane, start: _Start | None) -> list[Row]:
        common = [
            Row(
                agent=lane.agent,
                seq_l=one,
                seq_r=other,
                kind="same",
                noise=_noisy(self._one(one), self._other(other)),
            )
            for one, other in lane.common
        ]
        rest_l = [seq for seq in lane.rest_l if start is None or seq != start.seq_l]
        rest_r = [seq for seq in lane.rest_r if start is None or seq != start.seq_r]
        first = []
        if start is not None:
            first = [Row(agent=lane.agent, seq_l=start.seq_l, seq_r=start.seq_r, kind=start.kind)]
        return [*common, *first, *self._behind(lane.agent, rest_l, rest_r)]

    def _behind(self, agent: str, rest_l: list[int], rest_r: list[int]) -> list[Row]:
        found: list[Row] = []
        at_l = at_r = 0
        places_l = {seq: n for n, seq in enumerate(rest_l)}
        places_r = {seq: n for n, seq in enumerate(rest_r)}
        ends = [(len(rest_l), len(rest_r))]
        met = [(places_l[one], places_r[other]) for one, other in self._aligned(rest_l, rest_r)]
        for stop_l, stop_r in [*met, *ends]:
            found += [_after(agent, seq, None, "delete") for seq in rest_l[at_l:stop_l]]
            found += [_after(agent, None, seq, "insert") for seq in rest_r[at_r:stop_r]]
            if stop_l < len(rest_l):
                one, other = rest_l[stop_l], rest_r[stop_r]
                changed = changes(self._reading, self._one(one), self._other(other))
                found.append(_after(agent, one, other, kind_of(changed)))
            at_l, at_r = stop_l + 1, stop_r + 1
        return found

    def _aligned(self, rest_l: Sequence[int], rest_r: Sequence[int]) -> list[tuple[int, int]]:
        one, other = [self._one(seq) for seq in rest_l], [self._other(seq) for seq in rest_r]
        pairs = aligned(
            [self._identity(event) for event in one],
            [self._identity(event) for event in other],
            (
                [self._fine(event) for event in one],
                [self._fine(event) for event in other],
            ),
        )
        return [(rest_l[n], rest_r[m]) for n, m in pairs]

    def _identity(self, event: Event) -> str:
        return canonical(self._reading.identity(event)).decode()

    def _fine(self, event: Event) -> str:
        return self._identity(event) + str(self._reading.given(event))

    def _label(self, event: Event) -> bytes:
        return canonical(self._reading.label(event))

    def _one(self, seq: int) -> Event:
        return self._left.events[seq]

    def _other(self, seq: int) -> Event:
        return self._right.events[seq]


def _lane(
    agent: str,
    one: Lineage,
    other: Lineage,
    keys_l: tuple[bytes, ...],
    keys_r: tuple[bytes, ...],
) -> _Lane:
    """Equal digests go together, in order of seq."""
    waiting: dict[bytes, list[int]] = {}
    for seq in reversed(other.lanes.get(agent, ())):
        waiting.setdefault(keys_r[seq], []).append(seq)
    common: list[tuple[int, int]] = []
    rest_l: list[int] = []
    for seq in one.lanes.get(agent, ()):
        found = waiting.get(keys_l[seq])
        if found:
            common.append((seq, found.pop()))
        else:
            rest_l.append(seq)
    rest_r = sorted(seq for left_over in waiting.values() for seq in left_over)
    return _Lane(agent, common, rest_l, rest_r)


def _turned(ready_l: list[int], ready_r: list[int]) -> _Start | None:
    """Where events of agents that did the same come after others; None: it follows from there."""
    if not (ready_l or ready_r):
        return None
    return _Start(next(iter(ready_l), None), next(iter(ready_r), None), "reordered")


def _first(rest: list[int], of: Lineage, loose: set[int]) -> list[int]:
    """The events that no other one in question comes before."""
    return [seq for seq in rest if not any(one in loose for one in of.before[seq])]


def _after(agent: str, one: int | None, other: int | None, kind: Change) -> Row:
    return Row(agent=agent, seq_l=one, seq_r=other, kind=kind, consequence=True)


def _noisy(one: Event, other: Event) -> bool:
    """Whether events that count as equal differ in what does not count."""
    told = [(each.in_, each.out, each.chunks, each.err) for each in (one, other)]
    return told[0] != told[1]


def _has_content(tape: Tape) -> bool:
    return any(event.in_ or event.out for event in tape.events)


def _reasons(left: Tape, right: Tape) -> tuple[Incomparable, ...]:
    found: list[Incomparable] = []
    seams = {event.seam for tape in (left, right) for event in tape.events}
    one, other = left.header, right.header
    codecs = [
        seam
        for seam in sorted(one.codecs.keys() | other.codecs.keys())
        if seam in seams and one.codecs.get(seam) != other.codecs.get(seam)
    ]
    if codecs:
        found.append(Incomparable("CODEC", "both", f"other codecs of {', '.join(codecs)}"))
    if one.redactor != other.redactor:
        found.append(Incomparable("REDACTOR", "both", "another redactor, version or key"))
    if _has_content(left) != _has_content(right):
        found.append(Incomparable("FIDELITY", "both", "only one has digests of content"))
    for side, tape in (("left", left), ("right", right)):
        found += [Incomparable(reason, side, detail) for reason, detail in _own(tape)]
    return tuple(found)


def _own(tape: Tape) -> list[tuple[Reason, str]]:
    found: list[tuple[Reason, str]] = []
    if tape.examination.faults:
        found.append(("BROKEN", "it does not hold; see sidecar tape verify"))
    if tape.header.taint:
        found.append(("TAINTED", ", ".join(tape.header.taint)))
    counters = tape.seal.counters if tape.seal is not None else None
    if counters is None:
        found.append(("PARTIAL", "it has no seal"))
    elif counters.dropped or counters.truncated:
        lost = f"{counters.dropped} events and {counters.truncated} payloads were not kept"
        found.append(("PARTIAL", lost))
    return found


def _diff(
    left: Tape,
    right: Tape,
    reasons: tuple[Incomparable, ...],
    agents: tuple[Agent, ...],
    compared: Any,
) -> Diff:
    firsts = [one.first_divergence for one in agents if one.first_divergence is not None]
    outcome: Outcome = "differ" if firsts else "identical"
    return Diff(
        outcome="incomparable" if reasons else outcome,
        incomparable=reasons,
        compared=compared,
        first_divergence=min(firsts, key=_place, default=None),
        agents=agents,
        noise=sum(row.noise for one in agents for row in one.rows),
        header=_headers(left, right),
        duration_ns_l=_duration(left),
        duration_ns_r=_duration(right),
    )


def _place(one: Divergence) -> tuple[int, int, str]:
    seqs = [seq for seq in (one.seq_l, one.seq_r) if seq is not None]
    return min(seqs), max(seqs), one.agent


def _headers(left: Tape, right: Tape) -> tuple[str, ...]:
    one, other = as_dict(left.header), as_dict(right.header)
    keys = sorted((one.keys() | other.keys()) - _ABOUT)
    return tuple(key for key in keys if one.get(key) != other.get(key))


def _duration(tape: Tape) -> int:
    moments = [moment for event in tape.events for moment in event.t.values()]
    return max(moments) - min(moments) if moments else 0
