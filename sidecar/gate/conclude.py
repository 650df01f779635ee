"""A gate's verdict on a replay: its input, its decision, and the digest that says it again.

**Rules**
1. The verdict's digest covers plan, policy, classes, run digests, findings and measures: no id, no
   time. What looks at clocks (``TIMED``) is left out of it, and out of the status it covers.
2. Both references equal in a sampled suite: the verdict holds the suite's noise, for the policy.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from sys import intern
from typing import Any

import msgspec
from msgspec import Struct

from processors.model.verdict import Failure, Verdict
from sidecar.canonical import digest_of_many
from sidecar.gate.circumstances import NONE, Circumstances, stale
from sidecar.gate.given import GateInput, Standing, standings
from sidecar.gate.measure import Measure
from sidecar.gate.policy import GatePolicy, day_of, exact, in_force
from sidecar.gate.rules import TIMED, Decision, decide, status_of
from sidecar.gate.samples import CaseSamples, SampleFold, SharedSamples, samples
from sidecar.replay.compare import CLASSES, CaseResult, Comparing
from sidecar.replay.record import EpisodeRecord
from sidecar.replay.run import Pins, ReplayResult

_NO_FAILURE = frozenset({"improved", "unchanged"})


class Folded(Struct, frozen=True, kw_only=True):
    """What a verdict needs of its runs. ``ended`` are the conclusions of the candidate's, by case;
    ``runs`` how many there were on both sides."""

    results: tuple[CaseResult, ...]
    samples: tuple[CaseSamples, ...]
    ended: dict[str, tuple[str, ...]]
    runs: int


def fold(pins: Pins, runs: Iterable[EpisodeRecord]) -> Folded:
    """Runs that come in order, taken in one at a time: no more than one record a side is held.

    Raises ValueError where they come in another order, or a case comes back.
    """
    compares: dict[str, Comparing] = {}
    samplings: dict[str, SampleFold] = {}
    shared = SharedSamples()
    ended: dict[str, tuple[str, ...]] = {}
    count = 0
    for case, of_case in groupby(runs, key=lambda one: one.case):
        if case in compares:
            raise ValueError(f"{case}: its runs are not together")
        comparing = compares[case] = Comparing(pins.deterministic)
        sampling = samplings[case] = SampleFold(shared)
        words: list[str] = []
        for run in of_case:
            comparing.add(run)
            sampling.add(run)
            count += 1
            if run.side == "candidate":
                words.append(intern(run.conclusion))
        comparing.close()
        ended[case] = tuple(words)
    return Folded(
        results=tuple(
            compares.get(plan.case, Comparing(pins.deterministic)).result(plan)
            for plan in pins.plans
        ),
        samples=tuple(samplings.get(plan.case, SampleFold()).samples(plan) for plan in pins.plans),
        ended=ended,
        runs=count,
    )


def conclude(
    result: ReplayResult,
    *,
    verdict_id: str,
    now_ns: int,
    policy: GatePolicy | None = None,
    circumstances: Circumstances = NONE,
) -> Verdict:
    """The gate's verdict on a replay, held to ``policy`` (the gate's own where there is none)."""
    folded = fold(result.pins, result.runs)
    given = gate_input(result.pins, folded, policy or GatePolicy(), now_ns, circumstances)
    return verdict_of(result.pins, folded, given, verdict_id=verdict_id, now_ns=now_ns)


def gate_input(
    pins: Pins,
    folded: Folded,
    policy: GatePolicy,
    now_ns: int,
    circumstances: Circumstances = NONE,
) -> GateInput:
    """What the gate decides on; ``now_ns`` is the day that quarantines are held against."""
    known = policy.noise
    own = known is not None and (known.suite_digest, known.agent) == (
        pins.suite_digest,
        pins.baseline,
    )
    return GateInput(
        results=folded.results,
        deterministic=pins.deterministic,
        samples=folded.samples,
        policy=policy,
        quarantined=in_force(policy, day_of(now_ns)),
        noise=known if own else None,
        circumstances=circumstances,
        stale=stale(pins.twin_state),
        permissions=pins.permissions,
        fairness=pins.fairness,
    )


def more_runs(
    pins: Pins, runs: Iterable[EpisodeRecord], policy: GatePolicy | None = None
) -> dict[str, int]:
    """How many runs a side each suspicious case of a sampled suite should have next, by case.

    Empty where none needs more, and always in a suite that is declared deterministic. Asked again
    after those runs, it ends within as many rounds as ``policy.runs`` has stages.
    """
    if pins.deterministic:
        return {}
    from sidecar.gate.paired import runs_wanted  # loads scipy

    policy = policy or GatePolicy()
    several = samples(pins.plans, runs)
    concluded = [
        one
        for one in several
        if all(run.passed is not None for run in (*one.baseline, *one.candidate))
    ]
    return runs_wanted(concluded, policy, others=int(bool(pins.fairness)))


def verdict_of(
    pins: Pins, folded: Folded, given: GateInput, *, verdict_id: str, now_ns: int
) -> Verdict:
    """The verdict that an input comes to."""
    decision, cases = decide(given), standings(given)
    return Verdict(
        verdict_id=verdict_id,
        project=pins.project,
        suite=pins.suite,
        baseline=pins.baseline,
        candidate=pins.candidate,
        status=decision.status,
        exit_code=decision.exit_code,
        findings=decision.findings,
        failures=tuple(_failure(one) for one in cases if _is_failure(one)),
        counts=_counts(cases),
        created_at_ns=now_ns,
        digest=verdict_digest(pins, given, decision),
        evidence={
            "suite_version": pins.suite_version,
            "suite_digest": pins.suite_digest,
            "twins": pins.twins,
            "twin_code": pins.twin_code,
            **({"twin_state": pins.twin_state} if pins.twin_state else {}),
            "policy_revision": pins.policy_revision,
            "gate_policy": given.policy.digest(),
            "deterministic": pins.deterministic,
            "seeds": pins.seeds,
            "runs": folded.runs,
            "cases": [_case(one, folded.ended.get(one.result.case, ())) for one in cases],
            "measures": [msgspec.to_builtins(one) for one in decision.measures if _telling(one)],
            **_noise(pins, given),
            **_unexercised(pins),
        },
    )


def verdict_digest(pins: Pins, given: GateInput, decision: Decision) -> str:
    """``sha256:<hex>`` of what was decided and why, without ids and times."""
    findings = tuple(one for one in decision.findings if one.rule not in TIMED)
    value: dict[str, Any] = {
        "pins": _pinned(pins),
        "gate_policy": given.policy.digest(),
        "quarantined": given.quarantined,
        **({} if given.circumstances == NONE else {"circumstances": given.circumstances}),
        "findings": findings,
        "measures": [one for one in decision.measures if not one.timed],
        "status": status_of(findings),
    }
    cases = map(_came_to, standings(given))
    whole = {**exact(msgspec.to_builtins(value)), "cases": cases}
    return digest_of_many(whole, domain="agenttwin-verdict/2")


def _came_to(one: Standing) -> list[Any]:
    digests = {side: [*found] for side, found in one.result.digests.items()}
    return [one.result.case, one.case_class, digests]


def _pinned(pins: Pins) -> dict[str, Any]:
    """The pins without ages; of twins whose state is of no snapshot, nothing is said of one."""
    value: dict[str, Any] = msgspec.to_builtins(pins)
    state = value.pop("twin_state")
    for name in ("permissions", "fairness"):
        if not value[name]:
            del value[name]
    for plan in value["plans"]:
        if not plan["regression"]:
            del plan["regression"]
    kept = {name: state[name] for name in ("version", "taken_at", "digest") if name in state}
    return {**value, "twin_state": kept} if kept else value


def _noise(pins: Pins, given: GateInput) -> dict[str, Any]:
    if pins.deterministic or pins.baseline != pins.candidate:
        return {}
    from sidecar.gate.baseline import measured  # loads scipy

    found = measured(given.samples, suite_digest=pins.suite_digest, agent=pins.baseline)
    return {"noise": msgspec.to_builtins(found)}


def _unexercised(pins: Pins) -> dict[str, Any]:
    """What took no part, so that nothing is concluded of it."""
    if pins.policy_revision:
        return {}
    said = "policy, limits and approvals were not exercised: callables ran straight on the twins"
    return {"unexercised": [said]}


def _counts(cases: Sequence[Standing]) -> dict[str, int]:
    found = Counter(one.case_class for one in cases)
    return {name: found[name] for name in (*CLASSES, "quarantined")}


def _is_failure(one: Standing) -> bool:
    return one.case_class not in _NO_FAILURE or one.result.candidate == "failed"


def _failure(one: Standing) -> Failure:
    # Where nothing was concluded, why not is what matters.
    result = one.result
    first = result.failed[0] if result.failed and not result.reasons else None
    detail = first.detail if first else "; ".join(result.reasons)
    return Failure(
        case=result.case,
        case_class=one.case_class,
        expectation=first.expectation if first else "",
        detail=detail or _mixed(one),
        first_difference=result.difference.text() if result.difference else None,
    )


def _mixed(one: Standing) -> str:
    if one.samples is None or one.case_class != "flaky":
        return ""
    (before, of_before), (now, of_now) = (
        one.samples.passes("baseline"),
        one.samples.passes("candidate"),
    )
    return f"passed {now} of {of_now} runs, the baseline {before} of {of_before}"


def _case(one: Standing, runs: Sequence[str]) -> dict[str, Any]:
    result = one.result
    told = {
        "case": result.case,
        "title": result.title,
        "severity": result.severity,
        "class": one.case_class,
        "baseline": result.baseline,
        "candidate": result.candidate,
        "runs": list(runs),
    }
    return told if one.chance is None else {**told, "chance": one.chance, "more_runs": one.more}


def _telling(one: Measure) -> bool:
    """Counts of nothing are in the rules already."""
    return one.statistic != "count" or one.value > 0
