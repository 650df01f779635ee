"""The A/A run: a version against itself, and how far apart it lies: the suite's noise floor.

**Rules**
1. Both references equal and a sampled suite make an A/A run; nothing else says so.
2. What it came to belongs to one suite and one agent; another's is no floor here.
3. A comparison is noisy where its pairs differ more often than those of the A/A run, shown.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from sidecar.gate.paired import planned
from sidecar.gate.policy import Noise
from sidecar.gate.samples import CaseSamples
from sidecar.gate.statistics import bounds, noise

SEED = 20261130
CASES_MAX = 500
"""A distance is told from an even choice of so many cases."""


class Divergence(Struct, frozen=True, kw_only=True):
    """How far the sides' actions lie apart, and the 95 % quantile of equal versions."""

    unigrams: float
    unigrams_floor: float
    bigrams: float
    bigrams_floor: float

    @property
    def excess(self) -> float:
        """By how much the further of the two exceeds its floor; negative within both."""
        return max(self.unigrams - self.unigrams_floor, self.bigrams - self.bigrams_floor)


def divergence(cases: Sequence[CaseSamples], known: Noise | None = None) -> Divergence:
    """The distances of planned runs; an A/A run's own may raise the floor, never lower it."""
    sides = _acts(cases)
    one, one_floor = noise.floor(sides, size=1, seed=SEED)
    two, two_floor = noise.floor(sides, size=2, seed=SEED)
    return Divergence(
        unigrams=one,
        unigrams_floor=max(one_floor, known.unigrams if known else 0.0),
        bigrams=two,
        bigrams_floor=max(two_floor, known.bigrams if known else 0.0),
    )


def measured(cases: Sequence[CaseSamples], *, suite_digest: str, agent: str) -> Noise:
    """The noise of an A/A run, for the gate's policy."""
    differing, pairs = differences(cases)
    found = divergence(cases)
    return Noise(
        suite_digest=suite_digest,
        agent=agent,
        pairs=pairs,
        differing=round(differing / pairs, 6) if pairs else 1.0,
        differing_upper=round(bounds.upper(differing, pairs), 6),
        unigrams=round(max(found.unigrams, found.unigrams_floor), 6),
        bigrams=round(max(found.bigrams, found.bigrams_floor), 6),
    )


def differences(cases: Sequence[CaseSamples]) -> tuple[int, int]:
    """How many pairs of planned runs differ in whether they passed, and of how many."""
    count, differing, pairs = planned(cases), 0, 0
    for case in cases:
        for one, other in zip(case.baseline[:count], case.candidate[:count], strict=False):
            if one.passed is not None and other.passed is not None:
                pairs += 1
                differing += one.passed is not other.passed
    return differing, pairs


def _acts(cases: Sequence[CaseSamples]) -> Mapping[str, noise.Sides]:
    count, step = planned(cases), -(-len(cases) // CASES_MAX)
    return {
        case.case: (
            [one.tools for one in case.baseline[:count]],
            [one.tools for one in case.candidate[:count]],
        )
        for case in cases[::step]
    }
