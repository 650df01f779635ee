"""How far two samples of actions lie apart, and how far chance alone puts them.

**Rules**
1. A distance is judged against its A/A floor: what the same runs come to when their labels are
   shuffled within each case. A fixed threshold lies inside that noise or far above it.
2. Shuffling is seeded and within a case, so that the mix of cases is no difference.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]
Labels = NDArray[np.int64]
Acts = Sequence[str]
Sides = tuple[Sequence[Acts], Sequence[Acts]]


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
) -> tuple[float, float]:
    """The total variation of n-grams between the sides, and the quantile of it under shuffling."""
    vectors, sides = _vectors(cases, size)
    dice = np.random.default_rng(seed)
    seen = _distance(vectors, sides)
    groups = _groups(cases)  # rising: runs stand in the order of their cases
    found = []
    for _ in range(shuffles):
        order = np.lexsort((dice.random(len(groups)), groups))
        found.append(_distance(vectors, sides[order]))
    return seen, float(np.quantile(found, quantile)) if found else 1.0


def _vectors(cases: Mapping[str, Sides], size: int) -> tuple[Vectors, Labels]:
    runs = [
        (side, grams(run, size))
        for name in sorted(cases)
        for side, several in enumerate(cases[name])
        for run in several
    ]
    names = {name: at for at, name in enumerate(sorted({one for _, run in runs for one in run}))}
    vectors = np.zeros((len(runs), len(names)))
    for row, (_, run) in enumerate(runs):
        for name, count in run.items():
            vectors[row, names[name]] = count
    return vectors, np.array([side for side, _ in runs], dtype=int)


def _groups(cases: Mapping[str, Sides]) -> Labels:
    return np.array(
        [at for at, name in enumerate(sorted(cases)) for side in cases[name] for _ in side],
        dtype=int,
    )


def _distance(vectors: Vectors, sides: Labels) -> float:
    one, other = vectors[sides == 0].sum(axis=0), vectors[sides == 1].sum(axis=0)
    left, right = one.sum(), other.sum()
    if not left or not right:
        return float(bool(left) != bool(right))
    return float(np.abs(one / left - other / right).sum() / 2)
