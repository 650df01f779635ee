"""One connection that stays: locks that are held while a process lives, and notifications.

**Rules**
1. What is held is held by this connection: it is gone with the process, the machine or the network,
   and nobody needs a clock to know. A connection that was lost is made again, and takes again what
   it is to hold.
2. Whoever waits for a notification is woken when the connection is lost: what was told meanwhile
   reached nobody, so they look for themselves.
3. Everything here happens on the database's private loop; other threads use ``Database.wait``.
4. Statements on the connection come in turn; every failure of theirs is StoreUnavailable. One that
   was late takes the connection with it.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from sidecar.errors import StoreUnavailable
from sidecar.store.postgres.connection import FAILED, READ_SECONDS, Connection, Database, Job

HOLD_SECONDS = 15.0
_AGAIN_SECONDS = 0.2
_PULSE_SECONDS = 5.0
_TAKE = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"
T = TypeVar("T")


class Presence:
    """Holds names (advisory locks) and listens to one channel, for as long as it is open.

    ``heard`` is told each payload, and None where some may have been missed.
    """

    def __init__(
        self,
        database: Database,
        channel: str,
        *,
        heard: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._heard = heard
        self._database = database
        self._channel = channel
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._wanted: set[str] = set()
        self._held: set[str] = set()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._moved = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    @property
    def listening(self) -> bool:
        """Whether notifications arrive now."""
        return self._connection is not None

    async def hold(self, name: str) -> None:
        """Be the holder of a name until ``close``, through every loss of the connection.

        Raises StoreUnavailable where another holds it, or the database does not answer.
        """
        self._wanted.add(name)
        self.start()
        try:
            async with asyncio.timeout(HOLD_SECONDS):
                while name not in self._held:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError as error:
            self._wanted.discard(name)
            raise self._database.unavailable(error) from error

    async def lead(self, name: str) -> bool:
        """Whether this process leads under a name: the first to ask does, until it is gone.

        Raises StoreUnavailable.
        """
        self.start()
        connection = self._connection
        if connection is None or connection.is_closed():
            return False
        if name not in self._held:
            await self._take(connection, name)
        return self._connection is connection and name in self._held

    @contextmanager
    def told(self, payload: str) -> Iterator[asyncio.Event]:
        """An event that is set when this payload is notified, or the connection is lost."""
        self.start()
        event = asyncio.Event()
        self._waiting.setdefault(payload, set()).add(event)
        try:
            yield event
        finally:
            waiting = self._waiting[payload]
            waiting.discard(event)
            if not waiting:
                del self._waiting[payload]

    def start(self) -> None:
        """Connect, and stay so."""
        if self._keeping is None:
            self._keeping = asyncio.ensure_future(self._keep())

    async def close(self) -> None:
        """Let go of everything."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
            self._keeping = None

    async def _keep(self) -> None:
        while True:
            try:
                await self._stay()
            except (StoreUnavailable, *FAILED):
                pass  # the ledger's other calls tell that the database is away
            finally:
                self._connection = None
                self._held.clear()
                for events in self._waiting.values():
                    for event in events:
                        event.set()
                self._heard(None)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _stay(self) -> None:
        connection = await self._database.connect()
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.add_listener(self._channel, self._notified)
            self._connection = connection
            self._heard(None)
            while not lost.is_set():
                for name in self._wanted - self._held:
                    await self._take(connection, name)
                await self._pulse(connection, lost)
        finally:
            connection.terminate()

    async def _pulse(self, connection: Connection, lost: asyncio.Event) -> None:
        """Wait a while; ask the server whether it is still there, for a dead line says nothing."""
        waiting_to_hold = bool(self._wanted - self._held)
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_SECONDS if waiting_to_hold else _PULSE_SECONDS):
                await lost.wait()
        if not lost.is_set():
            await self._ask(connection, lambda c: c.execute("SELECT 1"))

    async def _take(self, connection: Connection, name: str) -> None:
        async def take(connection: Connection) -> None:
            # One that waited for its turn may find it taken; locked twice is freed only by two.
            if name in self._held or not await connection.fetchval(_TAKE, self._lock_name(name)):
                return
            if self._connection is connection:  # else it went with the connection just now
                self._held.add(name)
                self._moved.set()

        await self._ask(connection, take)

    async def _ask(self, connection: Connection, job: Job[T]) -> T:
        async with self._turn:
            try:
                async with asyncio.timeout(READ_SECONDS):
                    return await job(connection)
            except asyncio.CancelledError:
                connection.terminate()
                raise
            except FAILED as error:
                if isinstance(error, TimeoutError):
                    connection.terminate()
                raise self._database.unavailable(error) from error

    def _lock_name(self, name: str) -> str:
        return f"agenttwin {self._database.schema} {name}"

    def _notified(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for event in self._waiting.get(str(payload), ()):
            event.set()
        self._heard(str(payload))


async def holders(connection: Connection, schema: str, names: list[str]) -> set[str]:
    """Which of the names some session holds now."""
    rows = await connection.fetch(
        "WITH asked AS (SELECT name, hashtextextended('agenttwin ' || $1 || ' ' || name, 0) AS key"
        " FROM unnest($2::text[]) AS asked (name))"
        " SELECT name FROM asked WHERE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND classid = ((key >> 32) & 4294967295)::oid AND objid = (key & 4294967295)::oid"
        " AND objsubid = 1 AND granted)",
        *(schema, names),
    )
    return {row[0] for row in rows}
