"""Postgres as this product uses it: a pool on a loop of its own, deadlines, failures by one name.

**Rules**
1. All sockets live on a private event loop in a thread of their own. Coroutines await ``run``;
   the ports' synchronous reads use ``run_sync``. Both end by their deadline, whatever the server
   does.
2. Every failure but a broken constraint is StoreUnavailable, with the database and a remedy. No
   message holds a password.
3. Once the server cannot be reached, everything fails at once until it answers again; nobody waits
   in turn for the same timeout, and nothing needs a restart.
4. Reads are tried a second time on another connection when theirs was lost; writes never are: what
   became of one whose connection is lost is not known here.
"""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import asyncpg

from sidecar.errors import StoreUnavailable
from sidecar.store.location import Location

T = TypeVar("T")
Record: TypeAlias = asyncpg.Record
# The stubs know these as generic, the classes themselves are not: hence as text.
Connection: TypeAlias = "asyncpg.Connection[Record] | asyncpg.pool.PoolConnectionProxy[Record]"
Job = Callable[[Connection], Awaitable[T]]

CONNECTIONS_MAX = 8
WRITE_SECONDS = 5.0
READ_SECONDS = 2.0
_CONNECT_SECONDS = 3.0
_SLACK_SECONDS = 0.5
_PROBE_SECONDS = 0.2
_CLOSE_SECONDS = 3.0
_LOST = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what a connection lost between two messages comes out as
    asyncpg.OperatorInterventionError,
)
FAILED = (*_LOST, asyncpg.PostgresError)
"""All that the driver raises, whatever is the matter."""
# What the driver says of a value that it cannot send; it has no public name apart.
_UNFIT = (asyncpg.exceptions._base.DataError,)
_DO = "Check that the database runs, can be reached, and lets this user in."


