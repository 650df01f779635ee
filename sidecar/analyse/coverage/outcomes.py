"""Whether what a tool did is looked up in the world, and not taken from the agent's word.

**Rules**
1. Each tool with effects is verified two ways: *verified*, a run that made the effect and whose
   outcome the world bore out; *disproved*, one where nobody said that the call failed and the world
   showed no effect. A suite without the second has not shown that a false success is noticed.
2. Both count only where a required expectation looks at the world or at the outcome.
3. Where production is known, *verified in production*: a probe looked for the effect there.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from processors.model.trace import AgentTrace
from sidecar.analyse.coverage.given import Given, by_key
from sidecar.analyse.coverage.surface import Item, Surface, cases_of, surface
from sidecar.analyse.coverage.tools import called_in
from sidecar.evaluate.expectation import type_of

_LOOKS: Final = frozenset(
    {"outcomeVerified", "finalOutcome", "state", "stateUnchanged", "endState", "collateral"}
    | {"milestones", "progress", "noDuplicateSideEffect"}
)
VERIFIED, DISPROVED, PROBED = "verified", "disproved", "verified in production"
_WHY: Final = {
    VERIFIED: "no run makes its effect, has it borne out and is judged by that",
    DISPROVED: "no run shows that its effect is missing, and is judged by that",
    PROBED: "no probe looked for its effect",
}


def outcome_surface(given: Given) -> Surface:
    """Tools with effects, and how their outcome is known."""
    counted = called_in(given.traffic)
    probed = Counter(name for trace in given.traffic or () for name in _probed(trace))
    found = by_key(_shown(given))
    items = []
    for tool in given.acting:
        for way in (VERIFIED, DISPROVED):
            items.append(
                Item(
                    group=tool,
                    name=way,
                    by=cases_of(found.get(f"{tool}|{way}", ())),
                    grade=given.tools[tool],
                    production=None if counted is None else counted[tool],
                    missing=_WHY[way],
                )
            )
        if counted is not None and counted[tool]:
            items.append(
                Item(
                    group=tool,
                    name=PROBED,
                    by=(f"{probed[tool]} calls",) if probed[tool] else (),
                    grade=given.tools[tool],
                    production=counted[tool],
                    missing=_WHY[PROBED],
                )
            )
    return surface("outcome_verification", items, weighs="calls")


def _shown(given: Given) -> Iterator[tuple[str, str]]:
    looked = {run.episode for run, one in given.judged() if type_of(one) in _LOOKS}
    judged = [run for run in given.runs if run.episode in looked or not given.expected]
    for run in judged:
        calls = [call for call in given.calls(run) if call.executed]
        done = {call.tool for call in calls}
        told = {call.tool for call in calls if call.status is None or call.status < 400}
        for one in run.trace.evidence:
            if one.source not in ("twin", "probe") or one.subject not in given.acting:
                continue
            if one.held is False and one.subject in told:
                yield f"{one.subject}|{DISPROVED}", run.case
            elif one.held and one.subject in done and _verified(run.trace):
                yield f"{one.subject}|{VERIFIED}", run.case


def _verified(trace: AgentTrace) -> bool:
    return trace.outcome.status in ("verified_success", "contradicted", "verified_failure")


def _probed(trace: AgentTrace) -> Iterator[str]:
    tools = {step.step_id: step.tool.name for step in trace.steps if step.tool is not None}
    for one in trace.evidence:
        if one.source == "probe" and one.held is not None:
            name = one.subject or tools.get(one.step_id or "")
            if name:
                yield name
