"""A sampled suite's two versions, compared pair by pair and case by case.

**Rules**
1. The protected metrics are judged on the runs that were planned for every case. Runs added because
   a case looked bad would pull the whole towards it: they decide about their own case only.
2. A regression is shown by two things together: an exact test that some rise is no chance, and a
   lower bound above the margin. The one keeps equal versions from being blocked, the other
   differences from being blocked that nobody minds.
3. ``alpha`` is shared: half for the metrics together, half for single cases (Holm), of which
   critical ones, others, and groups that must be treated alike have equal parts.
4. What is not shown is not thereby safe: harmless needs an upper bound within the margin.
5. The share protects equal versions from a block, and no critical case from being looked at: one
   that looks clearly worse by itself, whatever else the suite holds, leaves nothing decided.
6. A case that pins a known regression is held against no baseline: it must pass more often than
   not, shown.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy import fft, stats

from sidecar.gate.policy import GatePolicy, Protected
from sidecar.gate.samples import FINAL_RUNS, CaseSamples, Sample
from sidecar.gate.statistics import clusters, paired, sizes
from sidecar.gate.statistics.bounds import Interval

DIRECT = 512
_WORSE, _BETTER = (False, True), (True, False)
_RISES = {_WORSE: 1.0, _BETTER: -1.0, (False, False): 0.0, (True, True): 0.0}
_KNOWN: dict[tuple[bool | None, bool | None], tuple[bool, bool]] = {one: one for one in _RISES}
"""Pairs of which both runs say something: one object each, however many there are."""
Law = NDArray[np.float64]


class Compared(Struct, frozen=True, kw_only=True):
    """One metric over pairs of planned runs. ``pairs`` are effective; ``chance`` the exact p."""

    worse: int
    better: int
    pairs: float
    count: int
    scenarios: int
    rise: float
    bounds: Interval
    chance: float
    to_detect: int
    to_clear: int

    @property
    def shown(self) -> float:
        """The lower bound."""
        return self.bounds.lower


Failed = Callable[[Sample], bool | None]


def failed(one: Sample) -> bool | None:
    """The metric ``success``, as what goes wrong."""
    return None if one.passed is None else not one.passed


def violated(one: Sample) -> bool | None:
    """The metric ``safety``, as what goes wrong."""
    return None if one.passed is None and not one.violated else one.violated


METRICS: dict[str, Failed] = {"success": failed, "safety": violated}


def compare(cases: Sequence[CaseSamples], what: Protected, policy: GatePolicy) -> Compared:
    """The candidate against the baseline on the planned runs of all cases."""
    bad, runs = METRICS[what.metric], planned(cases)
    pairs = [found for case in cases if (found := _pairs(case, bad, runs))]
    rises = [[_RISES[pair] for pair in case] for case in pairs]
    count = sum(map(len, pairs))
    worse, better = (sum(case.count(one) for case in pairs) for one in (_WORSE, _BETTER))
    worth = clusters.effective_runs(rises) if count else 0.0
    share = worth / count if count else 0.0
    level = {"alpha": policy.alpha / 2 / len(policy.protected), "power": policy.power}
    seen = {"worse": worse * share, "better": better * share, "pairs": worth}
    return Compared(
        worse=worse,
        better=better,
        pairs=worth,
        count=count,
        scenarios=len(pairs),
        rise=(worse - better) / count if count else 0.0,
        bounds=Interval(
            lower=paired.difference(**seen, confidence=1 - level["alpha"]).lower,
            upper=paired.difference(**seen, confidence=1 - policy.alpha).upper,
        ),
        chance=stratified([_table(case) for case in pairs]),
        to_detect=_episodes(
            sizes.pairs_needed(**seen, rise=what.detect, margin=what.margin, **level), share
        ),
        to_clear=_episodes(
            sizes.pairs_to_clear(**seen, margin=what.margin, alpha=policy.alpha, power=policy.power)
            if what.margin
            else 0,
            share,
        ),
    )


def planned(cases: Sequence[CaseSamples]) -> int:
    """How many runs every compared case has on both sides."""
    found = [min(len(one.baseline), len(one.candidate)) for one in cases]
    return min((one for one in found if one), default=0)


def stratified(tables: Sequence[tuple[int, int, int, int]]) -> float:
    """The exact one-sided p that the candidate fails no more often, case by case.

    ``(failed before, runs before, failed now, runs now)`` of each case. Given how often a case
    failed in all, equal versions share those failures hypergeometrically; the sum over cases is
    convolved. With one run a side it is McNemar's exact test (Mantel and Haenszel otherwise).
    """
    laws, known, seen = [np.ones(1)], {}, 0
    for before, runs_before, now, runs_now in tables:
        total, least = before + now, max(0, before + now - runs_before)
        seen += now - least
        if total in (0, runs_before + runs_now):
            continue  # nothing to share: it adds a constant
        key = (total, runs_before, runs_now)
        if key not in known:
            many = np.arange(least, min(total, runs_now) + 1)
            known[key] = stats.hypergeom.pmf(many, runs_before + runs_now, total, runs_now)
        laws.append(known[key])
    while len(laws) > 1:  # two by two: thousands of cases in a moment
        laws = [_together(laws[at : at + 2]) for at in range(0, len(laws), 2)]
    return float(min(1.0, laws[0][seen:].sum()))


def _together(laws: Sequence[Law]) -> Law:
    if len(laws) == 1:
        return laws[0]
    one, other = laws
    if min(len(one), len(other)) < DIRECT:
        return np.convolve(one, other)
    size = len(one) + len(other) - 1
    found: Law = np.clip(fft.irfft(fft.rfft(one, size) * fft.rfft(other, size), size), 0.0, None)
    return found


class Judged(Struct, frozen=True, kw_only=True):
    """One case of a sampled suite. ``holm`` and ``bh`` are adjusted p-values.

    ``clear``: worse by its own runs, without regard to how many other cases there are.
    ``returned``: a known regression that fails at least as often as it passes, shown; ``unclear``:
    one that failed, and is not shown to pass more often than not.
    """

    case: str
    worse: bool
    unsteady: bool
    shown: bool
    suspected: bool
    holm: float
    bh: float
    more: int
    clear: bool
    returned: bool = False
    unclear: bool = False


def judge(
    cases: Sequence[CaseSamples], policy: GatePolicy, *, others: int = 0
) -> tuple[Judged, ...]:
    """Each case by all of its runs; ``others`` are families of tests that share with them."""
    tables = [(*case.passes("baseline"), *case.passes("candidate")) for case in cases]
    known = {one: _chance(*one) for one in {*tables}}  # few differ, however many cases there are
    chances = [known[one] for one in tables]
    strict, lax = _holm(cases, chances, others), paired.benjamini_hochberg(chances)
    pinned = policy.alpha / max(1, sum(bool(case.regression) for case in cases))
    return tuple(
        _back(_judged(case, alone, (one, other), policy), case, policy, pinned)
        for case, alone, one, other in zip(cases, chances, strict, lax, strict=True)
    )


def runs_wanted(
    cases: Sequence[CaseSamples], policy: GatePolicy, *, others: int = 0
) -> dict[str, int]:
    """How many runs a side each suspicious case should have next; nothing where none needs more.

    One run of every case, then three of those that look worse, then seven of those that still do
    (``policy.runs``): episodes are spent where they can tell something.
    """
    return {one.case: one.more for one in judge(cases, policy, others=others) if one.more}


def _back(one: Judged, case: CaseSamples, policy: GatePolicy, level: float) -> Judged:
    """With what is said of a known regression: its passes against those of a coin."""
    passed, runs = case.passes("candidate")
    if not case.regression or passed == runs:
        return one
    returned = float(stats.binom.cdf(passed, runs, 0.5)) <= level
    unclear = not returned and float(stats.binom.sf(passed - 1, runs, 0.5)) > level
    had = runs if case.recorded else min(runs, case.passes("baseline")[1])
    more = next((stage for stage in policy.runs if stage > had), 0) if unclear else 0
    return replace(one, returned=returned, unclear=unclear, more=max(one.more, more))


def _holm(cases: Sequence[CaseSamples], chances: Sequence[float], others: int) -> tuple[float, ...]:
    """Critical cases are a family of their own, with half of the share where there are any.

    Among hundreds of others seven runs could not show any one of them.
    """
    found = [1.0] * len(cases)
    families = [
        [at for at, case in enumerate(cases) if (case.severity == "critical") is critical]
        for critical in (True, False)
    ]
    share = sum(map(bool, families)) + others
    for family in families:
        for at, one in zip(family, paired.holm([chances[at] for at in family]), strict=True):
            found[at] = min(1.0, one * share)
    return tuple(found)


def _judged(
    case: CaseSamples, alone: float, adjusted: tuple[float, float], policy: GatePolicy
) -> Judged:
    (passed_before, before), (passed_now, now) = case.passes("baseline"), case.passes("candidate")
    known, (holm, bh) = before > 0 and now > 0, adjusted
    worse = known and passed_now * before < passed_before * now
    last = policy.runs[-1] if policy.runs else FINAL_RUNS
    always = passed_before == before and passed_now == 0
    shown = worse and (holm <= policy.alpha / 2 or (case.recorded and always and now >= last))
    had = now if case.recorded else min(before, now)
    more = next((one for one in policy.runs if one > had), 0) if worse and not shown else 0
    # One recorded run has no test of its own: the candidate's majority stands for it.
    clear = passed_now * 2 < now if case.recorded else alone <= policy.alpha
    return Judged(
        case=case.case,
        worse=worse,
        unsteady=0 < passed_before < before or 0 < passed_now < now,
        shown=shown,
        suspected=worse and not shown,
        holm=holm,
        bh=bh,
        more=more,
        clear=worse and clear,
    )


def _chance(passed_before: int, before: int, passed_now: int, now: int) -> float:
    return paired.fisher(passed_before, before, passed_now, now) if before and now else 1.0


def _pairs(case: CaseSamples, bad: Failed, count: int) -> list[tuple[bool, bool]]:
    together = zip(case.baseline[:count], case.candidate[:count], strict=False)
    both = ((bad(before), bad(now)) for before, now in together)
    return [_KNOWN[pair] for pair in both if pair in _KNOWN]


def _table(pairs: Sequence[tuple[bool, bool]]) -> tuple[int, int, int, int]:
    return (sum(one for one, _ in pairs), len(pairs), sum(one for _, one in pairs), len(pairs))


def _episodes(pairs: int, share: float) -> int:
    """Effective pairs as episodes of this suite, where each is worth ``share``."""
    return int(np.ceil(pairs / share)) if share else pairs
