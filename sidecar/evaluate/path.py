"""Expectation about the whole path: the calls against a reference, strictly or loosely.

Rules
1. ``strict``: the same calls in the same order. ``unordered``: the same calls in any order.
   ``subset``: nothing that the reference lacks. ``superset``: all that the reference has, in any
   order. ``inOrder``: all that it has, in its order, others between.
2. Each actual call stands for at most one of the reference, and each of those for one: the largest
   pairing decides, not the first that fits.
3. A reference is one path that works; where others do, a scenario asks for milestones instead.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, field

from sidecar.evaluate.expectation import Expectation, Status
from sidecar.evaluate.judgement import Judgement, failed, passed
from sidecar.evaluate.matching import matches, same
from sidecar.evaluate.observed import Observed, ToolCall, tool_calls

Arguments = Literal["subset", "exact", "superset", "ignore"]


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of the reference; ``match`` says how its arguments are compared."""

    tool: str
    arguments: dict[str, Any] = {}
    match: Arguments | None = None


class Trajectory(Expectation, frozen=True, kw_only=True, tag="trajectory"):
    """The calls against a reference; ``match`` by tool, ``*`` for any other (default subset)."""

    mode: Literal["strict", "unordered", "subset", "superset", "inOrder"]
    calls: tuple[Expected, ...]
    match: dict[str, Arguments] = field(default_factory=dict)
    status: Status = "executed"

    def tools_named(self) -> Sequence[str]:
        """The tools of the reference."""
        return (*(one.tool for one in self.calls), *(name for name in self.match if name != "*"))

    def problems(self, tools: Sequence[str]) -> list[str]:
        """A reference has calls, or it asks for nothing."""
        found = super().problems(tools)
        if not self.calls and self.mode not in ("strict", "unordered", "subset"):
            found.append(f"has no calls, and {self.mode} then holds of anything")
        return found


def trajectory(expected: Trajectory, observed: Observed) -> Judgement:
    """The path is as the mode says."""
    calls = [one for one in tool_calls(observed) if expected.status == "any" or one.executed]
    if expected.mode == "strict":
        return _strict(expected, calls)
    if expected.mode == "inOrder":
        return _in_order(expected, calls)
    pairs = _paired(expected, calls)
    missing = [number for number in range(len(expected.calls)) if number not in pairs.values()]
    extra = [number for number in range(len(calls)) if number not in pairs]
    if extra and expected.mode in ("unordered", "subset"):
        one = calls[extra[0]]
        return failed(f"{one.tool} is a call that the reference lacks", one.step.step_id)
    if missing and expected.mode in ("unordered", "superset"):
        return failed(f"{_named(expected.calls[missing[0]])} is missing")
    return passed(f"{len(pairs)} of {len(expected.calls)} reference calls, {len(calls)} made")


def fits(expected: Trajectory, wanted: Expected, call: ToolCall) -> bool:
    """Whether a call stands for one of the reference."""
    how = wanted.match or expected.match.get(wanted.tool) or expected.match.get("*", "subset")
    if call.tool != wanted.tool:
        return False
    given = call.arguments or {}
    if how == "ignore":
        return True
    if how == "exact":
        return same(given, wanted.arguments)
    if how == "superset":
        return matches(wanted.arguments, given)
    return matches(given, wanted.arguments)


def _strict(expected: Trajectory, calls: Sequence[ToolCall]) -> Judgement:
    for place, wanted in enumerate(expected.calls):
        if place >= len(calls):
            return failed(f"{_named(wanted)} is missing at place {place + 1}")
        if not fits(expected, wanted, calls[place]):
            return failed(
                f"{calls[place].tool} at place {place + 1}, expected {_named(wanted)}",
                calls[place].step.step_id,
            )
    if len(calls) > len(expected.calls):
        one = calls[len(expected.calls)]
        return failed(f"{one.tool} is a call more than the reference has", one.step.step_id)
    return passed(f"{len(calls)} calls, as in the reference")


def _in_order(expected: Trajectory, calls: Sequence[ToolCall]) -> Judgement:
    place = 0
    for wanted in expected.calls:
        while place < len(calls) and not fits(expected, wanted, calls[place]):
            place += 1
        if place == len(calls):
            return failed(f"{_named(wanted)} is missing, or not in its order")
        place += 1
    return passed(f"{len(expected.calls)} reference calls, in order")


def _paired(expected: Trajectory, calls: Sequence[ToolCall]) -> dict[int, int]:
    """Actual call to reference call: the largest pairing (augmenting paths)."""
    taken: dict[int, int] = {}

    def place(wanted: int, tried: set[int]) -> bool:
        for number, call in enumerate(calls):
            if number in tried or not fits(expected, expected.calls[wanted], call):
                continue
            tried.add(number)
            if number not in taken or place(taken[number], tried):
                taken[number] = wanted
                return True
        return False

    for wanted in range(len(expected.calls)):
        place(wanted, set())
    return taken


def _named(wanted: Expected) -> str:
    return f"{wanted.tool} {wanted.arguments}" if wanted.arguments else wanted.tool
