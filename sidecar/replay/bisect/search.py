"""Bisection where a point is good or bad once its runs are made (methods exact and repeats).

**Rules**
1. The search goes down from one bad point: suspects are its ancestors and itself, without those of
   points that were found good. So the last one is bad with good parents, whatever the order; where
   several points introduced the behaviour it is one of them.
2. A bad point outranks a good one above it, which must have repaired the behaviour.
3. Beside a point that cannot be tested others cannot either: the next is sought at a distance that
   doubles.
4. A culprit is named only after it and each of its parents said the same again.
"""

from sidecar.replay.bisect.model import Asked, Conclusion, Probe, Reason
from sidecar.replay.bisect.order import Order, points_of
from sidecar.replay.bisect.rate import interval
from sidecar.replay.bisect.tally import CONFIRMING, Tally


def search(order: Order, asked: Asked, tally: Tally) -> Probe | Conclusion:
    """The next run, or what the search came to; to be asked once the ends hold."""
    if asked.method == "exact" and any(one.good and one.bad for one in tally.counts.values()):
        return _open(tally, "flaky", 0)
    bad = _lowest_bad(order, asked, tally)
    if asked.floor >> bad & 1:
        return _open(tally, "not_monotone", 0)
    suspects = suspected(order, asked, tally)
    if suspects == 1 << bad:
        return _verified(order, asked, tally, bad)
    point = _next(order, tally, suspects)
    if point is None:
        return _open(tally, "untestable", suspects)
    return Probe(point=point, purpose="search", left=suspects.bit_count())


def suspected(order: Order, asked: Asked, tally: Tally) -> int:
    """The points of which one must have introduced the behaviour."""
    bad = _lowest_bad(order, asked, tally)
    suspects = order.below(bad) & ~asked.floor
    for point in tally.counts:
        if tally.verdict(point) == "good" and not order.below(point) >> bad & 1:
            suspects &= ~order.below(point)
    return suspects


def _lowest_bad(order: Order, asked: Asked, tally: Tally) -> int:
    """The bad point from which the search goes down."""
    bad = asked.bad
    for point in tally.counts:
        if tally.verdict(point) == "bad" and order.below(bad) >> point & 1:
            bad = point
    return bad


def _next(order: Order, tally: Tally, suspects: int) -> int | None:
    """The point that parts the suspects best, of those that can be tested; None: there is none."""
    masses = order.masses([(suspects, 1.0)])
    total = suspects.bit_count()
    open_ = [one for one in points_of(suspects) if tally.verdict(one) is None]
    if not open_:
        return None
    begun = [one for one in open_ if tally.count(one).good or tally.count(one).skip]
    if begun:
        return begun[0]  # its runs are not all made
    row = _skips_in_a_row(tally)
    away = 0 if not row else 1 << (row - 1) % max(1, total.bit_length() - 2)
    side = -1 if row % 2 else 1

    def distance(point: int) -> tuple[float, float, int]:
        off = masses[point] - total / 2
        return abs(abs(off) - away), off * side, point

    return min(open_, key=distance)


def _skips_in_a_row(tally: Tally) -> int:
    """How many points in a row were untestable, to the last one that was not."""
    found = 0
    for point in reversed(tally.counts):
        if not tally.untestable(point):
            break
        found += 1
    return found


def _verified(order: Order, asked: Asked, tally: Tally, culprit: int) -> Probe | Conclusion:
    for point in (culprit, *order.parents[culprit]):
        again = tally.of(point, "verify", culprit)
        exact = asked.method == "exact"
        times = CONFIRMING if point == culprit and not exact else 1
        verdict = tally.settled(again, times)
        if verdict is None:
            return Probe(point=point, purpose="verify", of=culprit, left=1)
        if point == culprit and verdict != "bad":
            return _open(tally, "not_confirmed", 1 << culprit)
    if _too_rare(tally, culprit):
        return _open(tally, "not_confirmed", 1 << culprit)
    return Conclusion(
        outcome="found",
        culprit=culprit,
        last_good=order.parents[culprit],
        posterior=((culprit, 1.0),),
        skipped=tally.skipped(),
        rate=tally.rate,
    )


def _too_rare(tally: Tally, culprit: int) -> bool:
    """Whether the behaviour shows too seldom at the culprit to be what the bad end has."""
    count, rate = tally.count(culprit), tally.rate
    return rate is not None and interval(count.bad, count.bad + count.good)[1] < rate.low


def _open(tally: Tally, reason: Reason, suspects: int) -> Conclusion:
    points = tuple(points_of(suspects))
    return Conclusion(
        outcome="inconclusive",
        reason=reason,
        suspects=points,
        posterior=tuple((one, 1 / len(points)) for one in points[:10]),
        skipped=tally.skipped(),
        rate=tally.rate,
    )
