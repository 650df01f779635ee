"""Exact bounds of a rate of failures, and how many runs they take.

**Rules**
1. Bounds are Clopper and Pearson's (1934): never narrower than their confidence says, for any n.
2. Rates are fractions; counts are of independent runs (``clusters.effective_runs`` where not).
"""

import math

from msgspec import Struct
from scipy import stats

_SEARCH_MAX = 2**40


class Interval(Struct, frozen=True, kw_only=True):
    """Bounds, both inclusive."""

    lower: float
    upper: float


def interval(failures: int, runs: int, confidence: float = 0.95) -> Interval:
    """The two-sided exact interval of the rate."""
    half = (1 + confidence) / 2
    return Interval(lower=lower(failures, runs, half), upper=upper(failures, runs, half))


def upper(failures: float, runs: float, confidence: float = 0.95) -> float:
    """The one-sided exact upper bound; 1 without runs. Counts may be effective, so not whole."""
    if failures >= runs:
        return 1.0
    return float(stats.beta.ppf(confidence, failures + 1, runs - failures))


def lower(failures: float, runs: float, confidence: float = 0.95) -> float:
    """The one-sided exact lower bound; 0 without failures."""
    if failures <= 0:
        return 0.0
    return float(stats.beta.ppf(1 - confidence, failures, runs - failures + 1))


def rule_of_three(runs: int) -> float:
    """What people say in their heads for the 95 % upper bound of no failure in ``runs``."""
    return min(1.0, 3 / runs) if runs else 1.0


def runs_needed(rate: float, failures: int = 0, confidence: float = 0.95) -> int:
    """The fewest runs whose ``failures`` show a rate below ``rate``, which is within (0, 1)."""
    if not 0 < rate < 1:
        raise ValueError(f"a rate to be shown lies between 0 and 1, not {rate}")
    low, high = failures, failures + 1
    while _chance(failures, high, rate) > 1 - confidence:
        low, high = high, high * 2
        if high > _SEARCH_MAX:
            raise ValueError(f"no feasible number of runs shows a rate below {rate}")
    while high - low > 1:
        middle = (low + high) // 2
        if _chance(failures, middle, rate) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def missed(rate: float, runs: int) -> float:
    """The chance that what happens at ``rate`` does not happen in ``runs``."""
    return float((1 - rate) ** runs)


def runs_to_see(rate: float, confidence: float = 0.95) -> int:
    """The fewest runs in which what happens at ``rate`` happens at least once."""
    return math.ceil(math.log(1 - confidence) / math.log1p(-rate))


def _chance(failures: int, runs: int, rate: float) -> float:
    return float(stats.binom.cdf(failures, runs, rate))
