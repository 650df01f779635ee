"""Which episodes a replay has, in which order, and how they are cut into shards.

Rules
1. An episode's place follows from the plan alone: case, then side, then run. Who runs it, how often
   and when changes nothing.
2. A shard is a stretch of places; the cut is pinned with the run, so that whoever resumes it finds
   the same shards.
3. Which episodes are run again elsewhere is drawn by the suite's seed, not by chance.
"""

import hmac
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from sidecar.replay.record import Side

EPISODES_MAX = 200
_SHARDS_LEAST = 16
_AGAIN_PER_MILLE = 5
_LEASE_LEAST_NS = 30 * 10**9
_PROCESS_EPISODES_MAX = 40  # of about half a second on each of two cores: some ten seconds


class Place(Struct, frozen=True, kw_only=True):
    """One episode of a plan: the case by its number, the side, and the run from 1."""

    case: int
    side: Side
    run: int


class Layout(Struct, frozen=True, kw_only=True):
    """All episodes of a plan: ``cases`` times ``sides`` times ``runs``, in this order."""

    cases: int
    sides: tuple[Side, ...]
    runs: int

    def __len__(self) -> int:
        return self.cases * len(self.sides) * self.runs

    def at(self, place: int) -> Place:
        """The episode of a place."""
        rest, run = divmod(place, self.runs)
        case, side = divmod(rest, len(self.sides))
        return Place(case=case, side=self.sides[side], run=run + 1)


class Shard(Struct, frozen=True, kw_only=True):
    """A piece of a run's work: the places of its episodes, in order."""

    number: int
    places: tuple[int, ...]


def size_of(episodes: int, way: Literal["twins", "gateway"], together: int = 1) -> int:
    """Episodes of one shard: few enough for every worker to get some, at most some seconds' work
    where an agent is a process of its own. The episodes of one case stay ``together``, where so
    many are no more than that."""
    most = EPISODES_MAX if way == "twins" else _PROCESS_EPISODES_MAX
    size = max(1, min(most, episodes // _SHARDS_LEAST))
    return size if together > most else max(1, size // together) * together


def count_of(episodes: int, size: int) -> int:
    """How many shards there are."""
    return -(-episodes // size)


def shard_at(number: int, episodes: int, size: int) -> Shard:
    """One shard of a run with so many episodes."""
    first = number * size
    return Shard(number=number, places=tuple(range(first, min(first + size, episodes))))


def run_again(episodes: int, seed: int, per_mille: int = _AGAIN_PER_MILLE) -> tuple[int, ...]:
    """The places that another worker runs again: about so many of a thousand, at least one."""
    if not episodes:
        return ()
    limit = (2**32 * per_mille) // 1000
    found = tuple(place for place in range(episodes) if _drawn(seed, place) < limit)
    return found or (min(range(episodes), key=lambda place: _drawn(seed, place)),)


def kept_whole(place: int, seed: int, per_mille: int = 10) -> bool:
    """Whether the record of an episode that showed nothing is kept whole all the same."""
    return _drawn(seed, place, "kept") < (2**32 * per_mille) // 1000


def lease_ns(took_ns: Sequence[int]) -> int:
    """How long a lease lasts: twice the 99th percentile of what shards took, at least 30 s."""
    if not took_ns:
        return 4 * _LEASE_LEAST_NS
    ordered = sorted(took_ns)
    return max(_LEASE_LEAST_NS, 2 * ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)])


def _drawn(seed: int, place: int, what: str = "again") -> int:
    mac = hmac.digest(str(seed).encode(), f"{what}|{place}".encode(), "sha256")
    return int.from_bytes(mac[:4], "big")
