"""The coordinator of a run: claims shards, has them run, keeps what comes back, until all is done.

Rules
1. Only what is kept counts: a shard whose worker, machine or coordinator died is delivered again
   once its lease has run out, and what comes twice is kept once.
2. Many coordinators may work on one run, on one machine or many; none waits for another but for the
   leases of what is left.
3. A shard that kills its worker three times is a fault of the run, not of the machine.
4. However the coordinator ends, it gives its leases back where it still can.
"""

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait

from sidecar import clock
from sidecar.errors import ExitCode, SidecarError
from sidecar.replay.shards.layout import Shard, lease_ns, run_again
from sidecar.replay.shards.model import Done, Executor, Lost, Order
from sidecar.store.episodes import ShardClaim
from sidecar.store.ports import Episodes

DELIVERIES_MAX = 3
_LOOK_SECONDS = 0.5
_EXTENDED_TIMES = 3  # a lease is extended so often before it could run out

Told = Callable[[int], None]


class Coordinator:
    """One of those that work on a run; ``told`` hears of the episodes that came in."""

    def __init__(self, book: Episodes, run_id: str, order: Order, told: Told) -> None:
        self._book = book
        self._run_id = run_id
        self._order = order
        self._told = told
        self._owner = clock.new_id()
        self._under_way: dict[Future[Done], ShardClaim] = {}
        self._deliveries: dict[int, int] = {}
        self._lease_ns = lease_ns(())
        self._extended_ns = 0

    def run(self, executor: Executor) -> None:
        """Work until every shard of the run is done, by whomever. Raises SidecarError."""
        try:
            while self._filled(executor) or self._left():
                self._take_in()
                self._extend()
        except BaseException:
            self._give_back()
            raise

    def _filled(self, executor: Executor) -> bool:
        """Give every free place a shard; whether anything is under way."""
        while len(self._under_way) < executor.places:
            now_ns = clock.now_ns()
            claim = self._book.claim_shard(
                self._run_id, self._owner, now_ns=now_ns, until_ns=now_ns + self._lease_ns
            )
            if claim is None:
                break
            self._deliver(executor, claim)
            if any(one.done() for one in self._under_way):
                break  # a place that works here and now: keep what it made before the next
        return bool(self._under_way)

    def _deliver(self, executor: Executor, claim: ShardClaim) -> None:
        times = self._deliveries.get(claim.shard, 0) + 1
        self._deliveries[claim.shard] = times
        if times > DELIVERIES_MAX:
            self._book.extend_claim(claim, 0)
            raise SidecarError(
                f"shard {claim.shard} killed its worker {DELIVERIES_MAX} times",
                where=f"run {self._run_id}",
                do="Its agent, or a library of it, ends the process: --executor inline shows how.",
                code=ExitCode.UNDECIDED,
            )
        self._under_way[executor.submit(self._order.shard(claim.shard))] = claim

    def _left(self) -> bool:
        """Whether others still have shards; waits a while where they do."""
        free_ns = self._book.run_progress(self._run_id).next_free_ns
        if free_ns is None:
            return False
        time.sleep(min(_LOOK_SECONDS, max(0, free_ns - clock.now_ns()) / 1e9))
        return True

    def _take_in(self) -> None:
        done, _ = wait(self._under_way, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            claim = self._under_way.pop(future)
            try:
                came = future.result()
            except Lost:
                self._book.extend_claim(claim, 0)
                continue
            self._told(self._book.finish_shard(claim, came.episodes, came.took_ns))

    def _extend(self) -> None:
        now_ns = clock.now_ns()
        if now_ns - self._extended_ns < self._lease_ns // _EXTENDED_TIMES:
            return
        self._extended_ns = now_ns
        self._lease_ns = lease_ns(self._book.run_progress(self._run_id).took_ns)
        for claim in self._under_way.values():
            # One that is another's by now is run twice and kept once.
            self._book.extend_claim(claim, now_ns + self._lease_ns)

    def _give_back(self) -> None:
        for claim in self._under_way.values():
            with contextlib.suppress(Exception):  # the lease runs out by itself
                self._book.extend_claim(claim, 0)


def check_again(book: Episodes, run_id: str, order: Order, executor: Executor) -> int:
    """Run a drawn part of what is kept on other workers; how many episodes. Raises SidecarError
    (exit 2) where one comes to another digest: then the run depends on where it ran."""
    kept: dict[int, str] = {}
    for place in run_again(order.episodes, order.seed):
        found = next(book.episodes_of(run_id, after=place - 1), None)
        if found is not None and found.place == place:  # or another machine has it
            kept[place] = found.digest
    places = tuple(kept)
    pieces = [places[start : start + order.size] for start in range(0, len(places), order.size)]
    running = [executor.submit(Shard(number=-1, places=piece)) for piece in pieces]
    for piece, future in zip(pieces, running, strict=True):
        for again in _delivered(executor, Shard(number=-1, places=piece), future).episodes:
            if again.digest != kept[again.place]:
                raise _depends(run_id, again.place, kept[again.place], again.digest)
    return len(places)


def _delivered(executor: Executor, shard: Shard, future: Future[Done]) -> Done:
    for _ in range(DELIVERIES_MAX):
        try:
            return future.result()
        except Lost:
            future = executor.submit(shard)
    return future.result()


def _depends(run_id: str, place: int, first: str, again: str) -> SidecarError:
    return SidecarError(
        f"episode {place} came to {first} and, on another worker, to {again}:"
        " what it comes to depends on where it runs",
        where=f"run {run_id}",
        do="Remove what varies with the host (clock, dice, environment, shared files),"
        " or drop the declaration of determinism.",
        code=ExitCode.UNDECIDED,
    )
