"""A replay's whole result: the plan that was pinned, every run of both sides, and the comparison.

Rules
1. Both sides ran on the one plan in here; its digests pin suite, twins, policy and seeds.
2. The comparison can be made again from the runs alone (``gate verify`` does).
"""

from msgspec import Struct

from sidecar.replay.compare import CaseResult, Plan, compare
from sidecar.replay.record import EpisodeRecord


class Pins(Struct, frozen=True, kw_only=True):
    """What was held fixed for both sides. ``repeats`` is how often each case ran on a side.

    ``twin_code`` names twins that are written in Python, with their code and its digest.
    """

    suite: str
    suite_version: str
    suite_digest: str
    deterministic: bool
    repeats: int
    seed: int
    twins: dict[str, str]
    twin_code: dict[str, str] = {}
    policy_revision: str
    baseline: str
    candidate: str
    project: str
    seeds: dict[str, int]
    plans: tuple[Plan, ...]
    source: str = "suite"
    program_version: str = ""


class ReplayResult(Struct, frozen=True, kw_only=True):
    """Runs in order of case, side and run. ``files`` are the documents the plan was read from."""

    pins: Pins
    runs: tuple[EpisodeRecord, ...]
    results: tuple[CaseResult, ...]
    started_at_ns: int
    files: dict[str, bytes] = {}


def compared(pins: Pins, runs: tuple[EpisodeRecord, ...]) -> tuple[CaseResult, ...]:
    """The comparison of these runs."""
    sides: dict[str, dict[str, list[EpisodeRecord]]] = {"baseline": {}, "candidate": {}}
    for run in sorted(runs, key=lambda one: one.run):
        sides[run.side].setdefault(run.case, []).append(run)
    return compare(
        pins.plans, sides["baseline"], sides["candidate"], deterministic=pins.deterministic
    )
