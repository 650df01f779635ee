"""What is asked of a bisection, what its runs said, and what they come to.

The names of outcomes and reasons are a contract (docs/specs/bisect.md).
"""

from typing import Literal

from msgspec import Struct

Verdict = Literal["good", "bad", "skip"]
"""``bad``: the behaviour is there; ``skip``: this point cannot be tested."""
Purpose = Literal["end", "search", "verify", "monotone"]
Method = Literal["exact", "repeats", "bayes"]
Reason = Literal[
    "",
    "not_reproduced",
    "bad_end_untestable",
    "good_end_bad",
    "good_end_untestable",
    "ends_alike",
    "untestable",
    "flaky",
    "not_confirmed",
    "not_monotone",
    "runs_max",
    "aborted",
]


class Run(Struct, frozen=True, kw_only=True):
    """One run of the oracle. ``of``: the culprit that it verifies, else -1."""

    point: int
    verdict: Verdict
    purpose: Purpose
    of: int = -1


class Probe(Struct, frozen=True, kw_only=True):
    """A run that is wanted. ``left``: about how many points are still suspected."""

    point: int
    purpose: Purpose
    of: int = -1
    left: int = 0


class Search(Struct, frozen=True, kw_only=True):
    """How it is searched: what makes the answer to the same oracle another.

    ``measure``: runs at the bad end by which its rate is measured; ``confidence``: at which
    ``bayes`` stops; ``monotone``: random points looked at in the end.
    """

    method: Method = "exact"
    measure: int = 20
    confidence: float = 0.95
    monotone: int = 3
    seed: int = 0
    runs_max: int = 10_000


class Asked(Search, frozen=True, kw_only=True):
    """One bisection.

    ``goods`` are verified first, so is ``bad``; ``floor`` is the set of points that are no
    suspects, ``goods`` among them.
    """

    goods: tuple[int, ...]
    bad: int
    floor: int


class Rate(Struct, frozen=True, kw_only=True):
    """How often the bad end shows the behaviour, its 95 % interval, and the runs a point needs."""

    bad: int
    runs: int
    low: float
    high: float
    repeats: int


class Conclusion(Struct, frozen=True, kw_only=True):
    """What the runs come to.

    ``last_good``: the culprit's parents; ``suspects``: one of these it is, when there is no
    culprit; ``posterior``: the likeliest points, at most 10; ``contradictions``: points whose runs
    say otherwise than the culprit would have them.
    """

    outcome: Literal["found", "inconclusive"]
    reason: Reason = ""
    culprit: int | None = None
    last_good: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()
    posterior: tuple[tuple[int, float], ...] = ()
    skipped: tuple[int, ...] = ()
    contradictions: tuple[int, ...] = ()
    rate: Rate | None = None
