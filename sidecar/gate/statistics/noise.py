"""How far two samples of actions lie apart, and how far chance alone puts them.

**Rules**
1. A distance is judged against its A/A floor: what the same runs come to when their labels are
   shuffled within each case. A fixed threshold lies inside that noise or far above it.
2. Shuffling is seeded and within a case, so that the mix of cases is no difference.
3. Of a run the way it went is held, once for all that went it: memory grows with the ways.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]
Labels = NDArray[np.integer[Any]]
Acts = Sequence[str]
Sides = tuple[Sequence[Acts], Sequence[Acts]]
TOGETHER: Final = 8_192
"""So many runs are shuffled at once: what a shuffle needs does not grow with them."""


def grams(acts: Acts, size: int) -> Counter[tuple[str, ...]]:
    """The n-grams of what one run did, in order."""
    return Counter(tuple(acts[at : at + size]) for at in range(len(acts) - size + 1))


def total_variation(one: Mapping[object, int], other: Mapping[object, int]) -> float:
    """Half the summed difference of the shares; 1 when only one side has anything."""
    left, right = sum(one.values()), sum(other.values())
    if not left or not right:
        return float(bool(left) != bool(right))
    return (
        math.fsum(
            abs(one.get(name, 0) / left - other.get(name, 0) / right) for name in {*one, *other}
        )
        / 2
    )


def jensen_shannon(one: Mapping[object, int], other: Mapping[object, int]) -> float:
    """The divergence in bits, within 0 and 1."""
    left, right = sum(one.values()), sum(other.values())
    if not left or not right:
        return float(bool(left) != bool(right))
    found = 0.0
    for name in {*one, *other}:
        p, q = one.get(name, 0) / left, other.get(name, 0) / right
        middle = (p + q) / 2
        found += sum(share * math.log2(share / middle) / 2 for share in (p, q) if share)
    return max(0.0, found)


def floor(
    cases: Mapping[str, Sides],
    *,
    size: int,
    seed: int,
    quantile: float = 0.95,
    shuffles: int = 200,
    together: int = TOGETHER,
) -> tuple[float, float]:
    """The total variation of n-grams between the sides, and the quantile of it under shuffling.

    Runs are shuffled ``together`` at a time, or a case at a time where one has more.
    """
    blocks, vectors = _counted(cases, size, together)
    dice, ways = np.random.default_rng(seed), len(vectors)
    whole = _sum(block.whole(ways) for block in blocks)
    seen = _distance(vectors, _sum(block.of_one(ways) for block in blocks), whole)
    found = []
    for _ in range(shuffles):
        dealt = _sum(block.shuffled(dice).of_one(ways) for block in blocks)
        found.append(_distance(vectors, dealt, whole))
    return seen, float(np.quantile(found, quantile)) if found else 1.0


class _Block(NamedTuple):
    """Runs of whole cases, in their order: the way each went (a row of the vectors), its side and
    its case."""

    ways: Labels
    sides: Labels
    cases: Labels

    def shuffled(self, dice: np.random.Generator) -> "_Block":
        """The same with sides dealt anew within each case."""
        order = np.lexsort((dice.random(len(self.cases)), self.cases))  # cases are rising
        return self._replace(sides=self.sides[order])

    def whole(self, ways: int) -> Labels:
        """How many runs went each way."""
        return np.bincount(self.ways, minlength=ways)

    def of_one(self, ways: int) -> Labels:
        """How many of the first side did."""
        return np.bincount(self.ways[self.sides == 0], minlength=ways)


def _counted(
    cases: Mapping[str, Sides], size: int, together: int
) -> tuple[list[_Block], NDArray[np.float64]]:
    """The runs in blocks, and for each way that any went the counts of its n-grams.

    Thousands of runs go few ways: what a run is, is a number.
    """
    known: dict[tuple[str, ...], int] = {}
    blocks: list[_Block] = []
    ways, sides, numbers = array("i"), array("b"), array("i")
    for number, name in enumerate(sorted(cases)):
        for side, several in enumerate(cases[name]):
            for run in several:
                ways.append(known.setdefault(tuple(run), len(known)))
                sides.append(side)
                numbers.append(number)
        if len(ways) >= together:
            blocks.append(_block(ways, sides, numbers))
            ways, sides, numbers = array("i"), array("b"), array("i")
    blocks.append(_block(ways, sides, numbers))
    counted = [grams(run, size) for run in known]
    names = {name: at for at, name in enumerate(sorted({one for way in counted for one in way}))}
    vectors = np.zeros((len(counted), len(names)))
    for row, way in enumerate(counted):
        for gram, count in way.items():
            vectors[row, names[gram]] = count
    return blocks, vectors


def _block(*columns: "array[int]") -> _Block:
    return _Block(*(np.array(one) for one in columns))


def _sum(counts: Iterable[Labels]) -> Labels:
    found: Labels = np.sum(list(counts), axis=0)
    return found


def _distance(vectors: Vectors, of_one: Labels, whole: Labels) -> float:
    """Half the summed difference of shares. Counts are whole numbers: their sums are exact."""
    one, other = of_one @ vectors, (whole - of_one) @ vectors
    left, right = one.sum(), other.sum()
    if not left or not right:
        return float(bool(left) != bool(right))
    return float(np.abs(one / left - other / right).sum() / 2)
