"""How much more often a changed run goes well than an unchanged one, with an interval.

**Rules**
1. The controls are of the same version, live from the same event on: only the change is different.
2. The interval is Newcombe's of Wilson scores (1998, method 10), without continuity correction: it
   holds at 0 and n of n. It is wide for few runs, and says so by itself.
3. An effect is told and decides nothing.
"""

from math import sqrt
from statistics import NormalDist
from typing import Final

from msgspec import Struct

CONFIDENCE: Final = 0.95


class Effect(Struct, frozen=True, kw_only=True):
    """``effect`` is the candidate's rate less the control's; ``low`` and ``high`` its interval.

    ``of``: what a good run is, in words.
    """

    candidates: int
    candidates_good: int
    controls: int
    controls_good: int
    effect: float
    low: float
    high: float
    of: str
    confidence: float = CONFIDENCE


def effect_of(candidates: list[bool], controls: list[bool], of: str) -> Effect:
    """The effect of a change; at least one run on either side."""
    assert candidates and controls
    one, other = _wilson(candidates), _wilson(controls)
    rates = sum(candidates) / len(candidates), sum(controls) / len(controls)
    difference = rates[0] - rates[1]
    below = sqrt((rates[0] - one[0]) ** 2 + (other[1] - rates[1]) ** 2)
    above = sqrt((one[1] - rates[0]) ** 2 + (rates[1] - other[0]) ** 2)
    return Effect(
        candidates=len(candidates),
        candidates_good=sum(candidates),
        controls=len(controls),
        controls_good=sum(controls),
        effect=difference,
        low=difference - below,
        high=difference + above,
        of=of,
    )


def _wilson(runs: list[bool]) -> tuple[float, float]:
    n, good = len(runs), sum(runs)
    z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2)
    rate = good / n
    middle = rate + z * z / (2 * n)
    half = z * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    size = 1 + z * z / n
    return max(0.0, (middle - half) / size), min(1.0, (middle + half) / size)
