"""Measure: one number the gate looks at, with all that it takes to believe it."""

from msgspec import Struct

Pair = tuple[float, float]


class Measure(Struct, frozen=True, kw_only=True):
    """``value`` is what rules compare. ``interval``: one-sided bounds, each at the policy's level.

    ``runs`` are the effective ones. ``needed``: more episodes a side before it can be told.
    ``timed``: it depends on clocks, and so is in no digest.
    """

    name: str
    value: float
    statistic: str = "count"
    runs: float = 0
    interval: Pair | None = None
    cases: tuple[str, ...] = ()
    limit: float | None = None
    needed: int | None = None
    detail: str = ""
    timed: bool = False
