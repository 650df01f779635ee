"""One connection that stays with its owner: what it locks is locked until it ends.

Rules
1. Locks go with the connection: with the process, the machine or the network that it lived on.
2. A connection that was lost is made again by the next call; what it had locked is free by then.
3. Calls come in turn.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import asyncpg

from sidecar.store.postgres.connection import READ_SECONDS, Connection, Database, Job

T = TypeVar("T")
_LOST = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


class Session:
    """Runs jobs on one connection outside the pool, opened when first needed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._turn: asyncio.Lock | None = None

    async def run(self, job: Job[T], *, seconds: float = READ_SECONDS) -> T:
        """The job's result. Raises StoreUnavailable."""
        return await asyncio.wrap_future(self._database.submit(self._on(job, seconds)))

    def run_sync(self, job: Job[T], *, seconds: float = READ_SECONDS) -> T:
        """The same, blocking the caller's thread."""
        return self._wait(self._on(job, seconds), 2 * seconds)

    def close(self) -> None:
        """Let go of everything. Safe to call twice."""
        self._wait(self._end(), READ_SECONDS)

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        return self._database.wait(work, seconds)

    async def _on(self, job: Job[T], seconds: float) -> T:
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._database.connect()
            connection = self._connection
            try:
                async with asyncio.timeout(seconds):
                    return await job(connection)
            except (TimeoutError, asyncio.CancelledError) as error:
                connection.terminate()
                if isinstance(error, TimeoutError):
                    raise self._database.unavailable(error) from error
                raise
            except _LOST as error:
                raise self._database.unavailable(error) from error

    async def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
