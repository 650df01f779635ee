"""Two versions on the same cases: what differs, and whether that is chance.

**Rules**
1. ``worse`` counts pairs that passed before and fail now, ``better`` the reverse; pairs that agree
   say nothing about which version is better, and all about how sure one may be.
2. P-values are one-sided for "the candidate is worse" unless a name says otherwise.
"""

import math
from collections.abc import Sequence

from scipy import optimize, stats

from sidecar.gate.statistics.bounds import Interval


def mcnemar(worse: int, better: int) -> float:
    """The exact one-sided p-value of McNemar's test (1947); 1 without a pair that differs."""
    return float(stats.binom.sf(worse - 1, worse + better, 0.5)) if worse else 1.0


def mcnemar_two_sided(worse: int, better: int) -> float:
    """The exact two-sided p-value; 1 without a pair that differs."""
    return min(1.0, 2 * float(stats.binom.cdf(min(worse, better), worse + better, 0.5)))


def fisher(passed_before: int, before: int, passed_now: int, now: int) -> float:
    """Fisher's exact one-sided p-value that one case passes less often now."""
    table = [[passed_before, before - passed_before], [passed_now, now - passed_now]]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


def holm(values: Sequence[float]) -> tuple[float, ...]:
    """P-values adjusted so that any false alarm among them has the chance they say (Holm 1979)."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    found, least = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, values[place] * (len(values) - rank)))
        found[place] = least
    return tuple(found)


def benjamini_hochberg(values: Sequence[float]) -> tuple[float, ...]:
    """P-values adjusted to the share of false ones among the alarms (Benjamini, Hochberg 1995)."""
    if not values:
        return ()
    return tuple(float(one) for one in stats.false_discovery_control(list(values), method="bh"))


def difference(worse: float, better: float, pairs: float, confidence: float = 0.95) -> Interval:
    """One-sided bounds, each at ``confidence``, of the rise of the failure rate over pairs.

    Tango's score interval (1998), which holds its level with few or no pairs that differ. Counts
    may be effective ones, so not whole. Without pairs, nothing is known: from -1 to 1.
    """
    if pairs <= 0:
        return Interval(lower=-1.0, upper=1.0)
    bound = float(stats.norm.ppf(confidence))
    seen = (worse - better) / pairs

    def score(delta: float) -> float:
        return _tango(worse, better, pairs, delta)

    edge = 1 - 1e-12
    low = -1.0 if score(-edge) < bound else optimize.brentq(lambda d: score(d) - bound, -edge, seen)
    high = 1.0 if score(edge) > -bound else optimize.brentq(lambda d: score(d) + bound, seen, edge)
    return Interval(lower=float(low), upper=float(high))


def _tango(worse: float, better: float, pairs: float, delta: float) -> float:
    """The score statistic of a rise of ``delta``; the better rate is its restricted estimate."""
    half = -worse - better + (2 * pairs - worse + better) * delta
    root = math.sqrt(max(0.0, half * half - 8 * pairs * (-better * delta * (1 - delta))))
    fewer = (root - half) / (4 * pairs)
    spread = pairs * (2 * fewer + delta * (1 - delta))
    shift = worse - better - pairs * delta
    if spread <= 0:
        return math.copysign(math.inf, shift) if shift else 0.0
    return shift / math.sqrt(spread)
