"""Runs that are not independent: several of one scenario, or the same one twice.

**Rules**
1. The scenario is the unit: four runs of one scenario are not four scenarios.
2. A run counts once for each (scenario, seed, sample); a strict replay draws nothing and counts 0.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from sidecar.gate.statistics.bounds import Interval


class Draw(Struct, frozen=True, kw_only=True):
    """What one run drew: ``sample`` names the model's sample; None of a strict replay."""

    scenario: str
    seed: int
    sample: str | None


def effective_draws(draws: Iterable[Draw]) -> int:
    """How many different things were drawn."""
    return len({(one.scenario, one.seed, one.sample) for one in draws if one.sample is not None})


def naive_error(values: Sequence[Sequence[float]]) -> float:
    """The standard error of the mean as if all runs were independent."""
    flat = [one for case in values for one in case]
    mean = math.fsum(flat) / len(flat)
    return math.sqrt(math.fsum((one - mean) ** 2 for one in flat)) / len(flat)


def clustered_error(values: Sequence[Sequence[float]]) -> float:
    """The standard error of the mean with runs of one scenario moving together (Liang, Zeger)."""
    count = sum(len(case) for case in values)
    mean = math.fsum(one for case in values for one in case) / count
    return math.sqrt(math.fsum(math.fsum(one - mean for one in case) ** 2 for case in values)) / (
        count
    )


def design_effect(size: float, correlation: float) -> float:
    """1 + (m - 1) rho (Kish 1965), for clusters of ``size`` runs."""
    return 1 + (size - 1) * correlation


def effective_runs(values: Sequence[Sequence[float]]) -> float:
    """How many independent runs these are worth: between one a scenario and all of them.

    Where no run differs from another, nothing is known of how they move together: one a scenario.
    """
    count, naive = sum(len(case) for case in values), naive_error(values)
    least = float(len(values))
    if naive == 0:
        return least
    clustered = clustered_error(values)
    worth = count * (naive / clustered) ** 2 if clustered else count
    return max(least, min(float(count), worth))


def bootstrap(
    values: Mapping[str, Sequence[float]],
    *,
    seed: int,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """The percentile interval of the mean, resampling scenarios whole (Efron; two-sided)."""
    dice = np.random.default_rng(seed)
    sums = np.array([math.fsum(values[name]) for name in sorted(values)])
    sizes = np.array([len(values[name]) for name in sorted(values)])
    means = np.empty(resamples)
    for at in range(resamples):  # one at a time: a matrix of all would not fit a large suite
        chosen = dice.integers(len(sums), size=len(sums))
        means[at] = sums[chosen].sum() / sizes[chosen].sum()
    half = (1 - confidence) / 2
    low, high = np.quantile(means, [half, 1 - half])
    return Interval(lower=float(low), upper=float(high))
