"""The measures of a sampled suite: bounds, tests, noise, novelty, and how many more it takes.

**Rules**
1. Void and incomplete cases are no evidence either way; other rules leave the gate undecided.
2. Every bound is printed with its statistic, its effective n and what it was held against.
"""

from collections.abc import Iterator, Sequence

from sidecar.gate.baseline import Divergence, differences, divergence
from sidecar.gate.given import UNCONCLUDED, GateInput, Standing
from sidecar.gate.measure import Measure
from sidecar.gate.paired import compare, planned
from sidecar.gate.policy import GatePolicy, Protected
from sidecar.gate.samples import CaseSamples
from sidecar.gate.statistics import bounds, clusters, reliability
from sidecar.gate.statistics.novelty import novelty

NOVEL_RUNS_MIN = 20
_VALUES = {False: 0.0, True: 1.0}  # one object each, however many runs there are


def sampled(given: GateInput, cases: Sequence[Standing]) -> Iterator[Measure]:
    """The measures of the cases that are not excused."""
    everything = [one.samples for one in cases if one.samples is not None]
    several = [
        one.samples
        for one in cases
        if one.samples is not None and one.case_class not in UNCONCLUDED
    ]
    for what in given.policy.protected:
        yield from _protected(several, what, given.policy)
    yield from _novelty(several)
    if several and planned(several):
        yield _divergence(divergence(several, given.noise), several)
        yield from _noise(given, several)
        yield from _reliable(several, everything)


def _protected(
    several: Sequence[CaseSamples], what: Protected, policy: GatePolicy
) -> Iterator[Measure]:
    seen = compare(several, what, policy)
    level = policy.alpha / 2 / len(policy.protected)
    told = (
        f"{seen.worse} pairs worse, {seen.better} better of {seen.count} in {seen.scenarios} cases"
    )
    to_catch = max(0, seen.to_detect - seen.count)
    worth = _round(seen.pairs)
    interval = (_round(seen.bounds.lower), _round(seen.bounds.upper))
    yield Measure(
        name=f"{what.metric}_rise",
        value=_round(seen.shown),
        statistic=f"lower {1 - level:.2%} score bound of the rise",
        limit=what.margin,
        needed=to_catch,
        detail=f"{told}; a rise of {what.detect:.0%} is caught with {policy.power:.0%} from "
        f"{seen.to_detect} episodes a side: {to_catch} more",
        runs=worth,
        interval=interval,
    )
    yield Measure(
        name=f"{what.metric}_chance",
        value=_round(seen.chance),
        statistic="exact stratified p, one-sided",
        limit=level,
        runs=worth,
        interval=interval,
    )
    to_clear = max(0, seen.to_clear - seen.count)
    yield Measure(
        name=f"{what.metric}_upper",
        value=_round(seen.bounds.upper),
        statistic=f"upper {1 - policy.alpha:.2%} score bound of the rise",
        limit=what.margin,
        needed=to_clear,
        detail=f"{told}; {to_clear} more episodes a side tell with {policy.power:.0%} that equal "
        f"versions are equal within {what.margin:.1%}",
        runs=worth,
        interval=interval,
    )


def _novelty(several: Sequence[CaseSamples]) -> Iterator[Measure]:
    counted: dict[str, int] = {}
    draws = 0
    for case in several:
        for run in case.candidate:
            if run.signature:
                counted[run.signature] = counted.get(run.signature, 0) + 1
        # Cases draw apart, so that the draws of one at a time need be told from each other.
        draws += clusters.effective_draws(
            clusters.Draw(scenario=case.case, seed=0, sample=str(run.run)) for run in case.candidate
        )
    found = novelty(counted.values(), draws)
    yield Measure(
        name="novel_failures",
        value=_round(found.unseen) if draws >= NOVEL_RUNS_MIN else 0.0,
        statistic="Good-Turing f1/n",
        runs=draws,
        interval=(_round(found.unseen), _round(min(1.0, found.unseen + found.slack))),
        detail=f"{found.found} ways to fail seen, {found.once} of them once, about "
        f"{found.total:.0f} in all (Chao); a trend, not a guarantee",
    )
    yield Measure(
        name="effective_draws", value=draws, statistic="distinct (scenario, seed, sample)"
    )


def _divergence(found: Divergence, several: Sequence[CaseSamples]) -> Measure:
    return Measure(
        name="divergence",
        value=_round(found.excess),
        statistic="total variation of tool n-grams above the A/A floor",
        runs=len(several),
        detail=f"unigrams {found.unigrams:.3f} (floor {found.unigrams_floor:.3f}), "
        f"bigrams {found.bigrams:.3f} (floor {found.bigrams_floor:.3f})",
    )


def _noise(given: GateInput, several: Sequence[CaseSamples]) -> Iterator[Measure]:
    if given.noise is None:
        return
    differing, pairs = differences(several)
    yield Measure(
        name="noise",
        value=_round(bounds.lower(differing, pairs)),
        statistic="lower 95 % bound of pairs that differ",
        runs=pairs,
        limit=given.noise.differing_upper,
        detail=f"{differing} of {pairs} pairs differ; in the A/A run "
        f"{given.noise.differing:.1%} of {given.noise.pairs}",
    )


def _reliable(
    several: Sequence[CaseSamples], everything: Sequence[CaseSamples]
) -> Iterator[Measure]:
    k = planned(several)
    passes = [one.passes("candidate") for one in several]
    values = {
        one.case: [_VALUES[run.passed] for run in one.candidate if run.passed is not None]
        for one in several
    }
    count = sum(runs for _, runs in passes)
    whole = {name: runs for name, runs in values.items() if runs}
    spread = clusters.bootstrap(whole, seed=0, resamples=500)
    yield Measure(
        name="pass_1",
        value=_round(sum(passed for passed, _ in passes) / count),
        statistic="share, 95 % cluster bootstrap",
        runs=_round(clusters.effective_runs(list(whole.values()))),
        interval=(_round(spread.lower), _round(spread.upper)),
        detail=_unjudged(everything),
    )
    if k > 1 and all(runs >= k for _, runs in passes):
        yield Measure(
            name=f"pass_{k}",
            value=_round(reliability.mean_pass_hat(passes, k)),
            statistic="unbiased C(c,k)/C(n,k)",
            runs=count,
        )


def _unjudged(everything: Sequence[CaseSamples]) -> str:
    """What the rate would be, had all runs that could not be judged failed, or passed."""
    made = sum(len(one.candidate) for one in everything)
    passed, judged = map(sum, zip(*(one.passes("candidate") for one in everything), strict=True))
    if judged == made:
        return ""
    least, most = reliability.bounded_pass_hat([(passed, judged, made)], 1)
    return (
        f"{made - judged} of {made} runs could not be judged: {least:.1%} if all of them failed, "
        f"{most:.1%} if all passed"
    )


def _round(value: float) -> float:
    return float(f"{value:.9g}")
