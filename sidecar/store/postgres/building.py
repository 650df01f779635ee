"""Which sidecar builds which open trace: a lock a trace, from when it is due until it is published.

Rules
1. The lock only saves work: publishing compares versions under the row's lock, so that two builders
   of one trace publish it once.
2. A trace whose builder died, or lost its connection, is free at once.
"""

from collections.abc import Iterable, Sequence

from sidecar.store.postgres.connection import Connection, Database, Record
from sidecar.store.postgres.session import Session
from sidecar.store.traces import Due

HELD_MAX = 512
"""Traces that one sidecar builds at a time, bounded by the server's table of locks."""

_PAGES_MAX = 32
_DUE = (
    "SELECT open_id, touched_ns FROM open_trace WHERE version > published_version"
    " AND (touched_ns <= $1 OR dirty_ns <= $2 OR touched_ns > $3)"
    " AND (touched_ns, open_id) > ($5, $6) ORDER BY touched_ns, open_id LIMIT $4"
)
# 20305: any number that no other advisory lock of a pair has.
_TAKE = (
    "SELECT open_id FROM unnest($1::bigint[]) AS n (open_id)"
    " WHERE pg_try_advisory_lock(20305, (open_id % 2147483647)::integer)"
)
_LET_GO = (
    "SELECT pg_advisory_unlock(20305, (open_id % 2147483647)::integer)"
    " FROM unnest($1::bigint[]) AS n (open_id)"
)
_FOUND = (
    "SELECT open_id, project, key, version, touched_ns, lost, items, bytes, sealed_bytes"
    " FROM open_trace"
    " WHERE open_id = ANY ($1::bigint[]) AND version > published_version"
    " AND (touched_ns <= $2 OR dirty_ns <= $3 OR touched_ns > $4) ORDER BY touched_ns, open_id"
)


class Building:
    """The open traces that this process builds."""

    def __init__(self, database: Database) -> None:
        self._session = Session[int](database)

    def due(self, due: Due) -> list[Record]:
        """Rows of open traces to publish that no other process builds, the longest silent first."""
        return self._session.run_sync(lambda connection: self._due(connection, due))

    async def done(self, open_ids: Iterable[int]) -> None:
        """Others may build them from now on."""
        built = [open_id for open_id in open_ids if self._session.holds(open_id)]
        if built:
            await self._session.run(lambda connection: self._let_go(connection, built))

    def close(self) -> None:
        """Let go of all."""
        self._session.close()

    async def _due(self, connection: Connection, due: Due) -> list[Record]:
        when = (due.now_ns - due.idle_ns, due.now_ns - due.open_max_ns, due.now_ns + due.idle_ns)
        taken: list[int] = []
        place = (-1, -1)
        for _ in range(_PAGES_MAX):
            page = await connection.fetch(_DUE, *when, due.limit, *place)
            taken += await self._take(connection, [row[0] for row in page], due.limit - len(taken))
            if len(taken) >= due.limit or len(page) < due.limit:
                break
            place = (page[-1][1], page[-1][0])
        # Another process may have published them between the look and the lock.
        found: list[Record] = await connection.fetch(_FOUND, taken, *when)
        still = {row[0] for row in found}
        await self._let_go(connection, [open_id for open_id in taken if open_id not in still])
        return found

    async def _let_go(self, connection: Connection, open_ids: Sequence[int]) -> None:
        mine = sorted(self._session.held.intersection(open_ids))
        if mine:
            self._session.held.difference_update(mine)
            await connection.execute(_LET_GO, mine)

    async def _take(self, connection: Connection, open_ids: Sequence[int], room: int) -> list[int]:
        mine = self._session.held
        found = [open_id for open_id in open_ids if open_id in mine][:room]
        room = min(room - len(found), HELD_MAX - len(mine))
        if room <= 0:
            return found
        others = [open_id for open_id in open_ids if open_id not in mine]
        # No more are tried than may be kept; where some are another's, the next page follows.
        for row in await connection.fetch(_TAKE, others[:room]):
            mine.add(row[0])
            found.append(row[0])
        return found
