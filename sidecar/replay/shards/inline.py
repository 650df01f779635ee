"""Shards in the coordinator's own process, one after another: to look into an agent, and for tests.

What an agent does to its interpreter stays there, and only the audit hook confines it.
"""

from concurrent.futures import Future

from sidecar.replay.shards.layout import Shard
from sidecar.replay.shards.model import Done, Order, Work


class Inline:
    """One place: this one."""

    alone = False
    places = 1

    def __init__(self, work: Work, order: Order) -> None:
        self._work = work
        self._order = order

    def submit(self, shard: Shard) -> "Future[Done]":
        """Run a shard; what it raises is in the future."""
        told: Future[Done] = Future()
        try:
            told.set_result(self._work(self._order, shard))
        except Exception as error:
            told.set_exception(error)
        return told

    def close(self) -> None:
        """Nothing is held."""
