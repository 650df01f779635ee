"""Transactions that several sidecars run at once: tried again whole, or kept in order by a lock.

Rules
1. A transaction that the server gave up for another's sake (deadlock, serialisation), or that
   found the world moved under it (``Again``), left nothing behind and is run again from its start.
2. What readers follow by number (revisions, the outbox) is numbered under ``in_order``, the last
   lock a transaction takes: who reads up to a number has seen all there ever will be below it.
3. Housekeeping is one sidecar's at a time (``lead``); the others go on without it.
"""

from typing import TypeVar

import asyncpg

from sidecar.store.postgres.connection import Connection, Job

T = TypeVar("T")
_TRIES = 8
_KEY = "hashtextextended('agenttwin {} ' || current_schema(), 0)"
_ORDER = f"SELECT pg_advisory_xact_lock({_KEY.format('order')})"
_LEAD = f"SELECT pg_try_advisory_xact_lock({_KEY.format('housekeeping')})"


class Again(Exception):
    """What a transaction had read is no longer so; it starts over."""


def whole(job: Job[T]) -> Job[T]:
    """The job in a transaction of its own, run again where another one was in its way."""

    async def run(connection: Connection) -> T:
        for _ in range(_TRIES - 1):
            try:
                async with connection.transaction():
                    return await job(connection)
            except (Again, asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
                continue
        async with connection.transaction():
            return await job(connection)

    return run


async def in_order(connection: Connection) -> None:
    """From here to the end of the transaction nobody else numbers anything."""
    await connection.execute(_ORDER)


async def lead(connection: Connection) -> bool:
    """Whether this transaction is the one that keeps house now."""
    return bool(await connection.fetchval(_LEAD))
