"""Group commit on Postgres: what waits while a transaction commits shares the next one.

**Rules**
1. All that is queued when the turn comes is one transaction and one wait for the disk; jobs run one
   after another, and each has all that committed before it in sight.
2. A job that raises undoes itself and disturbs no neighbour: savepoints cost a job two more
   questions to the server, so a group is first run without, and again from its beginning, each job
   in a savepoint, where one raised that had written.
3. A result is given only after the commit that holds it; a failed commit fails its group. Where the
   connection was lost in the commit, nobody here knows whether it took place: callers are told that
   the store failed, and what they ask again must bear having happened.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from sidecar import clock
from sidecar.store.ledger import Signer
from sidecar.store.postgres.chain import Turn, take_turn
from sidecar.store.postgres.connection import WRITE_SECONDS, Connection, Database, in_transaction
from sidecar.store.standing import Undone

T = TypeVar("T")
Job = Callable[[Turn], Awaitable[T]]
GROUP_MAX = 128
# A group waits behind the group before it, here and in the other sidecars.
_WAIT_SECONDS = 3 * WRITE_SECONDS


class _Pending:
    __slots__ = ("error", "future", "job", "result")

    def __init__(self, job: Job[Any], future: asyncio.Future[Any]) -> None:
        self.job = job
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


class Writer:
    """Runs jobs, each with its turn. ``signer`` is set before anything is recorded."""

    def __init__(self, database: Database) -> None:
        self.signer: Signer | None = None
        self._database = database
        self._waiting: deque[_Pending] = deque()
        self._serving: asyncio.Task[None] | None = None

    async def run(self, job: Job[T]) -> T:
        """The job's result, after its commit. Raises what the job raised, or StoreUnavailable."""
        return await asyncio.wrap_future(self._database.submit(self._queued(job)))

    def run_sync(self, job: Job[T]) -> T:
        """The same, blocking, in the caller's thread."""
        return self._database.wait(self._queued(job), _WAIT_SECONDS)

    async def _queued(self, job: Job[T]) -> T:
        pending = _Pending(job, asyncio.get_running_loop().create_future())
        self._waiting.append(pending)
        if self._serving is None:
            self._serving = asyncio.ensure_future(self._serve())
        result: T = await pending.future
        return result

    async def _serve(self) -> None:
        try:
            while self._waiting:
                await self._commit(self._take())
        finally:
            self._serving = None

    def _take(self) -> list[_Pending]:
        group: list[_Pending] = []
        while self._waiting and len(group) < GROUP_MAX:
            pending = self._waiting.popleft()
            if not pending.future.done():  # who gave up waiting wants nothing written any more
                group.append(pending)
        return group

    async def _commit(self, group: list[_Pending]) -> None:
        if not group:
            return
        try:
            try:
                await self._database.here(in_transaction(partial(self._run, group)))
            except _Written:
                await self._database.here(in_transaction(partial(self._run_apart, group)))
        except BaseException as error:
            for pending in group:
                pending.error = error
        for pending in group:
            if pending.future.done():
                continue
            if pending.error is not None:
                pending.future.set_exception(pending.error)
            else:
                pending.future.set_result(pending.result)

    async def _run(self, group: list[_Pending], connection: Connection) -> None:
        turn = await take_turn(connection, self.signer, clock.now_ns())
        for pending in group:
            try:
                pending.result = await pending.job(turn)
            except Undone as undone:
                if undone.written and len(group) > 1:
                    raise _Written from undone
                if undone.written:
                    raise
                pending.error = undone
            except Exception as error:
                if len(group) > 1 and not connection.is_closed():
                    raise _Written from error
                raise
        await turn.sign_head()

    async def _run_apart(self, group: list[_Pending], connection: Connection) -> None:
        turn = await take_turn(connection, self.signer, clock.now_ns())
        for pending in group:
            pending.result = pending.error = None
            await self._run_one(turn, pending)
        await turn.sign_head()

    async def _run_one(self, turn: Turn, pending: _Pending) -> None:
        before = turn.place
        try:
            async with turn.connection.transaction():
                pending.result = await pending.job(turn)
        except Exception as error:
            if turn.connection.is_closed():
                raise
            turn.place = before
            pending.error = self._database.translated(error)


class _Written(Exception):
    """A job of the group has to be undone, and the others not."""
