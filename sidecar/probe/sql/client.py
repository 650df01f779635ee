"""Probes by SQL: one SELECT a try, as a role that can only read, at a database of Postgres.

**Rules**
1. The address is resolved, vetted and pinned by egress.
2. Nothing that a database says is decoded in this process: each database is asked by a process of
   its own (``worker``), so that a hostile one harms the questions to itself and nobody else's.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from processors.model.evidence import Evidence
from sidecar import clock
from sidecar.egress.client import Egress
from sidecar.egress.rules import TargetRefused
from sidecar.probe.config import Database
from sidecar.probe.plan import ProbeRequest, SqlAsk, judge_answer, unknown
from sidecar.probe.sql.messages import Job, Told
from sidecar.probe.sql.worker import Worker, WorkerFailed


def installed() -> bool:
    """Whether the driver that the processes use is there."""
    return find_spec("asyncpg") is not None


class SqlAsker:
    """Asks the databases of a configuration; paths of files start at ``folder``. Use it in one
    event loop; ``close`` it at the end."""

    def __init__(self, databases: Sequence[Database], egress: Egress, folder: Path) -> None:
        self._databases = {each.name: each for each in databases}
        self._workers = {each.name: Worker(each.name) for each in databases}
        self._egress = egress
        self._folder = folder

    async def ask(self, request: ProbeRequest, attempts: int, now: clock.Now) -> Evidence:
        """One try."""
        assert request.sql is not None
        data = {"attempts": attempts}
        try:
            told = await self.told(request.sql, request.deadline_ns)
        except WorkerFailed as failed:
            return unknown(request, failed.code, now_ns=now(), data=data)
        except TargetRefused:
            return unknown(request, "unreachable", now_ns=now(), data=data)
        except TimeoutError:
            return unknown(request, "no_whole_answer", now_ns=now(), data=data)
        if told.code:
            return unknown(request, told.code, now_ns=now(), data=data)
        seen = {**data, "rows": len(told.rows)}
        at_ns = now()
        return judge_answer(request, "rows", told.rows, at_ns=at_ns, now_ns=at_ns, data=seen)

    async def close(self) -> None:
        """End the processes. Safe twice and without use."""
        for worker in self._workers.values():
            await worker.close()

    async def told(self, ask: SqlAsk, deadline_ns: int) -> Told:
        """The rows of one query, or the code of why there are none. Raises WorkerFailed,
        TargetRefused, TimeoutError.
        """
        ends_ns = clock.monotonic_ns() + deadline_ns
        database = self._databases[ask.database]
        endpoint, addresses = await self._egress.vetted(database.target, deadline_ns=deadline_ns)
        parts = urlsplit(database.url)
        job = Job(
            identity=0,
            address=addresses[0],
            port=endpoint.port,
            host=endpoint.host,
            user=unquote(parts.username or ""),
            database=parts.path.removeprefix("/"),
            password_file=self._path(database.password_file),
            tls=database.tls == "require",
            ca_file=self._path(database.ca_file),
            query=ask.query,
            values=ask.values,
            deadline_ns=max(1, ends_ns - clock.monotonic_ns()),
        )
        return await self._workers[ask.database].ask(job)

    def _path(self, file: str) -> str:
        return str(self._folder / file) if file else ""
