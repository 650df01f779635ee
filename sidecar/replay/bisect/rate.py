"""How often a behaviour shows where it is present, and how many runs tell that it is absent."""

import math

MISSED = 0.01
"""The chance with which a point that has the behaviour may be taken for one that has not."""
_Z = 1.959963984540054


def repeats_for(bad: int, runs: int) -> int:
    """``ceil(ln 0.01 / ln(1 - d))`` for the measured rate d; one that never failed counts half a
    failure, so that it is no certainty."""
    assert 0 < bad <= runs
    if bad == runs == 1:
        return 1
    rate = min(bad, runs - 0.5) / runs
    return math.ceil(math.log(MISSED) / math.log1p(-rate) - 1e-9)


def interval(bad: int, runs: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate."""
    rate, spread = bad / runs, _Z * _Z / runs
    middle = (rate + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(rate * (1 - rate) / runs + spread / runs / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def alike(bad: int, runs: int, other_bad: int, other_runs: int) -> bool:
    """Whether the first rate is not told to be the greater one (Fisher's exact test, 5 %)."""
    both = bad + other_bad
    ways = math.comb(runs + other_runs, both)
    tail = sum(
        math.comb(runs, one) * math.comb(other_runs, both - one)
        for one in range(bad, min(runs, both) + 1)
    )
    return tail / ways > 0.05
