"""Before anything is searched for: the bad end shows the behaviour and the good ends do not.

**Rules**
1. Where one run proves little, rates are compared; while chance could explain the difference the
   ends are run again, up to ``ROUNDS`` times as often as was asked.
"""

from sidecar.replay.bisect.model import Conclusion, Probe, Reason
from sidecar.replay.bisect.rate import alike
from sidecar.replay.bisect.tally import Tally

ROUNDS = 3


def ends(tally: Tally) -> Probe | Conclusion | None:
    """The next run at an end, why there can be no search, or None where the ends hold."""
    if tally.asked.method == "exact":
        return _bad_end(tally, 1) or _good_ends(tally, 1)
    measure = tally.asked.measure
    for number in range(1, ROUNDS + 1):
        step = _bad_end(tally, number * measure)
        step = step or _good_ends(tally, tally.repeats if number == 1 else number * measure)
        if step is not None:
            return step
        if not _alike(tally):
            return None
    return _none(tally, "ends_alike")


def _bad_end(tally: Tally, wanted: int) -> Probe | Conclusion | None:
    point = tally.asked.bad
    found = tally.of(point, "end")
    if found.good + found.bad < wanted:
        if found.skip >= max(tally.skips_allowed, found.good + found.bad + 1):
            return _none(tally, "bad_end_untestable")
        return Probe(point=point, purpose="end")
    return None if found.bad else _none(tally, "not_reproduced")


def _good_ends(tally: Tally, wanted: int) -> Probe | Conclusion | None:
    for point in tally.asked.goods:
        found = tally.of(point, "end")
        if found.bad and tally.asked.method != "bayes":
            return _none(tally, "good_end_bad")
        if found.good + found.bad < wanted:
            if found.skip >= max(tally.skips_allowed, found.good + found.bad + 1):
                return _none(tally, "good_end_untestable")
            return Probe(point=point, purpose="end")
    return None


def _alike(tally: Tally) -> bool:
    found = tally.of(tally.asked.bad, "end")
    goods = [tally.of(point, "end") for point in tally.asked.goods]
    bad, runs = sum(one.bad for one in goods), sum(one.bad + one.good for one in goods)
    return alike(found.bad, found.bad + found.good, bad, runs)


def _none(tally: Tally, reason: Reason) -> Conclusion:
    return Conclusion(
        outcome="inconclusive", reason=reason, skipped=tally.skipped(), rate=tally.rate
    )
