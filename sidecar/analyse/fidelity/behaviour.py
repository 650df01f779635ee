"""Whether an agent does the same on a twin as in production: its calls, in ones and in twos.

Rules
1. What is compared is how often each tool (each pair of tools in a row, within a run) is called.
2. Production differs from itself: its runs are split at random into two groups, in the proportion
   of what is compared, again and again. The distance that 95 % of the splits stay below is the
   floor; what counts is the excess over it.
3. ``p``: how often runs of both, mixed, are at least as far apart. Draws are named by seed and
   number, so that the same runs give the same figures.
4. A distribution is a weak detector: what is not seen in it may still be there. Rules of tools are
   checked one by one elsewhere.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from sidecar.analyse.fidelity.distance import jensen_shannon, quantile, total_variation
from sidecar.twins.chance import uniform

PERMUTATIONS = 499
_FLOOR = 0.95
Counts = Counter[tuple[str, ...]]


class Acted(Struct, frozen=True, kw_only=True):
    """What one run called, in order, and which task it was of."""

    task: str
    tools: tuple[str, ...]


class Distance(Struct, frozen=True, kw_only=True):
    """One distance: as it is, the floor within production, the excess over that, and ``p``."""

    distance: float
    floor: float
    excess: float
    p: float


class Behaviour(Struct, frozen=True, kw_only=True):
    """Calls in a row of length ``n`` of recorded and twin runs. ``floor``: of splits of
    the recorded runs into ``split`` runs and the others, ``by_task`` where each task was run on
    both sides, and in production more than once."""

    n: int
    recorded_runs: int
    twin_runs: int
    recorded_grams: int
    twin_grams: int
    by_task: bool
    split: int
    permutations: int
    seed: int
    total_variation: Distance
    jensen_shannon: Distance

    @property
    def alarms(self) -> bool:
        """Whether a distance is beyond what production is from itself, and not by chance."""
        both = (self.total_variation, self.jensen_shannon)
        return any(one.excess > 0 and one.p < 1 - _FLOOR for one in both)


def grams(tools: Sequence[str], n: int) -> Counts:
    """The calls of one run in rows of ``n``."""
    return Counter(tuple(tools[at : at + n]) for at in range(len(tools) - n + 1))


def behaviour(
    recorded: Sequence[Acted],
    twin: Sequence[Acted],
    *,
    n: int,
    seed: int,
    permutations: int = PERMUTATIONS,
) -> Behaviour | None:
    """The comparison; None where there are fewer than two recorded runs or none on the twin."""
    if len(recorded) < 2 or not twin:
        return None
    left, right = [grams(one.tools, n) for one in recorded], [grams(one.tools, n) for one in twin]
    groups = _groups(recorded, twin)
    within = [_split(own, len(others)) for own, others in groups]
    mixing = [([*own, *(len(left) + at for at in others)], len(others)) for own, others in groups]
    apart = [_apart(left, within, seed, f"aa|{n}|{k}") for k in range(permutations)]
    mixed = [_apart([*left, *right], mixing, seed, f"ab|{n}|{k}") for k in range(permutations)]
    told = _total(left), _total(right)
    return Behaviour(
        n=n,
        recorded_runs=len(left),
        twin_runs=len(right),
        recorded_grams=told[0].total(),
        twin_grams=told[1].total(),
        by_task=len(groups) > 1,
        split=sum(size for _, size in within),
        permutations=permutations,
        seed=seed,
        total_variation=_distance(total_variation, told, apart, mixed),
        jensen_shannon=_distance(jensen_shannon, told, apart, mixed),
    )


def _groups(recorded: Sequence[Acted], twin: Sequence[Acted]) -> list[tuple[list[int], list[int]]]:
    """Runs of one task beside each other, where every task was run twice and on the twin; else all
    of them together."""
    own: dict[str, list[int]] = defaultdict(list)
    others: dict[str, list[int]] = defaultdict(list)
    for at, one in enumerate(recorded):
        own[one.task].append(at)
    for at, one in enumerate(twin):
        others[one.task].append(at)
    if own.keys() == others.keys() and all(len(some) > 1 for some in own.values()):
        return [(own[task], others[task]) for task in sorted(own)]
    return [(list(range(len(recorded))), list(range(len(twin))))]


def _split(own: list[int], others: int) -> tuple[list[int], int]:
    size = round(len(own) * others / (len(own) + others))
    return own, min(max(1, size), max(1, len(own) // 2))


def _distance(
    measure: Callable[[Counts, Counts], float],
    told: tuple[Counts, Counts],
    apart: Sequence[tuple[Counts, Counts]],
    mixed: Sequence[tuple[Counts, Counts]],
) -> Distance:
    found = measure(*told)
    floor = quantile(sorted(measure(*one) for one in apart), _FLOOR) if apart else 0.0
    as_far = sum(measure(*one) >= found - 1e-12 for one in mixed)
    return Distance(
        distance=found,
        floor=floor,
        excess=found - floor,
        p=(1 + as_far) / (1 + len(mixed)),
    )


def _apart(
    some: Sequence[Counts], groups: Sequence[tuple[list[int], int]], seed: int, name: str
) -> tuple[Counts, Counts]:
    """Runs in two parts at random: of each group so many in the second, the others in the first."""
    first: list[Counts] = []
    second: list[Counts] = []
    for places, size in groups:
        order = sorted(places, key=lambda at: uniform(seed, "fidelity", f"{name}|{at}"))
        second += [some[at] for at in order[:size]]
        first += [some[at] for at in order[size:]]
    return _total(first), _total(second)


def _total(some: Sequence[Counts]) -> Counts:
    found: Counter[Any] = Counter()
    for one in some:
        for gram, times in one.items():
            found[gram] += times
    return found
