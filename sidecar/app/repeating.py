"""A sampled suite's runs, in stages: one of every case, then more of those that look worse.

**Rules**
1. Which cases run again, and how often, is the gate's word (``more_runs``); what ran stays.
2. A case's further runs have its world, seeds and faults: only the agent's own dice fall anew.
3. A recording is not run again: of a recorded baseline its candidate is.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from sidecar.gate.conclude import more_runs
from sidecar.gate.policy import GatePolicy
from sidecar.replay.driver import Progress, ReplayPlan, replay
from sidecar.replay.record import EpisodeRecord
from sidecar.replay.reference import recorded
from sidecar.replay.run import ReplayResult, in_order
from sidecar.replay.stage.driver import StagePorts


async def repeated(
    plan: ReplayPlan,
    ports: StagePorts,
    policy: GatePolicy,
    *,
    concurrency: int = 0,
    progress: Progress | None = None,
) -> ReplayResult:
    """The replay with all runs that its cases need. Raises SidecarError, StoreUnavailable."""
    result = await replay(plan, ports, concurrency=concurrency, progress=progress)
    if plan.candidate.kind == "tape":
        return result
    before = recorded() if plan.baseline.kind == "tape" else plan.baseline
    for _ in policy.runs:
        wanted = more_runs(result.pins, result.runs, policy)
        while short := {case for case, count in wanted.items() if _had(result, case) < count}:
            chosen = tuple(case for case in plan.cases if case.id in short)
            again = replace(plan, cases=chosen, recorded=(), baseline=before)
            more = await replay(again, ports, concurrency=concurrency, progress=progress)
            result = _with(result, more.runs)
    return result


def _had(result: ReplayResult, case: str) -> int:
    """How many runs the candidate has; the baseline has as many, or is a recording."""
    return sum(run.case == case and run.side == "candidate" for run in result.runs)


def _with(result: ReplayResult, more: Iterable[EpisodeRecord]) -> ReplayResult:
    last: dict[tuple[str, str], int] = {}
    for run in result.runs:
        last[run.case, run.side] = max(last.get((run.case, run.side), 0), run.run)
    numbered = tuple(replace(run, run=last.get((run.case, run.side), 0) + run.run) for run in more)
    return replace(result, runs=in_order(result.pins, (*result.runs, *numbered)))
