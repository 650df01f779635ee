"""Tests that may be looked at while they run.

**Rules**
1. A fixed-size test that is peeked at is not the test it says it is: ``peeked`` says by how much.
2. The mixture bounds hold at all times at once: look when you like, stop when you like.
"""

import math
from typing import Literal

import numpy as np
from msgspec import Struct
from scipy import optimize, special

from sidecar.gate.statistics.bounds import Interval

_LEAST = 1e-15


class Sprt(Struct, frozen=True, kw_only=True):
    """Wald's sequential test (1945) of a failure rate: ``good`` against ``bad``, good < bad."""

    good: float
    bad: float
    alpha: float = 0.05
    beta: float = 0.05

    def decide(self, failures: int, runs: int) -> Literal["good", "bad"] | None:
        """What the runs so far show; None while they show nothing."""
        ratio = failures * self._failed + (runs - failures) * self._clean
        if ratio <= self._accept:
            return "good"
        return "bad" if ratio >= self._reject else None

    def clean_runs(self) -> int:
        """How many runs without a failure accept ``good``."""
        return math.ceil(self._accept / self._clean)

    def expected_runs(self, rate: float) -> float:
        """The average number of runs until a decision, at ``good`` or ``bad`` (Wald)."""
        step = rate * self._failed + (1 - rate) * self._clean
        rejects = self.alpha if rate == self.good else 1 - self.beta
        return ((1 - rejects) * self._accept + rejects * self._reject) / step

    @property
    def _failed(self) -> float:
        return math.log(self.bad / self.good)

    @property
    def _clean(self) -> float:
        return math.log((1 - self.bad) / (1 - self.good))

    @property
    def _accept(self) -> float:
        return math.log(self.beta / (1 - self.alpha))

    @property
    def _reject(self) -> float:
        return math.log((1 - self.beta) / self.alpha)


def anytime(failures: int, runs: int, confidence: float = 0.95) -> Interval:
    """One-sided bounds of a rate that hold at every moment, each at ``confidence``.

    The Beta(1/2, 1/2) mixture martingale (Robbins 1970): a rate is outside when the mixture's
    likelihood exceeds its own by ``1 / (1 - confidence)``.
    """
    if runs == 0:
        return Interval(lower=0.0, upper=1.0)
    seen = failures / runs
    low = 0.0 if failures == 0 else _crossing(failures, runs, confidence, _LEAST, seen)
    high = 1.0 if failures == runs else _crossing(failures, runs, confidence, seen, 1 - _LEAST)
    return Interval(lower=low, upper=high)


def clean_runs_anytime(rate: float, confidence: float = 0.95) -> int:
    """The fewest runs without a failure that show a rate below ``rate``, looked at whenever."""
    low, high = 0, 1
    while anytime(0, high, confidence).upper >= rate:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if anytime(0, middle, confidence).upper >= rate else (low, middle)
        )
    return high


def peeked(
    looks: int, *, runs: int, alpha: float = 0.05, trials: int = 4000, seed: int = 0
) -> float:
    """How often a one-sided z-test of two equal rates alarms when looked at ``looks`` times.

    Simulated: ``runs`` episodes a side, looks evenly spread, both sides failing half of the time.
    """
    dice = np.random.default_rng(seed)
    step = runs // looks
    sides = dice.binomial(step, 0.5, size=(2, trials, looks)).cumsum(axis=2) / (
        step * np.arange(1, looks + 1)
    )
    pooled = sides.mean(axis=0)
    error = np.sqrt(2 * pooled * (1 - pooled) / (step * np.arange(1, looks + 1)))
    score = (sides[0] - sides[1]) / np.where(error > 0, error, np.inf)
    return float((score > special.ndtri(1 - alpha)).any(axis=1).mean())


def _crossing(failures: int, runs: int, confidence: float, low: float, high: float) -> float:
    def excess(rate: float) -> float:
        own = special.xlogy(failures, rate) + special.xlog1py(runs - failures, -rate)
        return float(_mixture(failures, runs) - own + math.log(1 - confidence))

    if excess(low) * excess(high) > 0:  # nothing between them is outside
        return low if excess(low) > 0 else (0.0 if low == _LEAST else 1.0)
    return float(optimize.brentq(excess, low, high, xtol=1e-14))


def _mixture(failures: int, runs: int) -> float:
    return float(special.betaln(failures + 0.5, runs - failures + 0.5) - special.betaln(0.5, 0.5))
