"""Keyed randomness: a draw depends on the seed and on the name of what is drawn, on nothing else.

Rules
1. A draw is HMAC-SHA-256(seed, ``purpose|stable name``): adding a rule, a tool or a call never
   shifts another's draw, and neither does the order in which they happen.
2. Nobody holds a generator: there is no state that could leak from one episode to the next.
"""

import hmac
import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

from msgspec import Struct

from processors.value import duration_ns

_SCALE = 2**64
_NORMAL = NormalDist()
_MICROSECOND_NS = 1_000
_QUANTILES_MAX = 21


class Spread(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A log-normal duration: its ``median``, ``sigma`` of its natural logarithm, and the longest
    it may be (empty: no bound). Or a learned one: ``quantiles``, durations that grow, evenly spaced
    in probability from the shortest that was seen to the longest.
    """

    median: str = ""
    sigma: float = 0.0
    max: str = ""
    quantiles: tuple[str, ...] = ()


Delay = str | Spread
"""A duration such as ``250ms``, or a spread of durations."""


def uniform(seed: int, purpose: str, name: str) -> float:
    """A number in [0, 1)."""
    mac = hmac.digest(str(seed).encode(), f"{purpose}|{name}".encode(), "sha256")
    return int.from_bytes(mac[:8], "big") / _SCALE


def normal(seed: int, purpose: str, name: str) -> float:
    """A number of the standard normal distribution."""
    drawn = uniform(seed, purpose, name)
    return _NORMAL.inv_cdf(max(drawn, 1 / _SCALE))


def drawn_ns(delay: Delay, seed: int, purpose: str, name: str) -> int:
    """Nanoseconds of a delay; a spread is rounded to microseconds. Raises ValueError."""
    if isinstance(delay, str):
        return duration_ns(delay)
    if delay.quantiles:
        between = _between(delay.quantiles, uniform(seed, purpose, name))
        return round(between / _MICROSECOND_NS) * _MICROSECOND_NS
    scaled = duration_ns(delay.median) * math.exp(delay.sigma * normal(seed, purpose, name))
    longest = duration_ns(delay.max) if delay.max else scaled
    return round(min(scaled, longest) / _MICROSECOND_NS) * _MICROSECOND_NS


def learned(took_ns: Sequence[int]) -> Spread:
    """The empirical distribution of durations, at most 21 quantiles of it; at least one is needed.

    The k-th of n evenly spaced quantiles is the order statistic at rank k (m - 1) / (n - 1) of m
    durations, between two of them by line (Hyndman and Fan 1996, type 7).
    """
    ordered = sorted(took_ns)
    some = min(len(ordered), _QUANTILES_MAX)
    ranks = [place * (len(ordered) - 1) / max(1, some - 1) for place in range(some)]
    return Spread(quantiles=tuple(f"{_at(ordered, rank) / 1e6:.3f}ms" for rank in ranks))


def _between(quantiles: Sequence[str], drawn: float) -> float:
    rank = drawn * (len(quantiles) - 1)
    low = int(rank)
    near = [duration_ns(one) for one in quantiles[low : low + 2]]
    return _at(near, rank - low)


def _at(ordered: Sequence[int], rank: float) -> float:
    low = min(int(rank), len(ordered) - 1)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def delay_faults(delay: Delay) -> list[tuple[str, str]]:
    """What is wrong with a delay: where in it (dotted, empty for the whole), and what."""
    if isinstance(delay, Spread) and (delay.quantiles or not delay.median):
        return list(_quantile_faults(delay))
    texts = [("", delay)] if isinstance(delay, str) else [("median", delay.median)]
    if isinstance(delay, Spread) and delay.max:
        texts.append(("max", delay.max))
    found = []
    for name, text in texts:
        try:
            duration_ns(text)
        except ValueError as error:
            found.append((name, str(error)))
    if isinstance(delay, Spread) and not 0 <= delay.sigma <= 10:
        found.append(("sigma", "must be between 0 and 10"))
    return found


def _quantile_faults(delay: Spread) -> Iterator[tuple[str, str]]:
    if not delay.quantiles:
        yield "", "needs either a median or quantiles"
        return
    if delay != Spread(quantiles=delay.quantiles):
        yield "", "has quantiles, and so no median, sigma or max"
    before = 0
    for place, text in enumerate(delay.quantiles):
        try:
            now = duration_ns(text)
        except ValueError as error:
            yield f"quantiles.{place}", str(error)
            continue
        if now < before:
            yield f"quantiles.{place}", "is shorter than the one before"
        before = now
