"""Bisection where one run proves little: a posterior over the suspects (method bayes).

**Rules**
1. Every run counts, those at the ends and those that verify too. Suspects that all runs tell of
   alike are one part with one likelihood.
2. The rate at which the behaviour shows where it is present, and that of spurious failures where it
   is absent, are not taken for known: both are integrated over (Beta priors), so that a rate which
   was measured badly makes the search longer and not wrong.
3. The next run is made where it tells most; with a rate of one that is the median.
4. Suspects between which nothing can be tested are told together.
"""

import math
from collections.abc import Iterable

from msgspec import Struct

from sidecar.replay.bisect.model import Asked, Conclusion, Probe, Reason
from sidecar.replay.bisect.order import Order, points_of
from sidecar.replay.bisect.rate import alike
from sidecar.replay.bisect.tally import CONFIRMING, Tally

_SHOWN = (0.5, 0.5)
_SPURIOUS = (0.5, 49.5)  # one in a hundred


class Part(Struct, frozen=True, kw_only=True):
    """Suspects that the runs tell of alike, and the probability of each one of them."""

    points: int
    each: float

    @property
    def mass(self) -> float:
        """The probability of the whole part."""
        return self.each * self.points.bit_count()


def bayes(order: Order, asked: Asked, tally: Tally) -> Probe | Conclusion:
    """The next run, or what the posterior came to; to be asked once the ends hold."""
    parts = posterior(order, asked, tally)
    likely = _credible(parts, asked.confidence)
    left = likely.bit_count()
    if left == 1:
        return _verified(order, asked, tally, parts)
    masses = order.masses([(one.points, one.each) for one in parts])
    suspects = order.below(asked.bad) & ~asked.floor
    open_ = [one for one in points_of(suspects) if not tally.untestable(one)]
    parted = order.masses([(likely, 1.0)])
    if not any(0 < parted[one] < left for one in open_):
        return _open(tally, parts, "untestable", likely)
    shown, spurious = _rates(asked, tally)
    point = max(open_, key=lambda one: (_told(masses[one], shown, spurious), -one))
    return Probe(point=point, purpose="search", left=left)


def suspected(order: Order, asked: Asked, tally: Tally) -> int:
    """The least set that holds the culprit with the confidence asked for."""
    return _credible(posterior(order, asked, tally), asked.confidence)


def posterior(order: Order, asked: Asked, tally: Tally) -> list[Part]:
    """The suspects in parts, likeliest first."""
    parts = [(order.below(asked.bad) & ~asked.floor, (0, 0, 0, 0))]
    for point, count in tally.counts.items():
        if not (count.good or count.bad):
            continue
        below = order.below(point)
        parts = list(_split(parts, below, count.bad, count.good))
    logs = [_log_likelihood(*counts) for _, counts in parts]
    most = max(logs)
    weights = [math.exp(one - most) for one in logs]
    total = sum(weight * held.bit_count() for weight, (held, _) in zip(weights, parts, strict=True))
    found = [
        Part(points=held, each=weight / total)
        for weight, (held, _) in zip(weights, parts, strict=True)
    ]
    return sorted(found, key=lambda one: -one.each)


_Counts = tuple[int, int, int, int]


def _split(
    parts: Iterable[tuple[int, _Counts]], below: int, bad: int, good: int
) -> Iterable[tuple[int, _Counts]]:
    for held, (bad_in, good_in, bad_out, good_out) in parts:
        if inside := held & below:  # were one of these the culprit, the point would have it
            yield inside, (bad_in + bad, good_in + good, bad_out, good_out)
        if outside := held & ~below:
            yield outside, (bad_in, good_in, bad_out + bad, good_out + good)


def _log_likelihood(bad_in: int, good_in: int, bad_out: int, good_out: int) -> float:
    shown, spurious = _SHOWN, _SPURIOUS
    return _log_beta(shown[0] + bad_in, shown[1] + good_in) + _log_beta(
        spurious[0] + bad_out, spurious[1] + good_out
    )


def _log_beta(one: float, other: float) -> float:
    return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)


def _credible(parts: list[Part], confidence: float) -> int:
    held, mass = 0, 0.0
    for one in parts:
        held |= one.points
        mass += one.mass
        if mass >= confidence:
            break
    return held


def _rates(asked: Asked, tally: Tally) -> tuple[float, float]:
    found = tally.of(asked.bad, "end")
    shown = (_SHOWN[0] + found.bad) / (sum(_SHOWN) + found.bad + found.good)
    bad = runs = 0
    for point in asked.goods:
        count = tally.of(point, "end")
        bad, runs = bad + count.bad, runs + count.bad + count.good
    return shown, (_SPURIOUS[0] + bad) / (sum(_SPURIOUS) + runs)


def _told(mass: float, shown: float, spurious: float) -> float:
    """Mutual information, in bits, of a run and whether the point has the behaviour."""
    mass = min(1.0, max(0.0, mass))
    bad = mass * shown + (1 - mass) * spurious
    return _entropy(bad) - mass * _entropy(shown) - (1 - mass) * _entropy(spurious)


def _entropy(chance: float) -> float:
    if not 0 < chance < 1:
        return 0.0
    return -chance * math.log2(chance) - (1 - chance) * math.log2(1 - chance)


def _verified(order: Order, asked: Asked, tally: Tally, parts: list[Part]) -> Probe | Conclusion:
    culprit = next(points_of(parts[0].points))
    found = tally.of(culprit, "verify", culprit)
    if not found.bad:
        if found.good + found.skip >= CONFIRMING * tally.repeats:
            return _open(tally, parts, "not_confirmed", 1 << culprit)
        return Probe(point=culprit, purpose="verify", of=culprit, left=1)
    for point in order.parents[culprit]:
        again = tally.of(point, "verify", culprit)
        made = again.good + again.bad
        if made < tally.repeats and again.skip < tally.skips_allowed + made:
            return Probe(point=point, purpose="verify", of=culprit, left=1)
        count = tally.count(point)
        rate = tally.rate
        assert rate is not None
        if count.bad and alike(rate.bad, rate.runs, count.bad, count.good + count.bad):
            if count.good + count.bad < asked.measure:
                return Probe(point=point, purpose="verify", of=culprit, left=1)
            # Were it a suspect, its runs would have told; an ancestor of a good end is none.
            return _open(tally, parts, "not_monotone", 0)
    return Conclusion(
        outcome="found",
        culprit=culprit,
        last_good=order.parents[culprit],
        posterior=_likeliest(parts),
        skipped=tally.skipped(),
        rate=tally.rate,
    )


def _open(tally: Tally, parts: list[Part], reason: Reason, suspects: int) -> Conclusion:
    return Conclusion(
        outcome="inconclusive",
        reason=reason,
        suspects=tuple(points_of(suspects)),
        posterior=_likeliest(parts),
        skipped=tally.skipped(),
        rate=tally.rate,
    )


def _likeliest(parts: list[Part]) -> tuple[tuple[int, float], ...]:
    found: list[tuple[int, float]] = []
    for one in parts:
        for point in points_of(one.points):
            if len(found) == 10 or one.each < 1e-6:
                return tuple(found)
            found.append((point, one.each))
    return tuple(found)
