"""Coordinators of one run come to one verdict: one of them concludes, the others take it over.

Rules
1. The conclusion is kept as a run of one shard beside the run: whoever holds its lease concludes.
   One that dies of it loses the lease, and another concludes.
2. A run that has ended holds no episodes: who comes late takes the verdict that it ended with.
"""

import contextlib
import time
from collections.abc import Callable

from msgspec.structs import replace

from processors.model.verdict import Verdict
from sidecar import clock
from sidecar.app.running import Begun
from sidecar.store.episodes import ShardClaim
from sidecar.store.ports import Episodes

_LOOK_SECONDS = 0.5
_LEASE_NS, _LEASE_EPISODE_NS = 30 * 10**9, 5 * 10**6


def agreed(
    book: Episodes,
    begun: Begun,
    conclude: Callable[[], Verdict],
    stored: Callable[[str], Verdict],
) -> Verdict:
    """The verdict of a run whose shards are done: concluded here, or by another coordinator and
    ``stored``. Ends the run. Raises what ``conclude`` raises."""
    run = begun.run
    name = f"{run.run_id}/conclusion"
    book.begin_run(replace(run, run_id=name, shards=1))
    while True:
        claim = _claimed(book, name, _LEASE_NS + _LEASE_EPISODE_NS * begun.order.episodes)
        ended = book.find_run(run.run_id)
        if ended is not None and ended.verdict_id is not None:
            return stored(ended.verdict_id)
        if claim is None:
            time.sleep(_LOOK_SECONDS)
            continue
        try:
            verdict = conclude()
            book.end_run(run.run_id, verdict.verdict_id)
            book.end_run(name, verdict.verdict_id)
        except BaseException:
            with contextlib.suppress(Exception):  # the lease runs out by itself
                book.extend_claim(claim, 0)
            raise
        return verdict


def _claimed(book: Episodes, name: str, lease_ns: int) -> ShardClaim | None:
    now_ns = clock.now_ns()
    return book.claim_shard(name, clock.new_id(), now_ns=now_ns, until_ns=now_ns + lease_ns)
