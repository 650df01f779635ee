"""Expectations about the way there: milestones, minefields, progress, and a weighted rubric.

Rules
1. A mark is a call (answered, with these arguments), a row (these values, there or gone), or CEL
   over the world at the end.
2. A milestone is reached at the earliest event at which it holds after all it comes ``after``; in
   an order without rings that is enough to know whether any way through exists.
3. A minefield that was stepped on fails, whatever was reached.
4. Rows are followed back from the end by what the twins recorded of each call.
5. A rubric is shown and decides nothing: an average must not excuse a failure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from processors.model.twin import TwinEvent
from sidecar.evaluate.expectation import Expectation
from sidecar.evaluate.judgement import Judgement, failed, passed, skipped
from sidecar.evaluate.matching import at, matches, same
from sidecar.evaluate.observed import Observed, WorldView, step_of
from sidecar.evaluate.state import holds_in, same_entity

_MADE = frozenset({"answered", "unanswered"})


class Mark(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that can be seen to have happened; ``weight`` counts in a rubric only."""

    id: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}
    entity: str = ""
    key: Any = None
    equals: dict[str, Any] | None = None
    exists: bool | None = None
    that: str = ""
    after: tuple[str, ...] = ()
    weight: float = 1.0

    def problems(self) -> Iterator[str]:
        """Exactly one kind of mark."""
        row = bool(self.entity)
        if sum((bool(self.tool), row, bool(self.that))) != 1:
            yield "needs exactly one of tool, entity and that"
        if row and (self.key is None or (self.equals is None) == (self.exists is None)):
            yield "of an entity needs key, and equals or exists"
        if self.weight < 0:
            yield "has a weight below 0"

    def named(self, place: int) -> str:
        """Its id, or what it is about."""
        return self.id or self.tool or self.entity or f"mark {place + 1}"


class Milestones(Expectation, frozen=True, kw_only=True, tag="milestones"):
    """All of ``reach``, in their order; none of ``avoid`` ever."""

    reach: tuple[Mark, ...] = ()
    avoid: tuple[Mark, ...] = ()

    def tools_named(self) -> Sequence[str]:
        """Those of the marks."""
        return _tools((*self.reach, *self.avoid))

    def problems(self, tools: Sequence[str]) -> list[str]:
        """Marks that can be seen, in an order without rings."""
        found = [*super().problems(tools), *_mark_problems((*self.reach, *self.avoid))]
        if not self.reach and not self.avoid:
            found.append("needs reach or avoid")
        names = {one.id for one in self.reach if one.id}
        for one in self.reach:
            found += [
                f"comes after {name!r}, no such id" for name in one.after if name not in names
            ]
        if any(one.after for one in self.avoid):
            found.append("has a minefield with after")
        if _in_order(self.reach) is None:
            found.append("has milestones that come after each other in a ring")
        return found


class Progress(Expectation, frozen=True, kw_only=True, tag="progress"):
    """At least so many (all, when not given) of the marks happened: doing nothing is no pass."""

    marks: tuple[Mark, ...]
    least: int | None = None

    def tools_named(self) -> Sequence[str]:
        """Those of the marks."""
        return _tools(self.marks)

    def problems(self, tools: Sequence[str]) -> list[str]:
        """Something must have to happen."""
        found = [*super().problems(tools), *_mark_problems(self.marks)]
        least = len(self.marks) if self.least is None else self.least
        if not 1 <= least <= len(self.marks):
            found.append("needs marks, and least between 1 and their number")
        return found


class Rubric(Expectation, frozen=True, kw_only=True, tag="rubric"):
    """A weighted share of marks, to be shown; ``required`` must be false."""

    marks: tuple[Mark, ...]
    least: float = 0.0

    def tools_named(self) -> Sequence[str]:
        """Those of the marks."""
        return _tools(self.marks)

    def problems(self, tools: Sequence[str]) -> list[str]:
        """Never decisive."""
        found = [*super().problems(tools), *_mark_problems(self.marks)]
        if self.required:
            found.append("must have required: false: a rubric is shown and decides nothing")
        if sum(one.weight for one in self.marks) <= 0:
            found.append("needs a mark with a weight")
        return found


