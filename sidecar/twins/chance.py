"""Keyed randomness: a draw depends on the seed and on the name of what is drawn, on nothing else.

Rules
1. A draw is HMAC-SHA-256(seed, ``purpose|stable name``): adding a rule, a tool or a call never
   shifts another's draw, and neither does the order in which they happen.
2. Nobody holds a generator: there is no state that could leak from one episode to the next.
"""

import hmac
import math
from statistics import NormalDist

from msgspec import Struct

from processors.value import duration_ns

_SCALE = 2**64
_NORMAL = NormalDist()
_MICROSECOND_NS = 1_000


class Spread(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A log-normal duration: its ``median``, ``sigma`` of its natural logarithm, and the longest
    it may be (empty: no bound).
    """

    median: str
    sigma: float = 0.0
    max: str = ""


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
    scaled = duration_ns(delay.median) * math.exp(delay.sigma * normal(seed, purpose, name))
    longest = duration_ns(delay.max) if delay.max else scaled
    return round(min(scaled, longest) / _MICROSECOND_NS) * _MICROSECOND_NS


def delay_faults(delay: Delay) -> list[tuple[str, str]]:
    """What is wrong with a delay: where in it (dotted, empty for the whole), and what."""
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
