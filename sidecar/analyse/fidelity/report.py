"""How true twins are to production: one report over recorded runs, replayed on them.

Rules
1. Every figure has its support: of how many calls, results or runs it is.
2. A difference that changes a verdict warns; so does behaviour that is further from production than
   production is from itself. Drift that changes none, gaps, durations and age ask for a new twin
   (a ticket), and warn nobody.
3. Where nothing could be compared the report decides nothing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sidecar.analyse.fidelity.answers import (
    Effects,
    Errors,
    Figures,
    Gaps,
    ReadsAfter,
    effects,
    figures,
    reads_after,
)
from sidecar.analyse.fidelity.behaviour import PERMUTATIONS, Acted, Behaviour, behaviour
from sidecar.analyse.fidelity.distance import Timing
from sidecar.replay.fidelity import Fidelity, PathDrift, ToolFidelity, fidelity
from sidecar.replay.onto_twin import RunOnTwin
from sidecar.replay.taped import TapedRun
from sidecar.twins.group import TwinGroup
from sidecar.twins.timeline import start_ns, text

SCHEMA = "fidelity/1.0.0"
STALE_DAYS = 30
_DAY_NS = 86_400_000_000_000
_FACTOR = math.log(2)
_CHANCE = 0.01


class ToolReport(Struct, frozen=True, kw_only=True):
    """One tool: ``results`` that were compared, by how they match; where they differ; the rest."""

    tool: str
    results: int
    matches: dict[str, int]
    drift: tuple[PathDrift, ...]
    errors: Errors
    gaps: Gaps
    latency: Timing | None
    latency_declared: bool


class Verdicts(Struct, frozen=True, kw_only=True):
    """Runs whose outcome was recorded and judged on the twin, how many came to the same, and the
    names of those that did not."""

    compared: int
    agreeing: int
    changed: tuple[str, ...]


class VoidRun(Struct, frozen=True, kw_only=True):
    """A run on which the twin could not be judged, and why."""

    run: str
    why: str


class Age(Struct, frozen=True, kw_only=True):
    """A twin against the newest recording: ``days`` between them, null where one has no time.

    ``drift_since``: when the earliest run was recorded, after ``as_of``, that the twin answers
    otherwise; empty where there is none.
    """

    twin: str
    version: str
    as_of: str
    newest: str
    days: float | None
    drift_since: str


class Finding(Struct, frozen=True, kw_only=True):
    """What the figures come to: a ``ticket`` asks for a new twin, a ``warn`` for caution."""

    level: Literal["ticket", "warn"]
    about: str
    says: str


class Report(Struct, frozen=True, kw_only=True):
    """The whole. ``not_compared``: results that were not kept, of tools no twin has, after an
    effect that the twin could not play, or that gave the twin what it answers (``--observed``).
    ``behaviour`` is empty where no runs on the twin are given.
    """

    schema: str
    twins: dict[str, str]
    twin_code: dict[str, str]
    runs: int
    calls: int
    results: int
    equal: int
    not_compared: int
    void: tuple[VoidRun, ...]
    verdicts: Verdicts
    effects: Effects
    reads_after_effects: ReadsAfter
    tools: tuple[ToolReport, ...]
    behaviour: tuple[Behaviour, ...]
    age: tuple[Age, ...]
    findings: tuple[Finding, ...]

    @property
    def undecided(self) -> bool:
        """Whether nothing could be compared."""
        return self.results == 0

    @property
    def warns(self) -> bool:
        """Whether anything warns."""
        return any(one.level == "warn" for one in self.findings)


def report(
    done: Sequence[RunOnTwin],
    group: TwinGroup,
    *,
    ran: Sequence[TapedRun] = (),
    seed: int = 0,
    permutations: int = PERMUTATIONS,
    stale_days: int = STALE_DAYS,
) -> Report:
    """The report over recorded runs on the twins. ``ran``: runs of the agent on the twins, whose
    calls are compared with the recorded runs'."""
    told = fidelity(done)
    counted = figures(done, group)
    tools = tuple(_tools(told, counted))
    ways = tuple(_behaviour([one.run for one in done], ran, seed, permutations))
    age = tuple(_age(done, group))
    verdicts = _verdicts(told, done)
    findings = (
        *_verdict_findings(verdicts),
        *(finding for one in told.tools for finding in _result_findings(one)),
        *(finding for one in tools for finding in _tool_findings(one)),
        *_behaviour_findings(ways),
        *(finding for one in age for finding in _age_findings(one, stale_days)),
    )
    return Report(
        schema=SCHEMA,
        twins=group.digests(),
        twin_code=group.code(),
        runs=len(done),
        calls=sum(len(one.answers) for one in done),
        results=sum(one.results for one in tools),
        equal=sum(one.matches.get("exact", 0) for one in tools),
        not_compared=told.uncompared,
        void=tuple(VoidRun(run=one.run.name, why=one.void) for one in done if one.void),
        verdicts=verdicts,
        effects=effects(done, group),
        reads_after_effects=reads_after(done, group),
        tools=tools,
        behaviour=ways,
        age=age,
        findings=findings,
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of a report, as ``--output json`` writes it beside how the command ended."""
    (root,), defined = msgspec.json.schema_components([Report], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "fidelity-1.schema.json",
        "title": "How true twins are to production, version 1",
        **root,
        "$defs": defined,
    }


def _tools(told: Fidelity, counted: Mapping[str, Figures]) -> Iterator[ToolReport]:
    results = {one.tool: one for one in told.tools}
    for name in sorted({*results, *counted}):
        one = results.get(name)
        figure = counted.get(name)
        if figure is None:
            continue
        yield ToolReport(
            tool=name,
            results=one.results if one is not None else 0,
            matches=one.matches if one is not None else {},
            drift=one.drift if one is not None else (),
            errors=figure.errors,
            gaps=figure.gaps,
            latency=figure.latency,
            latency_declared=figure.learned,
        )


def _behaviour(
    recorded: Sequence[TapedRun], ran: Sequence[TapedRun], seed: int, permutations: int
) -> Iterator[Behaviour]:
    left, right = [_acted(one) for one in recorded], [_acted(one) for one in ran]
    for n in (1, 2):
        one = behaviour(left, right, n=n, seed=seed, permutations=permutations)
        if one is not None:
            yield one


def _acted(run: TapedRun) -> Acted:
    return Acted(task=run.task, tools=tuple(call.tool for call in run.calls))


def _verdicts(told: Fidelity, done: Sequence[RunOnTwin]) -> Verdicts:
    judged = ("verified_success", "verified_failure")
    changed = tuple(
        one.run.name
        for one in done
        if one.run.verified in judged
        and one.verified in judged
        and one.verified != one.run.verified
    )
    return Verdicts(
        compared=told.verdicts_compared, agreeing=told.verdicts_agreeing, changed=changed
    )


def _age(done: Sequence[RunOnTwin], group: TwinGroup) -> Iterator[Age]:
    newest = max((one.run.at_ns for one in done), default=0)
    for name, twin in group.twins.items():
        as_of = twin.declaration.as_of
        at_ns = start_ns(as_of) if as_of else None
        drifted = [
            one.run.at_ns
            for one in done
            if at_ns is not None and one.run.at_ns > at_ns and _differs(one)
        ]
        known = at_ns is not None and newest > 0
        yield Age(
            twin=name,
            version=twin.declaration.version,
            as_of=as_of,
            newest=text(newest) if newest else "",
            days=round((newest - at_ns) / _DAY_NS, 3) if known and at_ns is not None else None,
            drift_since=text(min(drifted)) if drifted else "",
        )


def _differs(run: RunOnTwin) -> bool:
    return any(one.matches["exact"] < one.results for one in fidelity([run]).tools)


def _verdict_findings(verdicts: Verdicts) -> Iterator[Finding]:
    if verdicts.changed:
        some, changed = ", ".join(verdicts.changed[:3]), len(verdicts.changed)
        says = f"{changed} of {verdicts.compared} runs end otherwise than recorded: {some}"
        yield Finding(level="warn", about="verdicts", says=says)


def _result_findings(one: ToolFidelity) -> Iterator[Finding]:
    off = one.results - one.matches["exact"]
    if one.policy == "warn":
        yield Finding(
            level="warn", about=one.tool, says="results differ in runs that end otherwise"
        )
    elif one.policy == "ticket":
        yield Finding(
            level="ticket",
            about=one.tool,
            says=f"{off} of {one.results} results differ, and no verdict changes",
        )


def _tool_findings(one: ToolReport) -> Iterator[Finding]:
    if one.gaps.n:
        says = f"{one.gaps.n} of {one.gaps.calls} calls could not be answered"
        yield Finding(level="ticket", about=one.tool, says=says)
    if one.errors.agreeing < one.errors.n:
        says = f"{one.errors.n - one.errors.agreeing} of {one.errors.n} calls end otherwise"
        yield Finding(level="ticket", about=one.tool, says=says)
    time = one.latency
    if time is not None and time.p < _CHANCE and time.wasserstein > _FACTOR:
        shown = f"{time.twin_p50_ms:.3g} ms against {time.recorded_p50_ms:.3g} ms at the median"
        yield Finding(level="ticket", about=one.tool, says=f"it takes another time: {shown}")


def _behaviour_findings(ways: Sequence[Behaviour]) -> Iterator[Finding]:
    for one in ways:
        if one.alarms:
            found = one.total_variation
            says = (
                f"calls in a row of {one.n} are {found.distance:.3f} apart (total variation), "
                f"{found.excess:.3f} more than production is from itself"
            )
            yield Finding(level="warn", about="behaviour", says=says)


def _age_findings(one: Age, stale_days: int) -> Iterator[Finding]:
    if one.drift_since:
        says = f"production answers otherwise since {one.drift_since}, after {one.as_of}"
        yield Finding(level="ticket", about=one.twin, says=says)
    if one.days is not None and one.days > stale_days:
        says = f"it is {one.days:.0f} days older than the newest recording"
        yield Finding(level="ticket", about=one.twin, says=says)
