"""One writer thread per database, with group commit.

Rules
1. All that is queued when the thread wakes shares one transaction and one fsync.
2. A job that raises undoes itself and disturbs no neighbour: it runs inside a savepoint, or alone,
   or it is ``single``: one statement changes all it changes, so it fails as a whole anyway.
3. A future resolves only after the commit that holds its job; a failed commit fails its group. A
   commit is on the disk by then, unless all its jobs are ``soon``: it outlives this process from
   that moment, and a loss of power once a later commit is on the disk.
4. Once closed, a job is refused with StoreUnavailable, never forgotten.
5. Nothing is committed into files that were deleted or replaced (``presence``).
6. Who asked for it lingers before a commit, so that more jobs share it (``Linger``).
7. What is to be done right after a job (``then``) is in the next commit, before all that is queued,
   and never in its own. Where that fails, the job has its result all the same.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sidecar.errors import StoreUnavailable
from sidecar.store.sqlite.connection import translating, unusable
from sidecar.store.sqlite.presence import Presence

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
Then = Callable[[sqlite3.Connection, Any], Any]
Linger = Callable[[int], float]
"""Seconds to wait for further jobs, given how many the last commit held."""
GROUP_MAX = 512


class _Pending:
    __slots__ = ("error", "first", "future", "job", "loop", "result", "single", "soon", "then")

    def __init__(
        self,
        job: Job,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        *,
        soon: bool,
        single: bool,
        then: Then | None = None,
    ) -> None:
        self.job = job
        self.soon = soon
        self.single = single
        self.loop = loop
        self.future = future
        self.then = then
        self.first: Any = None
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def goes_on(self) -> bool:
        """Whether the next commit holds what is to be done right after it."""
        return self.then is not None and self.error is None

    def next(self) -> "_Pending":
        """What is to be done right after it, for the same future."""
        then, first = self.then, self.result
        assert then is not None
        made = _Pending(
            lambda connection: then(connection, first),
            self.loop,
            self.future,
            soon=False,
            single=True,
        )
        made.first = first
        return made


class Writer:
    """Runs jobs on the one write connection of a database, many to a commit.

    ``run`` is for coroutines; ``run_sync`` for start-up and command-line code. A job gets the
    connection inside an open transaction and must not commit. ``before_commit`` runs once a
    commit, last in its transaction; if it raises, the whole group fails. ``linger`` is asked when
    the first job of a commit has come. ``anew`` is called where what jobs have done or read in the
    open transaction is not so any more: at its beginning, and when a job is undone.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        before_commit: Callable[[sqlite3.Connection], None] | None = None,
        linger: Linger | None = None,
        anew: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._path = path
        self._before_commit = before_commit
        self._linger = linger
        self._anew = anew
        self._durable = True
        self._presence = Presence(path)
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._admission = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=f"writer {path}", daemon=True)
        self._thread.start()

    async def run(
        self,
        job: Callable[[sqlite3.Connection], T],
        *,
        soon: bool = False,
        single: bool = False,
        then: Callable[[sqlite3.Connection, T], T] | None = None,
    ) -> T:
        """The job's result, after its commit. Raises what the job raised, or StoreUnavailable.

        ``soon``: nothing follows from this one alone; a later job, not ``soon``, is waited for.
        ``then``: one statement on the result, in the commit right after; its result is given.
        """
        loop = asyncio.get_running_loop()
        pending = _Pending(job, loop, loop.create_future(), soon=soon, single=single, then=then)
        with self._admission:
            if self._closed:
                raise StoreUnavailable("the store is closed", where=self._path)
            self._queue.put(pending)
        result: T = await pending.future
        return result

    def run_sync(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """The same, blocking, in the caller's thread."""
        with self._lock, translating(self._path):
            self._begin(durable=True)
            try:
                result = job(self._connection)
                self._finish(self._connection)
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            return result

    async def check(self) -> None:
        """Write as little as can be, durably. Raises StoreUnavailable where nothing can be."""
        await self.run(_rewrite_version)

    def close(self) -> None:
        """Finish what is queued, then close the connection. Safe to call twice."""
        with self._admission:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _serve(self) -> None:
        held, last, following = 0, False, list[_Pending]()
        while not last or following:
            group = following
            if not last:
                last = self._take(group, held)
            held, following = len(group), []
            if group:
                with self._lock:
                    self._commit(group)
                following = [pending.next() for pending in group if pending.goes_on]
                self._resolve([pending for pending in group if not pending.goes_on])

    def _take(self, group: list[_Pending], held_last: int) -> bool:
        """Add what is queued to a group, waiting where it is empty; whether that was the last."""
        item: _Pending | None
        if not group:
            item = self._queue.get()
            if item is None:
                return True
            group.append(item)
            if self._linger is not None:
                time.sleep(self._linger(held_last))
        while len(group) < GROUP_MAX:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if item is None:
                return True
            group.append(item)
        return False

    def _commit(self, group: list[_Pending]) -> None:
        connection = self._connection
        try:
            with translating(self._path):
                self._begin(durable=not all(pending.soon for pending in group))
                if len(group) == 1:  # what undoes it is the end of its transaction
                    group[0].result = group[0].job(connection)
                else:
                    for pending in group:
                        self._run_one(connection, pending)
                self._finish(connection)
        except BaseException as error:
            if connection.in_transaction:
                try:
                    connection.execute("ROLLBACK")
                except sqlite3.Error:
                    pass  # the group has failed already; the next BEGIN tells the state
            for pending in group:
                pending.error = pending.error or error

    def _begin(self, *, durable: bool) -> None:
        self._presence.check()
        if durable is not self._durable:
            self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        self._connection.execute("BEGIN IMMEDIATE")
        self._anew()

    def _finish(self, connection: sqlite3.Connection) -> None:
        if self._before_commit is not None:
            self._before_commit(connection)
        connection.execute("COMMIT")

    def _run_one(self, connection: sqlite3.Connection, pending: _Pending) -> None:
        # Every statement gives the interpreter away, and it is got back when the loop lets go of
        # it: two fewer count.
        if not pending.single:
            connection.execute("SAVEPOINT job")
        try:
            pending.result = pending.job(connection)
        except BaseException as error:
            pending.error = self._meant(error)
            # A full disk may have rolled the whole transaction back already (SQLite's own rule).
            if not connection.in_transaction:
                raise
            if not pending.single:
                connection.execute("ROLLBACK TO job")
            self._anew()
        if not pending.single:
            connection.execute("RELEASE job")

    def _meant(self, error: BaseException) -> BaseException:
        if isinstance(error, sqlite3.IntegrityError):
            return error
        if isinstance(error, sqlite3.Error | OSError):
            return unusable(self._path, error)
        return error

    def _resolve(self, group: list[_Pending]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Pending]] = {}
        for pending in group:
            by_loop.setdefault(pending.loop, []).append(pending)
        for loop, some in by_loop.items():
            try:
                loop.call_soon_threadsafe(_settle, some)
            except RuntimeError:
                pass  # the loop is closed: nobody waits for these results any more


def _rewrite_version(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version={int(version)}")


def _settle(group: list[_Pending]) -> None:
    for pending in group:
        if pending.future.done():
            continue
        if pending.error is None:
            pending.future.set_result(pending.result)
        elif pending.first is not None:
            pending.future.set_result(pending.first)
        else:
            pending.future.set_exception(pending.error)