def milestones(expected: Milestones, observed: Observed) -> Judgement:
    """All reached in order, no minefield stepped on. Raises ExpressionFailed."""
    if observed.world is None:
        return skipped("no twin took part, so there is no state to follow")
    past = _Past(observed)
    for place, mine in enumerate(expected.avoid):
        when = past.first(mine, -1)
        if when is not None:
            return failed(f"minefield {mine.named(place)} was stepped on", past.step(when))
    reached: dict[str, int] = {}
    for mark in _in_order(expected.reach) or ():
        when = past.first(mark, max((reached[one] for one in mark.after), default=-1))
        if when is None:
            late = " in its order" if mark.after and past.first(mark, -1) is not None else ""
            return failed(f"milestone {mark.named(0)} was not reached{late}")
        if mark.id:
            reached[mark.id] = when
    return passed(f"{len(expected.reach)} milestones reached, {len(expected.avoid)} mines avoided")


def progress(expected: Progress, observed: Observed) -> Judgement:
    """So many marks happened. Raises ExpressionFailed."""
    if observed.world is None:
        return skipped("no twin took part, so there is no state to follow")
    past = _Past(observed)
    lacking = [m.named(n) for n, m in enumerate(expected.marks) if past.first(m, -1) is None]
    least = len(expected.marks) if expected.least is None else expected.least
    done = len(expected.marks) - len(lacking)
    said = f"{done} of {len(expected.marks)} marks"
    if done < least:
        return failed(f"{said}, at least {least} expected; lacking: {', '.join(lacking)}")
    return passed(said)


def rubric(expected: Rubric, observed: Observed) -> Judgement:
    """The weighted share of marks, as a value."""
    if observed.world is None:
        return skipped("no twin took part, so there is no state to follow")
    past = _Past(observed)
    whole = sum(one.weight for one in expected.marks)
    share = sum(m.weight for m in expected.marks if past.first(m, -1) is not None) / whole
    said = f"{share:.2f} of 1 by weight (shown, decides nothing)"
    return passed(said) if share >= expected.least else failed(f"{said}, {expected.least} wished")


class _Past:
    """What held after each event; event -1 is the start, and also where nothing ever happened."""

    def __init__(self, observed: Observed) -> None:
        assert observed.world is not None
        self._observed = observed
        self._world: WorldView = observed.world
        self._events = [one for one in observed.events if one.kind != "fault_fired"]

    def first(self, mark: Mark, after: int) -> int | None:
        """The place of the earliest event at which the mark holds; calls come later than
        ``after``, states may hold there already. CEL holds at the end or never.
        """
        if mark.tool:
            places = range(after + 1, len(self._events))
            return next((one for one in places if _is_call(self._events[one], mark)), None)
        if mark.that:
            return len(self._events) if holds_in(mark.that, self._world) else None
        rows = self._rows(mark.entity, mark.key)
        return next(
            (
                one
                for one in range(max(after, -1), len(self._events))
                if _is_row(rows[one + 1], mark)
            ),
            None,
        )

    def step(self, place: int) -> str | None:
        """The step of an event."""
        if not 0 <= place < len(self._events):
            return None
        return step_of(self._events[place], self._observed)

    def _rows(self, entity: str, key: Any) -> list[Any]:
        """The row at the start and after each event, from the end backwards."""
        row = self._world.row(entity, key)
        rows = [row]
        for event in reversed(self._events):
            for change in reversed(event.changes):
                if change.key == str(key) and same_entity(entity, change.entity, event.twin):
                    row = change.before
            rows.append(row)
        return rows[::-1]


def _is_call(event: TwinEvent, mark: Mark) -> bool:
    return (
        event.kind in _MADE and event.tool == mark.tool and matches(event.arguments, mark.arguments)
    )


def _is_row(row: Any, mark: Mark) -> bool:
    if mark.exists is not None:
        return (row is not None) == mark.exists
    return row is not None and all(
        there and same(found, value)
        for name, value in (mark.equals or {}).items()
        for there, found in (at(row, name),)
    )


def _tools(marks: Sequence[Mark]) -> Sequence[str]:
    return tuple(one.tool for one in marks if one.tool)


def _mark_problems(marks: Sequence[Mark]) -> Iterator[str]:
    seen: set[str] = set()
    for place, one in enumerate(marks):
        yield from (f"{one.named(place)} {text}" for text in one.problems())
        if one.id and one.id in seen:
            yield f"has {one.id!r} twice"
        seen.add(one.id)


def _in_order(marks: Sequence[Mark]) -> list[Mark] | None:
    """Each after all it comes after; None where there is a ring."""
    waiting: list[Mark] = list(marks)
    names: Mapping[str, bool] = {one.id: True for one in marks if one.id}
    done: set[str] = set()
    found: list[Mark] = []
    while waiting:
        ready = [m for m in waiting if all(one in done or one not in names for one in m.after)]
        if not ready:
            return None
        found += ready
        done |= {one.id for one in ready}
        waiting = [one for one in waiting if one not in ready]
    return found
