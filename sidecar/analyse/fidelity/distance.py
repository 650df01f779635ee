"""How far apart two distributions are: of what was done, and of how long it took.

Rules
1. Counts are taken as they are; a distribution without any count is at distance 0 from another
   without any, and at 1 from every other.
2. Durations are compared on the logarithm of milliseconds, nothing below a microsecond.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

_LEAST_NS = 1_000
_MS_NS = 1_000_000


class Timing(Struct, frozen=True, kw_only=True):
    """Two samples of durations, recorded and on the twin, in ms.

    ``ks`` is the largest distance of their distribution functions and ``p`` its two-sided p-value;
    ``wasserstein`` their earth mover's distance in natural logarithms of ms: ln 2 = 0.69 is a
    factor of two everywhere.
    """

    n_recorded: int
    n_twin: int
    ks: float
    p: float
    wasserstein: float
    recorded_p50_ms: float
    recorded_p99_ms: float
    twin_p50_ms: float
    twin_p99_ms: float
    ratio_p50: float
    ratio_p99: float


def total_variation(left: Mapping[Any, int], right: Mapping[Any, int]) -> float:
    """Half the sum of the differences of the shares; from 0 (the same) to 1 (nothing in common)."""
    some, others = sum(left.values()), sum(right.values())
    if not some or not others:
        return float(bool(some) != bool(others))
    return 0.5 * sum(
        abs(left.get(one, 0) / some - right.get(one, 0) / others)
        for one in sorted({*left, *right}, key=repr)
    )


def jensen_shannon(left: Mapping[Any, int], right: Mapping[Any, int]) -> float:
    """The divergence of Lin (1991) in bits; from 0 to 1."""
    some, others = sum(left.values()), sum(right.values())
    if not some or not others:
        return float(bool(some) != bool(others))
    found = 0.0
    for one in sorted({*left, *right}, key=repr):
        p, q = left.get(one, 0) / some, right.get(one, 0) / others
        middle = (p + q) / 2
        found += sum(0.5 * share * math.log2(share / middle) for share in (p, q) if share)
    return min(max(found, 0.0), 1.0)


def timing(recorded_ns: Sequence[int], twin_ns: Sequence[int]) -> Timing | None:
    """The comparison of two samples of durations; None where one is empty."""
    if not recorded_ns or not twin_ns:
        return None
    from scipy import special, stats  # loaded by whoever compares durations

    recorded, twin = sorted(map(_log_ms, recorded_ns)), sorted(map(_log_ms, twin_ns))
    largest = kolmogorov_smirnov(recorded, twin)
    size = len(recorded) * len(twin) / (len(recorded) + len(twin))
    p50, p99 = _quantile(recorded_ns, 0.5), _quantile(recorded_ns, 0.99)
    twin_p50, twin_p99 = _quantile(twin_ns, 0.5), _quantile(twin_ns, 0.99)
    return Timing(
        n_recorded=len(recorded_ns),
        n_twin=len(twin_ns),
        ks=largest,
        # Of large samples (Smirnov 1948): the library's exact test gives up on ties.
        p=float(special.kolmogorov(math.sqrt(size) * largest)),
        wasserstein=float(stats.wasserstein_distance(recorded, twin)),
        recorded_p50_ms=p50,
        recorded_p99_ms=p99,
        twin_p50_ms=twin_p50,
        twin_p99_ms=twin_p99,
        ratio_p50=twin_p50 / max(p50, _LEAST_NS / _MS_NS),
        ratio_p99=twin_p99 / max(p99, _LEAST_NS / _MS_NS),
    )


def kolmogorov_smirnov(left: Sequence[float], right: Sequence[float]) -> float:
    """The largest distance of the distribution functions of two samples in order."""
    return max(
        abs(bisect_right(left, one) / len(left) - bisect_right(right, one) / len(right))
        for one in (*left, *right)
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of values in order (Hyndman and Fan 1996, type 7)."""
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def _quantile(took_ns: Sequence[int], share: float) -> float:
    return quantile(sorted(took_ns), share) / _MS_NS


def _log_ms(took_ns: int) -> float:
    return math.log(max(took_ns, _LEAST_NS) / _MS_NS)
