"""The linter of scenarios: each can be passed, none is passed by doing nothing, no two of its
expectations contradict each other.

Rules
1. The reference path is replayed on a clean world with the scenario's faults; every required
   expectation must hold of it. What only the gateway can show is said to be unproven.
2. A null agent calls nothing and answers something; a required expectation must fail it. Of
   several agents, the reference's calls are made each by its own, and the null agents are all.
3. What contradicts itself is found without a reference too.
4. A scenario that changed since another suite and kept its version is a problem: verdicts name
   versions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from processors.model.verdict import Score
from sidecar.evaluate import expectations as types
from sidecar.evaluate.expectations import AnyExpectation
from sidecar.evaluate.matching import same
from sidecar.replay.direct import Agent, CallTool, DirectRun, run_direct
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Case, Suite, cases
from sidecar.twins.world import World

_GATEWAYS = frozenset({"approvalRequired", "noPolicyViolation", "requiredEscalation", "semantic"})
_NOBODY = "an agent that calls nothing and answers"
_NULL_ANSWERS = ("OK.", "I have done what you asked for.")


class Remark(Struct, frozen=True, kw_only=True):
    """Something about a scenario: its dotted path in the suite, and whether it must be repaired."""

    scenario: str
    path: str
    severity: Literal["problem", "note"]
    text: str


def lint(suite: Suite, group: TwinGroup) -> tuple[Remark, ...]:
    """All there is to say of a suite that has no problems of shape."""
    worlds = group.open()
    found: list[Remark] = []
    for number, case in enumerate(cases(suite)):
        path = f"scenarios.{number}"
        found += _contradictions(case, path)
        found += _reference(case, path, group, worlds)
        found += _null(case, path, group, worlds)
    return tuple(found)


def versions(suite: Suite, before: Suite) -> tuple[Remark, ...]:
    """Scenarios that are not what they were and have the same version."""
    known = {one.id: one for one in before.scenarios}
    found = []
    for number, one in enumerate(suite.scenarios):
        old = known.get(one.id)
        changed = old is not None and not same(msgspec.to_builtins(one), msgspec.to_builtins(old))
        if old is not None and changed and old.version == one.version:
            text = f"it changed and is still version {one.version!r}: give it a new one"
            found.append(_problem(one.id, f"scenarios.{number}.version", text))
    return tuple(found)


def reference_agent(case: Case) -> Agent:
    """The reference path as an agent."""
    reference = case.reference
    assert reference is not None

    def agent(_: dict[str, Any], call: CallTool) -> str:
        for one in reference.calls:
            if not one.held:
                call(one.tool, one.arguments, key=one.key, agent=one.agent)
        return reference.output

    return agent


def _reference(
    case: Case, path: str, group: TwinGroup, worlds: Mapping[str, World]
) -> Iterator[Remark]:
    if case.reference is None:
        text = "it has no reference: nothing shows that it can be passed"
        yield _problem(case.id, path, text)
        return
    run = run_direct(case, reference_agent(case), group, worlds)
    where = f"{path}.reference"
    for event in run.events:
        if event.kind == "gap":
            yield _problem(case.id, where, f"it leaves the twin: {event.tool}: {event.detail}")
    if not run.clean:
        yield _problem(case.id, where, "the world was not as before after it")
    held = any(one.held for one in case.reference.calls)
    unproven = []
    for place, score in enumerate(run.scores):
        if not score.required or score.status == "pass":
            continue
        if score.type in _GATEWAYS and (held or score.status == "skip"):
            unproven.append(score.expectation)
            continue
        text = f"the reference path does not pass {score.expectation}: {score.detail}"
        yield _problem(case.id, f"{path}.expect.{place}", text)
    if unproven and len(unproven) == sum(one.required for one in run.scores):
        yield _problem(case.id, f"{path}.expect", "nothing of it can be shown on the twin alone")
    elif unproven:
        text = f"only a run through the gateway shows {', '.join(unproven)}"
        yield Remark(scenario=case.id, path=where, severity="note", text=text)
    yield from _idle_faults(case, path, run)


def _idle_faults(case: Case, path: str, run: DirectRun) -> Iterator[Remark]:
    struck = {event.rule for event in run.events if event.kind == "fault_fired"}
    if case.faults and not struck:
        text = "no fault of it strikes on the reference path"
        yield Remark(scenario=case.id, path=f"{path}.faults", severity="note", text=text)


def _null(case: Case, path: str, group: TwinGroup, worlds: Mapping[str, World]) -> Iterator[Remark]:
    for answer in _NULL_ANSWERS:
        run = run_direct(case, lambda _, __, said=answer: said, group, worlds)  # type: ignore[misc]
        if not any(_fails(one) for one in run.scores):
            who = "agents that call nothing and answer" if case.agents else _NOBODY
            text = f"{who} {answer!r} {'fail' if case.agents else 'fails'} nothing"
            yield _problem(case.id, f"{path}.expect", text)
            return


def _fails(score: Score) -> bool:
    return score.required and score.status == "fail"


def _contradictions(case: Case, path: str) -> Iterator[Remark]:
    required = [(n, one) for n, one in enumerate(case.expect) if one.required]
    for place, one in required:
        for other_place, other in required:
            if place != other_place and (why := _against(one, other)):
                text = f"{one.id} and {other.id} cannot both hold: {why}"
                yield _problem(case.id, f"{path}.expect.{place}", text)


def _against(one: AnyExpectation, other: AnyExpectation) -> str | None:
    """Why two expectations exclude each other; None where they need not. Not symmetric."""
    if isinstance(one, types.ToolCalled) and _least(one) > 0:
        return _against_call(one, other)
    if isinstance(one, types.Order) and isinstance(other, types.ToolNotCalled):
        return f"{other.tool} is in the order" if other.tool in one.tools else None
    if isinstance(one, types.OutputContains) and isinstance(other, types.OutputNotContains):
        inside = other.text.casefold() in one.text.casefold()
        return f"{other.text!r} stands in {one.text!r}" if inside else None
    if isinstance(one, types.StateIs) and isinstance(other, types.StateIs):
        return _against_state(one, other)
    return None


def _against_call(one: types.ToolCalled, other: AnyExpectation) -> str | None:
    if isinstance(other, types.ToolNotCalled) and other.tool == one.tool:
        covered = all(
            name in one.arguments and same(one.arguments[name], value)
            for name, value in other.arguments.items()
        )
        return f"{one.tool} must be called, and must not" if covered else None
    if isinstance(other, types.MaxToolCalls) and other.tool in ("", one.tool):
        return f"at most {other.max} calls" if other.max < _least(one) else None
    return None


def _against_state(one: types.StateIs, other: types.StateIs) -> str | None:
    if one.that or other.that or (one.entity, one.key) != (other.entity, other.key):
        return None
    if one.exists is False and (other.exists or other.equals is not None):
        return f"{one.entity} {one.key} must be gone, and be there"
    for name, value in (one.equals or {}).items():
        if other.equals is not None and name in other.equals:
            there = other.equals[name]
            if not same(value, there):
                return f"{name} must be {value!r} and {there!r}"
    return None


def _least(one: types.ToolCalled) -> int:
    if one.times is not None:
        return one.times
    if one.min is None and one.max is not None:
        return 0
    return 1 if one.min is None else one.min


def _problem(scenario: str, path: str, text: str) -> Remark:
    return Remark(scenario=scenario, path=path, severity="problem", text=text)


def problems(remarks: Sequence[Remark]) -> list[Remark]:
    """Those that must be repaired."""
    return [one for one in remarks if one.severity == "problem"]
