"""Expectations about how tools were used: with which arguments, to what end, and who was called in.

Rules
1. "Every" holds of something: a tool that was never executed fails, it does not hold vacuously.
2. A call counts as ``observed`` tells it: with a receipt, or of a tool that no twin has.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, field

from sidecar.evaluate.expectation import Expectation, schema_problem, validator
from sidecar.evaluate.judgement import Judgement, failed, passed, skipped
from sidecar.evaluate.matching import matches
from sidecar.evaluate.observed import Observed, ToolCall, matching, tool_calls

Which = Literal["every", "first", "last"]
Ended = Literal["ok", "error", "denied", "waiting"]


class ToolArgs(Expectation, frozen=True, kw_only=True, tag="toolArgs"):
    """Every (first, last) executed call of the tool has these arguments, or fits the schema."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    schema: dict[str, Any] | None = None
    which: Which = "every"

    def problems(self, tools: Sequence[str]) -> list[str]:
        """Something must be asked; the schema must be one."""
        found = super().problems(tools)
        if not self.arguments and self.schema is None:
            found.append("needs arguments or schema")
        if self.schema is not None and (wrong := schema_problem(self.schema)):
            found.append(wrong)
        return found


class ToolStatus(Expectation, frozen=True, kw_only=True, tag="toolStatus"):
    """How the first, last or every call of the tool ended, as the agent was told."""

    tool: str
    status: Ended | int
    arguments: dict[str, Any] = field(default_factory=dict)
    which: Which = "last"


class RequiredEscalation(Expectation, frozen=True, kw_only=True, tag="requiredEscalation"):
    """Somebody else was called in: by a tool, by a handoff, or by a request for approval."""

    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    agent: str = ""
    approval: bool = False

    def problems(self, tools: Sequence[str]) -> list[str]:
        """One way must be named."""
        named = [bool(self.tool), bool(self.agent), self.approval]
        wrong = [] if any(named) else ["needs tool, agent or approval: true"]
        return [*super().problems(tools), *wrong]


class _Bad(Struct, frozen=True):
    call: ToolCall
    why: str


def tool_args(expected: ToolArgs, observed: Observed) -> Judgement:
    """Each chosen executed call has the arguments."""
    calls = [one for one in matching(tool_calls(observed), expected.tool, {}) if one.executed]
    if not calls:
        return failed(f"{expected.tool} was not executed")
    chosen = _chosen(calls, expected.which)
    bad = next((found for one in chosen if (found := _bad(expected, one)) is not None), None)
    if bad is not None:
        return failed(f"{expected.tool}: {bad.why}", bad.call.step.step_id)
    said = f"{len(chosen)} of {len(calls)} calls of {expected.tool} looked at, all as expected"
    return passed(said, *(one.step.step_id for one in chosen))


def tool_status(expected: ToolStatus, observed: Observed) -> Judgement:
    """Each chosen call ended so."""
    calls = matching(tool_calls(observed), expected.tool, expected.arguments)
    if not calls:
        return failed(f"{expected.tool} was not called")
    for one in _chosen(calls, expected.which):
        if isinstance(expected.status, int) and one.status is None:
            return skipped(f"no receipt tells the status of {expected.tool}")
        said = one.status if isinstance(expected.status, int) else ended(one)
        if said != expected.status:
            return failed(
                f"{expected.tool} ended with {said}, expected {expected.status}", one.step.step_id
            )
    return passed(f"{expected.tool} ended with {expected.status}")


def required_escalation(expected: RequiredEscalation, observed: Observed) -> Judgement:
    """One of the named ways was taken."""
    calls = tool_calls(observed)
    if expected.tool:
        for one in matching(calls, expected.tool, expected.arguments):
            if one.executed:
                return passed(f"escalated by {expected.tool}", one.step.step_id)
    if expected.agent:
        for step in observed.trace.steps:
            name = (step.agent.name if step.agent else None) or step.name
            if step.kind == "handoff" and expected.agent in (name, step.name):
                return passed(f"handed to {expected.agent}", step.step_id)
    if expected.approval:
        for one in calls:
            if one.approved or one.waits:
                return passed(f"{one.tool} waited for a person", one.step.step_id)
    ways = [expected.tool, expected.agent, "a request for approval" if expected.approval else ""]
    return failed("nobody was called in: " + " or ".join(filter(None, ways)) + " was expected")


def ended(call: ToolCall) -> Ended:
    """How a call ended for the agent, in a word."""
    if call.waits:
        return "waiting"
    if call.status in (401, 403) or call.step.status == "denied":
        return "denied"
    return "error" if call.failed else "ok"


def _bad(expected: ToolArgs, call: ToolCall) -> _Bad | None:
    if not matches(call.arguments or {}, expected.arguments):
        return _Bad(call, f"arguments are not {expected.arguments!r}")
    if expected.schema is None:
        return None
    error = next(iter(validator(expected.schema).iter_errors(call.arguments)), None)
    if error is None:
        return None
    return _Bad(call, f"arguments at /{'/'.join(map(str, error.instance_path))}: {error.message}")


def _chosen(calls: Sequence[ToolCall], which: Which) -> Sequence[ToolCall]:
    return {"every": calls, "first": calls[:1], "last": calls[-1:]}[which]
