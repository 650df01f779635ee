"""Replays in shards as they are kept: a run, the claim of a shard, and what came of an episode.

Rules
1. A shard is worked on by whoever holds its lease; a lease that has run out is anybody's.
2. An episode is known by its run and its place in the plan: whatever is delivered twice is kept
   once, and the first stays.
3. A run that has ended keeps its name and its verdict; its episodes are in the verdict's evidence.
"""

from msgspec import Struct


class ReplayRun(Struct, frozen=True, kw_only=True):
    """A run as it was begun. ``content`` is what its workers make the plan from again;
    ``verdict_id`` is there once it has ended."""

    run_id: str
    project: str
    plan_digest: str
    shards: int
    content: bytes
    created_at_ns: int
    verdict_id: str | None = None


class ShardClaim(Struct, frozen=True, kw_only=True):
    """A shard that ``owner`` works on; ``attempt`` counts from 1 and is the claim's fence."""

    run_id: str
    shard: int
    owner: str
    attempt: int


class KeptEpisode(Struct, frozen=True, kw_only=True):
    """What came of one episode: its place in the plan, who ran it, its digest and its record."""

    place: int
    worker: str
    digest: str
    content: bytes


class RunProgress(Struct, frozen=True, kw_only=True):
    """How far a run is. ``took_ns`` are the times of the shards that are done, shortest first;
    ``next_free_ns`` is when the first lease of what is not done runs out (0: one is free)."""

    shards_done: int
    episodes_done: int
    took_ns: tuple[int, ...]
    next_free_ns: int | None
