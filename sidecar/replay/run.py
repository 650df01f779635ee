"""A replay's whole result: the plan that was pinned, every run of both sides, and the comparison.

Rules
1. Both sides ran on the one plan in here; its digests pin suite, twins, policy and seeds.
2. The comparison can be made again from the runs alone (``gate verify`` does).
"""

from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct

from sidecar.evaluate.fairness import Fairness
from sidecar.replay.compare import CaseResult, Plan, compare
from sidecar.replay.record import EpisodeRecord


class Pins(Struct, frozen=True, kw_only=True):
    """What was held fixed for both sides. ``repeats`` is how often each case ran on a side.

    ``twin_code`` names twins that are written in Python, with their code and its digest;
    ``twin_state`` the snapshot their state is of and its age (``TwinGroup.state_of``);
    ``permissions`` what tools need, ``fairness`` the groups that must come to the same.
    """

    suite: str
    suite_version: str
    suite_digest: str
    deterministic: bool
    repeats: int
    seed: int
    twins: dict[str, str]
    twin_code: dict[str, str] = {}
    twin_state: dict[str, Any] = {}
    policy_revision: str
    baseline: str
    candidate: str
    project: str
    seeds: dict[str, int]
    plans: tuple[Plan, ...]
    source: str = "suite"
    program_version: str = ""
    permissions: dict[str, str] = {}
    fairness: tuple[Fairness, ...] = ()


class ReplayResult(Struct, frozen=True, kw_only=True):
    """``runs`` in order of case, side and run; they can be gone through more than once, and need
    not be in memory. ``files`` are the documents the plan was read from."""

    pins: Pins
    runs: Collection[EpisodeRecord]
    started_at_ns: int
    files: dict[str, bytes] = {}

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """The comparison of the runs, made anew."""
        return compared(self.pins, self.runs)


def in_order(pins: Pins, runs: Iterable[EpisodeRecord]) -> tuple[EpisodeRecord, ...]:
    """Runs in order of case, side and run."""
    places = {plan.case: number for number, plan in enumerate(pins.plans)}

    def turn(one: EpisodeRecord) -> tuple[int, str, str, int]:
        return places.get(one.case, len(places)), one.case, one.side, one.run

    return tuple(sorted(runs, key=turn))


def compared(pins: Pins, runs: Iterable[EpisodeRecord]) -> tuple[CaseResult, ...]:
    """The comparison of these runs, which come in order."""
    return compare(pins.plans, runs, deterministic=pins.deterministic)
