"""What a bisection does next, told from its runs alone.

**Rules**
1. The same order, question and runs give the same answer; so an interrupted bisection goes on from
   its runs, and none of them is made twice.
2. Ends first, then the search and its verification, at last the random points.
"""

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from sidecar.replay.bisect import bayes, search
from sidecar.replay.bisect.ends import ends
from sidecar.replay.bisect.model import Asked, Conclusion, Probe, Reason, Run
from sidecar.replay.bisect.order import Order, points_of
from sidecar.replay.bisect.tally import Count, Tally


def next_step(order: Order, asked: Asked, runs: Sequence[Run]) -> Probe | Conclusion:
    """The run that is wanted next, or the conclusion."""
    tally = Tally(asked, runs)
    step: Probe | Conclusion = ends(tally) or _searched(order, asked, tally)
    if isinstance(step, Conclusion) and step.outcome == "found":
        step = _looked_around(order, asked, tally, step)
    if isinstance(step, Probe) and len(runs) >= asked.runs_max:
        return given_up(order, asked, runs)
    return step


def given_up(
    order: Order, asked: Asked, runs: Sequence[Run], reason: Reason = "runs_max"
) -> Conclusion:
    """What stands when no more runs are made."""
    tally = Tally(asked, runs)
    suspects = 0
    if ends(tally) is None:
        of = bayes.suspected if asked.method == "bayes" else search.suspected
        suspects = of(order, asked, tally)
    return Conclusion(
        outcome="inconclusive",
        reason=reason,
        suspects=tuple(points_of(suspects)),
        skipped=tally.skipped(),
        rate=tally.rate,
    )


def _searched(order: Order, asked: Asked, tally: Tally) -> Probe | Conclusion:
    search_by = bayes.bayes if asked.method == "bayes" else search.search
    return search_by(order, asked, tally)


def _looked_around(
    order: Order, asked: Asked, tally: Tally, found: Conclusion
) -> Probe | Conclusion:
    """Random points, half of them above the culprit: do they say what they should?"""
    culprit = found.culprit
    assert culprit is not None
    above = order.above(culprit)
    for point in _drawn(order, asked, tally, culprit, above):
        count = tally.of(point, "monotone", culprit)
        if not _enough(tally, count, expected_bad=bool(above >> point & 1)):
            return Probe(point=point, purpose="monotone", of=culprit, left=1)
    against = []
    spurious = 1 if asked.method == "bayes" else 0  # as many bad runs are no contradiction
    for point in sorted({run.point for run in tally.runs}):
        count, looked = tally.count(point), tally.of(point, "monotone", culprit)
        bad, good = count.bad + looked.bad, count.good + looked.good
        absent = not bad and good >= tally.repeats
        contradicts = absent if above >> point & 1 else bad > spurious
        if contradicts and not asked.floor >> point & 1:
            against.append(point)
    return replace(found, contradictions=tuple(against))


def _enough(tally: Tally, count: Count, *, expected_bad: bool) -> bool:
    made = count.good + count.bad
    if count.bad and (expected_bad or tally.asked.method != "bayes"):
        return True
    return made >= tally.repeats or count.skip >= tally.skips_allowed + made


def _drawn(order: Order, asked: Asked, tally: Tally, culprit: int, above: int) -> list[int]:
    """The points to look at: drawn by the seed from those that nothing is known of."""
    known = {run.point for run in tally.runs if run.of != culprit or run.purpose != "monotone"}
    pools: list[list[int]] = [[], []]
    for point in range(len(order)):
        if point not in known and not asked.floor >> point & 1:
            pools[above >> point & 1].append(point)
    found = []
    for number in range(asked.monotone):
        pool = pools[number % 2] or pools[1 - number % 2]
        if not pool:
            break
        seed = hashlib.sha256(f"{asked.seed}|{culprit}|{number}".encode()).digest()
        found.append(pool.pop(int.from_bytes(seed) % len(pool)))
    return found
