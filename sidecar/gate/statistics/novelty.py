"""How much of what fails has not been seen yet, from how often each failure was.

**Rules**
1. Valid for independent draws of one distribution only; a search that steers itself biases it.
2. A trend to watch, no guarantee: the slack that holds for any distribution is printed beside it.
"""

import math
from collections.abc import Iterable

from msgspec import Struct


class Novelty(Struct, frozen=True, kw_only=True):
    """``unseen`` is the chance that the next run fails in a new way (Good and Turing, 1953);
    ``slack`` its distribution-free one-sided error (McAllester, Schapire 2000); ``total`` the
    number of ways there seem to be (Chao 1984)."""

    runs: int
    found: int
    once: int
    unseen: float
    slack: float
    total: float


def novelty(counts: Iterable[int], runs: int, confidence: float = 0.95) -> Novelty:
    """From how often each signature was seen in ``runs``."""
    several = [one for one in counts if one]
    once, twice = several.count(1), several.count(2)
    more = once**2 / (2 * twice) if twice else once * (once - 1) / 2
    return Novelty(
        runs=runs,
        found=len(several),
        once=once,
        unseen=once / runs if runs else 1.0,
        slack=slack(runs, confidence),
        total=len(several) + more,
    )


def slack(runs: int, confidence: float = 0.95) -> float:
    """How far above the estimate the truth may lie, whatever the distribution."""
    if not runs:
        return 1.0
    return (2 * math.sqrt(2) + math.sqrt(3)) * math.sqrt(math.log(3 / (1 - confidence)) / runs)