class Database:
    """One schema of one database. Made anywhere, used from any thread; ``close`` ends it."""

    def __init__(
        self,
        location: Location,
        *,
        schema: str,
        connections_max: int = CONNECTIONS_MAX,
        statement_seconds: float = WRITE_SECONDS,
    ) -> None:
        self.location = location
        self.schema = schema
        self._connections_max = connections_max
        self._settings = {
            "search_path": schema,
            "application_name": f"agenttwin-sidecar {schema}",
            "statement_timeout": str(int(statement_seconds * 1000)),
            # Whoever stops in the middle of a transaction does not keep its locks from the others.
            "idle_in_transaction_session_timeout": str(int(statement_seconds * 1000)),
            # A machine that vanished lets go of its locks in seconds, not in the system's hours.
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "2",
            "tcp_keepalives_count": "3",
            "default_transaction_isolation": "read committed",
            # An acknowledged commit survives a crash, whatever the database's default is.
            "synchronous_commit": "on",
        }
        self._pool: asyncpg.Pool[Record] | None = None
        self._down: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._serve, name=f"postgres {schema}", daemon=True)
        self._thread.start()
        try:
            self._wait(self._open(), _CONNECT_SECONDS + _SLACK_SECONDS)
        except BaseException:
            self.close()
            raise

    @property
    def where(self) -> str:
        """The database for people."""
        return self.location.shown

    async def run(self, job: Job[T], *, seconds: float = WRITE_SECONDS) -> T:
        """The job's result, on some connection. Raises StoreUnavailable or what the job raised."""
        return await asyncio.wrap_future(self._submit(self._once(job, seconds)))

    async def transact(self, job: Job[T], *, seconds: float = WRITE_SECONDS) -> T:
        """The job's result, after the commit of the one transaction it ran in."""
        return await self.run(in_transaction(job), seconds=seconds)

    async def read(self, job: Job[T], *, seconds: float = READ_SECONDS) -> T:
        """The result of a job that writes nothing."""
        return await asyncio.wrap_future(self._submit(self._twice(job, seconds)))

    def run_sync(self, job: Job[T], *, seconds: float = WRITE_SECONDS) -> T:
        """As ``run``, blocking the caller's thread."""
        return self._wait(self._once(job, seconds), seconds + _SLACK_SECONDS)

    def transact_sync(self, job: Job[T], *, seconds: float = WRITE_SECONDS) -> T:
        """As ``transact``, blocking the caller's thread."""
        return self.run_sync(in_transaction(job), seconds=seconds)

    def read_sync(self, job: Job[T], *, seconds: float = READ_SECONDS) -> T:
        """As ``read``, blocking the caller's thread for no longer than the deadline."""
        return self._wait(self._twice(job, seconds), seconds + _SLACK_SECONDS)

    async def here(self, job: Job[T], *, seconds: float = WRITE_SECONDS) -> T:
        """As ``run``, for what is on the private loop already."""
        return await self._once(job, seconds)

    async def read_here(self, job: Job[T], *, seconds: float = READ_SECONDS) -> T:
        """As ``read``, for what is on the private loop already."""
        return await self._twice(job, seconds)

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the private loop; for parts that live there."""
        return self._submit(work)

    def wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The result of a coroutine run on the private loop. Raises StoreUnavailable when late."""
        return self._wait(work, seconds)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection whose reads all see one moment, for ``read_on``. Raises StoreUnavailable."""
        connection = self._wait(self._pin(), _CONNECT_SECONDS + READ_SECONDS)
        try:
            yield connection
        finally:
            self._loop.call_soon_threadsafe(connection.terminate)

    def read_on(self, connection: Connection, job: Job[T], seconds: float) -> T:
        """A job on a connection of one's own, blocking the caller's thread."""
        return self._wait(self._on(connection, job), seconds)

    async def connect(self) -> Connection:
        """A connection of its own, outside the pool; on the private loop only. Raises
        StoreUnavailable."""
        try:
            connection: Connection = await asyncpg.connect(**self._arguments())
        except Exception as error:
            raise self.unavailable(error) from error
        return connection

    async def check(self) -> None:
        """Write as little as can be, durably. Raises StoreUnavailable where nothing can be."""
        await self.run(lambda c: c.execute("SELECT pg_current_xact_id()"))

    def close(self) -> None:
        """Close every connection and end the thread. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(2 * _CLOSE_SECONDS)
        except TimeoutError:
            pass  # the sockets go with the loop
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)

    def unavailable(self, error: BaseException) -> StoreUnavailable:
        """A failure by the one name callers know."""
        if isinstance(error, StoreUnavailable):
            return error
        what = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, TimeoutError):
            what = "it did not answer in time"
        return StoreUnavailable(
            f"the store cannot be used: {what}", where=self.location.shown, do=_DO
        )

    def translated(self, error: Exception) -> Exception:
        """A statement's failure as callers know it; what is not the driver's stays as it is."""
        if isinstance(error, (*_UNFIT, asyncpg.DataError)):
            # The value's fault, not the store's: to call it away would try it again for ever. The
            # driver's own text quotes the value.
            return ValueError(f"a value fits no column ({type(error).__name__})")
        if isinstance(error, asyncpg.IntegrityConstraintViolationError):
            return error
        return self.unavailable(error) if isinstance(error, FAILED) else error

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        if self._closed:
            work.close()
            raise StoreUnavailable("the store is closed", where=self.location.shown)
        return asyncio.run_coroutine_threadsafe(self._until_closed(work), self._loop)

    async def _until_closed(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except asyncio.CancelledError:
            if self._closed:
                raise StoreUnavailable("the store is closed", where=self.location.shown) from None
            raise

    def _wait(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        assert threading.current_thread() is not self._thread, "the loop would wait for itself"
        future = self._submit(work)
        try:
            return future.result(seconds)
        except TimeoutError as error:
            future.cancel()
            self._loop.call_soon_threadsafe(self._lost, error)
            raise self.unavailable(error) from error

    def _arguments(self) -> dict[str, Any]:
        given = {"password": self.location.password} if self.location.password else {}
        return {
            "dsn": self.location.url,
            "timeout": _CONNECT_SECONDS,
            "server_settings": self._settings,
            **given,
        }

    async def _open(self) -> None:
        try:
            self._pool = await asyncpg.create_pool(
                min_size=0,
                max_size=self._connections_max,
                reset=_nothing,  # what a job sets, it sets for its transaction only
                **self._arguments(),
            )
            await self._attempt(lambda c: c.execute("SELECT 1"), _CONNECT_SECONDS)
        except (Exception, ssl.SSLError) as error:
            raise self.unavailable(error) from error

    async def _pin(self) -> Connection:
        connection = await self.connect()
        try:
            await connection.execute("SET idle_in_transaction_session_timeout = 0")
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        except BaseException as error:
            connection.terminate()
            if isinstance(error, FAILED):
                raise self.unavailable(error) from error
            raise
        return connection

    async def _on(self, connection: Connection, job: Job[T]) -> T:
        try:
            return await job(connection)
        except FAILED as error:
            raise self.unavailable(error) from error

    async def _once(self, job: Job[T], seconds: float) -> T:
        if self._down is not None:
            raise StoreUnavailable(self._down, where=self.location.shown, do=_DO)
        try:
            return await self._attempt(job, seconds)
        except _LOST as error:
            raise self._lost(error) from error

    async def _twice(self, job: Job[T], seconds: float) -> T:
        if self._down is not None:
            raise StoreUnavailable(self._down, where=self.location.shown, do=_DO)
        try:
            return await self._attempt(job, seconds)
        except TimeoutError as error:
            raise self._lost(error) from error
        except _LOST:
            return await self._once(job, seconds)

    async def _attempt(self, job: Job[T], seconds: float) -> T:
        assert self._pool is not None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._pool.acquire()
                try:
                    return await job(connection)
                except BaseException:
                    # Who is late is not asked to stop: that would be one more thing to wait for.
                    # A transaction that was under way turns the cancellation into its own failure.
                    if _cancelled():
                        connection.terminate()
                    raise
                finally:
                    await self._pool.release(connection)
        except asyncpg.QueryCanceledError as error:
            raise self.unavailable(error) from error  # the statement was late, not the server
        except (*_UNFIT, asyncpg.DataError) as error:
            raise self.translated(error) from None
        except (*_LOST, asyncpg.IntegrityConstraintViolationError):
            raise
        except asyncpg.PostgresError as error:
            raise self.unavailable(error) from error

    def _lost(self, error: BaseException) -> StoreUnavailable:
        """Mark the server as not answering, and ask until it answers."""
        told = self.unavailable(error)
        if self._down is None and not self._closed:
            self._down = told.what
            task = self._loop.create_task(self._until_up())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return told

    async def _until_up(self) -> None:
        while self._down is not None:
            try:
                await self._attempt(lambda c: c.execute("SELECT 1"), _CONNECT_SECONDS)
            except (*_LOST, StoreUnavailable):
                await asyncio.sleep(_PROBE_SECONDS)
            else:
                self._down = None

    async def _shut(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        if self._pool is not None:
            try:
                await asyncio.wait_for(self._pool.close(), _CLOSE_SECONDS)
            except FAILED:
                self._pool.terminate()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # uvloop has no wheel everywhere; the standard loop serves as well
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _nothing(connection: object) -> None:
    pass


def in_transaction(job: Job[T]) -> Job[T]:
    """The job inside a transaction of its own."""

    async def run(connection: Connection) -> T:
        async with connection.transaction():
            return await job(connection)

    return run
