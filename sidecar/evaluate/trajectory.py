"""Expectations about what was done: calls, their number, order, approvals and duplicates."""

from collections.abc import Sequence

from processors.model.twin import TwinEvent
from sidecar.evaluate.expectations import (
    ApprovalRequired,
    MaxToolCalls,
    NoDuplicateSideEffect,
    Order,
    RequiresBefore,
    ToolCalled,
    ToolNotCalled,
)
from sidecar.evaluate.judgement import Judgement, failed, passed, skipped
from sidecar.evaluate.observed import Observed, ToolCall, matching, step_of, tool_calls


def tool_called(expected: ToolCalled, observed: Observed) -> Judgement:
    """So many matching calls."""
    found = matching(tool_calls(observed), expected.tool, expected.arguments)
    if expected.status == "executed":
        found = [call for call in found if call.executed]
    low, high = _bounds(expected)
    count = len(found)
    said = f"{expected.tool} was called {_times(count)}"
    if count < low:
        return failed(f"{said}, expected at least {low}")
    if high is not None and count > high:
        return failed(f"{said}, expected at most {high}", found[high].step.step_id)
    return passed(said, *(call.step.step_id for call in found))


def tool_not_called(expected: ToolNotCalled, observed: Observed) -> Judgement:
    """No matching call."""
    found = matching(tool_calls(observed), expected.tool, expected.arguments)
    if expected.status == "executed":
        found = [call for call in found if call.executed]
    if found:
        word = "was executed" if found[0].executed else "was tried"
        return failed(f"{expected.tool} {word}", found[0].step.step_id)
    return passed(f"{expected.tool} was not called")


def max_tool_calls(expected: MaxToolCalls, observed: Observed) -> Judgement:
    """Not more than so many calls, executed or not."""
    found = matching(tool_calls(observed), expected.tool, {})
    said = f"{len(found)} calls of {expected.tool or 'tools'}"
    if len(found) > expected.max:
        return failed(f"{said}, at most {expected.max} expected", found[expected.max].step.step_id)
    return passed(said)


def order(expected: Order, observed: Observed) -> Judgement:
    """First executions in this order."""
    calls = [call for call in tool_calls(observed) if call.executed]
    places = []
    for tool in expected.tools:
        place = _first(calls, tool)
        if place is None:
            return failed(f"{tool} was not executed")
        places.append(place)
    for earlier, later in zip(range(len(places)), range(1, len(places)), strict=False):
        if places[earlier] >= places[later]:
            return failed(
                f"{expected.tools[later]} came before {expected.tools[earlier]}",
                calls[places[later]].step.step_id,
            )
    return passed("in order: " + ", ".join(expected.tools))


def requires_before(expected: RequiresBefore, observed: Observed) -> Judgement:
    """Each call of ``before`` is preceded by one of ``tool``."""
    calls = [call for call in tool_calls(observed) if call.executed]
    first = _first(calls, expected.tool)
    for place, call in enumerate(calls):
        if call.tool == expected.before and (first is None or first >= place):
            return failed(f"{expected.before} without {expected.tool} before it", call.step.step_id)
    return passed(f"no {expected.before} without {expected.tool} before it")


def approval_required(expected: ApprovalRequired, observed: Observed) -> Judgement:
    """Each executed matching call used up an approval."""
    found = matching(tool_calls(observed), expected.tool, expected.arguments)
    if not found:
        return failed(f"{expected.tool} was never asked for")
    if all(item.name != "gateway" for item in observed.trace.evidence):
        return skipped("there are no gateway receipts to read approvals from")
    for call in found:
        if call.executed and not call.approved:
            return failed(f"{expected.tool} went through without approval", call.step.step_id)
    executed = sum(call.executed for call in found)
    return passed(f"{_times(executed)} executed, each with an approval")


def no_duplicate_side_effect(expected: NoDuplicateSideEffect, observed: Observed) -> Judgement:
    """No effect key twice among the twins' committed effects."""
    if observed.world is None:
        return _no_duplicate_receipt(expected, observed)
    seen: dict[tuple[str, str, str], TwinEvent] = {}
    for event in observed.events:
        if event.effect_key is None or (expected.tool and event.tool != expected.tool):
            continue
        place = (event.twin, event.tool, event.effect_key)
        if place in seen:
            return failed(
                f"{event.tool} had its effect {event.effect_key} twice "
                f"(calls {seen[place].number} and {event.number} of the tool)",
                step_of(event, observed),
                evidence=(f"twin:{seen[place].seq}", f"twin:{event.seq}"),
            )
        seen[place] = event
    return passed(f"{len(seen)} effects, no two alike")


def _no_duplicate_receipt(expected: NoDuplicateSideEffect, observed: Observed) -> Judgement:
    doubled = [
        one
        for one in observed.trace.outcome.contradictions
        if one.code == "duplicate_effect"
        and (not expected.tool or expected.tool in (one.detail, *_tool_of(one.step_id, observed)))
    ]
    if doubled:
        return failed(doubled[0].detail, doubled[0].step_id, evidence=doubled[0].evidence)
    return passed("the recording shows no duplicate effect")


def _tool_of(step_id: str | None, observed: Observed) -> Sequence[str]:
    return [
        step.tool.name
        for step in observed.trace.steps
        if step.step_id == step_id and step.tool is not None and step.tool.name
    ]


def _bounds(expected: ToolCalled) -> tuple[int, int | None]:
    if expected.times is not None:
        return expected.times, expected.times
    if expected.min is None and expected.max is not None:
        return 0, expected.max
    return (1 if expected.min is None else expected.min), expected.max


def _first(calls: list[ToolCall], tool: str) -> int | None:
    return next((index for index, call in enumerate(calls) if call.tool == tool), None)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
