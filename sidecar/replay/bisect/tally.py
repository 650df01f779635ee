"""The runs of a bisection, counted by point.

**Rules**
1. Runs that only look whether the order is monotone are no evidence for the search.
2. A point is untestable after one run that could not be judged, where runs are exact, else after
   three; one that was ever judged is testable.
"""

from collections.abc import Sequence

from msgspec import Struct

from sidecar.replay.bisect.model import Asked, Purpose, Rate, Run, Verdict
from sidecar.replay.bisect.rate import interval, repeats_for

CONFIRMING = 3
"""So many times the usual runs are made for a culprit to show the behaviour again."""
_SKIPS = {"exact": 1, "repeats": 3, "bayes": 3}


class Count(Struct, kw_only=True):
    """How often a point was found good, bad, and untestable."""

    good: int = 0
    bad: int = 0
    skip: int = 0


class Tally:
    """What the runs so far say of each point."""

    def __init__(self, asked: Asked, runs: Sequence[Run]) -> None:
        self.asked = asked
        self.runs = runs
        self.counts: dict[int, Count] = {}
        """By point, in the order of their first run; without ``monotone``."""
        self.skips_allowed = _SKIPS[asked.method]
        for run in runs:
            if run.purpose != "monotone":
                _add(self.counts.setdefault(run.point, Count()), run.verdict)
        self.rate = self._rate()

    @property
    def repeats(self) -> int:
        """How many good runs make a point good."""
        return 1 if self.rate is None else self.rate.repeats

    def count(self, point: int) -> Count:
        """What was counted at a point."""
        return self.counts.get(point, Count())

    def verdict(self, point: int) -> Verdict | None:
        """What a point is, by the rule that one bad run makes it bad; None: not yet known."""
        return self._judged(self.count(point))

    def untestable(self, point: int) -> bool:
        """Whether the point cannot be tested."""
        return self.verdict(point) == "skip"

    def skipped(self) -> tuple[int, ...]:
        """All points that cannot be tested."""
        return tuple(sorted(one for one in self.counts if self.untestable(one)))

    def of(self, point: int, purpose: Purpose, culprit: int = -1) -> Count:
        """What the runs of one purpose counted at a point."""
        found = Count()
        for run in self.runs:
            if (run.point, run.purpose, run.of) == (point, purpose, culprit):
                _add(found, run.verdict)
        return found

    def settled(self, found: Count, times: int = 1) -> Verdict | None:
        """What runs of one purpose come to, by the same rule; None: more are needed.

        ``times``: so many times the usual runs make it good.
        """
        return self._judged(found, times)

    def _judged(self, found: Count, times: int = 1) -> Verdict | None:
        if found.bad:
            return "bad"
        if found.good >= self.repeats * times:
            return "good"
        return "skip" if not found.good and found.skip >= self.skips_allowed else None

    def _rate(self) -> Rate | None:
        asked = self.asked
        if asked.method == "exact":
            return None
        found = self.of(asked.bad, "end")
        runs = found.good + found.bad
        if runs < asked.measure or not found.bad:
            return None  # not measured yet
        low, high = interval(found.bad, runs)
        repeats = repeats_for(found.bad, runs)
        return Rate(bad=found.bad, runs=runs, low=low, high=high, repeats=repeats)


def _add(count: Count, verdict: Verdict) -> None:
    if verdict == "good":
        count.good += 1
    elif verdict == "bad":
        count.bad += 1
    else:
        count.skip += 1
