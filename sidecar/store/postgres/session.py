"""One connection that stays with its owner: what it locks is locked until it ends.

Rules
1. Locks go with the connection: with the process, the machine or the network that it lived on.
2. What is locked is noted with the connection that locked it, and is known as lost the moment that
   connection is. The next call makes a new one, which has locked nothing yet.
3. Calls come in turn. What a job does, it does on one connection.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from sidecar.store.postgres.connection import FAILED, READ_SECONDS, Connection, Database, Job

T = TypeVar("T")
Name = TypeVar("Name", int, str)


class Session(Generic[Name]):
    """Runs jobs on one connection outside the pool, opened when first needed.

    ``held`` is for jobs: the names of what this connection has locked, which they keep true.
    """

    def __init__(self, database: Database) -> None:
        self.held: set[Name] = set()
        self._database = database
        self._connection: Connection | None = None
        self._turn: asyncio.Lock | None = None

    def holds(self, name: Name) -> bool:
        """Whether a lock is still this session's, as far as this end of the line knows."""
        connection = self._connection
        return connection is not None and not connection.is_closed() and name in self.held

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
                self._connection = None
                self.held = set()
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
            except FAILED as error:
                raise self._database.unavailable(error) from error

    async def _end(self) -> None:
        connection, self._connection = self._connection, None
        self.held = set()
        if connection is not None:
            connection.terminate()
