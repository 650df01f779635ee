"""Shards on a Ray cluster (extra ``ray``): the one that ``RAY_ADDRESS`` names, else one made here.

Rules
1. A task is a shard, never an episode: a task costs about a millisecond of the scheduler's time.
2. Ray may lose tasks with its nodes; nothing is kept there: what is lost is delivered again.
"""

import importlib
import threading
from concurrent.futures import Future
from typing import Any

from sidecar.errors import SidecarError
from sidecar.replay.shards.layout import Shard
from sidecar.replay.shards.model import Done, Lost, Order, Work


class RayExecutor:
    """Tasks on a cluster, at most ``places`` under way (0: as many as the cluster has cores)."""

    alone = True

    def __init__(self, work: Work, order: Order, places: int) -> None:
        self._ray = _engine()
        self._started = not self._ray.is_initialized()
        if self._started:
            self._ray.init(logging_level="ERROR", log_to_driver=False, include_dashboard=False)
        cores = self._ray.cluster_resources().get("CPU", 1)
        self.places = places or max(1, int(cores))
        # Delivered again by the coordinator, which knows what is done.
        self._task = self._ray.remote(max_retries=0, num_cpus=1)(work)
        self._order = self._ray.put(order)

    def submit(self, shard: Shard) -> "Future[Done]":
        """Have a shard run. The future raises Lost where its worker died."""
        told: Future[Done] = Future()
        reference = self._task.remote(self._order, shard)
        threading.Thread(target=self._wait, args=(reference, told), daemon=True).start()
        return told

    def close(self) -> None:
        """Leave the cluster; one that was made here ends."""
        if self._started:
            self._ray.shutdown()

    def _wait(self, reference: Any, told: "Future[Done]") -> None:
        try:
            told.set_result(self._ray.get(reference))
        except self._ray.exceptions.RayTaskError as error:
            told.set_exception(error.cause if error.cause is not None else error)
        except self._ray.exceptions.RayError as error:
            told.set_exception(Lost(str(error).splitlines()[0]))


def _engine() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise SidecarError(
            f"Ray is not installed: {error}",
            where="--executor ray",
            do="Install agenttwin-sidecar[ray].",
        ) from None
