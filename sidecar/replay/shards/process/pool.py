"""The executor by default: worker processes of this machine.

Rules
1. A worker that dies takes nothing with it but its own shard; what others had under way is
   delivered again too, and harmless.
2. No worker outlives its coordinator, however that ends.
3. Workers are made by a server process that never had the coordinator's threads, sockets or store.
"""

import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection

from sidecar.replay.shards.layout import Shard
from sidecar.replay.shards.model import Done, Lost, Order, Work

_PRELOADED = ["sidecar.app.episodes"]


class ProcessPool:
    """``places`` workers at most; ``alone``: they are confined for good."""

    alone = True

    def __init__(self, work: Work, order: Order, places: int) -> None:
        self.places = places
        self._work = work
        self._order = order
        self._pool = self._made()

    def submit(self, shard: Shard) -> "Future[Done]":
        """Have a shard run. The future raises Lost where its worker died."""
        told: Future[Done] = Future()
        try:
            running = self._pool.submit(self._work, self._order, shard)
        except BrokenProcessPool:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._made()
            running = self._pool.submit(self._work, self._order, shard)
        running.add_done_callback(lambda one: _tell(one, told))
        return told

    def close(self) -> None:
        """End the workers; what they have under way is dropped."""
        workers = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()

    def _made(self) -> ProcessPoolExecutor:
        kind = "forkserver" if sys.platform == "linux" else "spawn"
        context = multiprocessing.get_context(kind)
        if kind == "forkserver":
            context.set_forkserver_preload(_PRELOADED)
        return ProcessPoolExecutor(self.places, mp_context=context, initializer=_begin)


def _tell(running: "Future[Done]", told: "Future[Done]") -> None:
    if running.cancelled():
        told.cancel()
        return
    error = running.exception()
    if isinstance(error, BrokenProcessPool):
        told.set_exception(Lost("its worker died"))
    elif error is not None:
        told.set_exception(error)
    else:
        told.set_result(running.result())


def _begin() -> None:
    """First thing in a worker: Ctrl-C is the coordinator's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_with_the_coordinator() -> None:
    """From now on this worker ends when its coordinator is gone.

    To be called once nothing asks any more for a process of one thread.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="coordinator").start()
