"""How many episodes it takes to tell two versions apart.

**Rules**
1. One-sided tests of a rise of the failure rate; sizes are rounded up.
2. A size planned from a pilot uses a pessimistic share of pairs that differ (Browne 1995), not the
   observed one: half of all pilots would promise too little.
"""

import math

from scipy import stats

from sidecar.gate.statistics.bounds import upper

_PESSIMISM = 0.8


def unpaired(base: float, rise: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Episodes a side to find ``base`` risen by ``rise``, between independent samples."""
    worse = base + rise
    spread = base * (1 - base) + worse * (1 - worse)
    return math.ceil((_z(1 - alpha) + _z(power)) ** 2 * spread / rise**2)


def paired(differing: float, rise: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Pairs to find a rise where a share ``differing`` of pairs differs (Miettinen 1968)."""
    differing = max(differing, rise)
    top = _z(1 - alpha) * math.sqrt(differing) + _z(power) * math.sqrt(differing - rise**2)
    return math.ceil((top / rise) ** 2)


def differing(base: float, rise: float, repaired: float = 0.2) -> float:
    """The share of pairs that differ when a share of the base's failures passes by chance now."""
    return rise + 2 * repaired * base


def pairs_needed(
    worse: float,
    better: float,
    pairs: float,
    *,
    rise: float,
    margin: float,
    alpha: float,
    power: float,
) -> int:
    """Pairs, all in all, for a true ``rise`` to be shown above ``margin`` with ``power``.

    The pairs so far are the pilot; where they show too few, 0 to add is the answer of
    ``max(0, pairs_needed(...) - pairs)``.
    """
    share = max(upper(worse + better, pairs, _PESSIMISM), rise)
    gap = rise - margin
    spread = max(share - margin**2, 0.0), max(share - rise**2, 0.0)
    top = _z(1 - alpha) * math.sqrt(spread[0]) + _z(power) * math.sqrt(spread[1])
    return math.ceil((top / gap) ** 2)


def pairs_to_clear(
    worse: float, better: float, pairs: float, *, margin: float, alpha: float, power: float
) -> int:
    """Pairs, all in all, for no true rise to be shown within ``margin`` with ``power``."""
    share = upper(worse + better, pairs, _PESSIMISM)
    top = (_z(1 - alpha) + _z(power)) * math.sqrt(max(share, margin))
    return math.ceil((top / margin) ** 2)


def _z(share: float) -> float:
    return float(stats.norm.ppf(share))
