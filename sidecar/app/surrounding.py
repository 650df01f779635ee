"""What a verdict depends on beside its runs: stops in force, pinned tapes, what was tried at all.

**Rules**
1. Asked when the verdict is given, not when the replay was begun.
2. Where nothing was ever kept nothing is stopped. A store that cannot be read is an error: a gate
   that does not know whether something is stopped tells nothing.
3. Coverage is counted where the policy asks for some, by the candidate's runs.
"""

import os
from collections.abc import Iterator

from sidecar.analyse.coverage.given import REGRESSIONS
from sidecar.analyse.coverage.measured import below, coverage
from sidecar.analyse.coverage.surface import SURFACES
from sidecar.app import covering, opening
from sidecar.config import Loaded
from sidecar.errors import NoStore
from sidecar.gate.circumstances import Circumstances, Stopped
from sidecar.gate.policy import GatePolicy
from sidecar.replay.driver import ReplayPlan
from sidecar.replay.pinned.process import follow
from sidecar.replay.run import ReplayResult
from sidecar.store.stop import Stop

STOPS_MAX = 1000


def surroundings(
    loaded: Loaded, plan: ReplayPlan, result: ReplayResult, policy: GatePolicy
) -> Circumstances:
    """All of it, as it stands. Raises SidecarError, StoreUnavailable; inside no event loop."""
    return Circumstances(
        coverage=_short(loaded, plan, result, policy),
        stops=tuple(_stops(loaded, plan)),
        tapes=follow(
            plan.tapes,
            plan.folder,
            plan.candidate,
            environment={**os.environ, **plan.environment},
            deadline_s=plan.deadline_s,
        ),
    )


def _short(
    loaded: Loaded, plan: ReplayPlan, result: ReplayResult, policy: GatePolicy
) -> tuple[str, ...]:
    if not policy.surfaces:
        return ()
    ran = covering.Ran(
        suite=plan.suite,
        runs=tuple(result.runs),
        tools=plan.group.tools,
        revision=result.pins.policy_revision,
        declarations=tuple(twin.declaration for twin in plan.group.twins.values()),
        cases=plan.cases,
        fairness=tuple(rule.id for rule in plan.fairness),
    )
    given = covering.given([ran], loaded, side="candidate", traffic=None, regressions=REGRESSIONS)
    floors = {one: policy.surfaces[one] for one in SURFACES if one in policy.surfaces}
    return below(coverage(given), floors)


def _stops(loaded: Loaded, plan: ReplayPlan) -> Iterator[Stopped]:
    try:
        with opening.open_ledger(loaded) as ledger:
            found = ledger.list_stops(plan.project, STOPS_MAX)
    except NoStore:
        return
    standing = [one for one in found if one.lifted_at_ns is None]
    agents = _agents(loaded, plan) if any(one.scope == "agent" for one in standing) else set()
    for one in standing:
        if _concerns(one, plan, agents):
            yield Stopped(kind=one.kind, scope=one.scope, subject=one.subject, reason=one.reason)


def _concerns(one: Stop, plan: ReplayPlan, agents: set[str]) -> bool:
    if one.scope == "tool":
        return one.subject in plan.group.tools
    return one.scope == "project" or one.subject in agents


def _agents(loaded: Loaded, plan: ReplayPlan) -> set[str]:
    """The principals by which the agent is known: its keys bear its name."""
    with opening.open_keys(loaded, make=False) as keys:
        return {
            f"key:{one.key_id}" for one in keys.list_keys(plan.project) if one.name == plan.agent
        }
