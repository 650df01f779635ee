"""A synchronisation from beginning to end: every source is asked, its rows are checked as a twin's
rows are, and one snapshot is written, or none.
"""

from pathlib import Path
from typing import Any

from sidecar import clock
from sidecar.egress.client import Egress
from sidecar.errors import SidecarError
from sidecar.probe.sql.client import SqlAsker, installed
from sidecar.twins.snapshot import Snapshot
from sidecar.twins.sync.files import LoadedSync, Read, file_rows, write_snapshot
from sidecar.twins.sync.http import http_rows
from sidecar.twins.sync.plan import SQLITE, EntitySync
from sidecar.twins.sync.postgres import postgres_rows
from sidecar.twins.sync.rows import BadRows, hidden, keyed, mapped
from sidecar.twins.sync.sqlite import sqlite_rows


async def synchronise(loaded: LoadedSync, out: Path) -> Snapshot:
    """Ask every source and write the next snapshot into ``out``. Raises SidecarError, and then
    nothing is written.
    """
    remote = [each for each in loaded.sync.databases if not each.url.startswith(SQLITE)]
    if remote and not installed():
        raise SidecarError(
            "the driver for Postgres is not installed",
            where=f"database {remote[0].name}",
            do="Install agenttwin-sidecar[postgres].",
        )
    egress = Egress()
    asker = SqlAsker(remote, egress, loaded.folder)
    asked = _Asked(loaded, egress, asker)
    try:
        read = {name: await asked.read(name, one) for name, one in loaded.sync.entities.items()}
    finally:
        await asker.close()
        await egress.close()
    return write_snapshot(loaded, read, out)


class _Asked:
    """The sources of one synchronisation."""

    def __init__(self, loaded: LoadedSync, egress: Egress, asker: SqlAsker) -> None:
        self._loaded = loaded
        self._egress = egress
        self._asker = asker

    async def read(self, name: str, one: EntitySync) -> Read:
        """The rows of one entity. Raises SidecarError."""
        group = self._loaded.group
        owner, entity = group.entity(name)
        twin = group.twins[owner]
        key = twin.declaration.entities[entity].key
        secrets = group.secrets.get(group.told_entity(owner, entity), ())
        taken_at_ns = clock.now_ns()
        try:
            rows = await self._source(name, one, key)
            if len(rows) > one.rows_max:
                raise BadRows(f"there are more than {one.rows_max} rows (rows_max)")
            ready = hidden(keyed(mapped(rows, one.columns), key), name, key, secrets)
        except BadRows as error:
            do = "Correct the source or the sync file; nothing was written."
            raise SidecarError(f"{name}: {error}", where=one.source, do=do) from None
        problems = twin.row_problems(name, entity, ready)
        if problems:
            # Messages of a schema quote values, and these may be anybody's.
            places = ", ".join(dict.fromkeys(problem.path for problem in problems[:3]))
            raise SidecarError(
                f"{len(problems)} places of {name} do not fit its schema: {places}",
                where=one.source,
                do="Name the columns as the twin does, or correct its schema; nothing was written.",
            )
        return Read(source=one.source, taken_at_ns=taken_at_ns, rows=ready, secrets=secrets)

    async def _source(self, name: str, one: EntitySync, key: str) -> list[Any]:
        folder = self._loaded.folder
        if one.file:
            return file_rows(folder / one.file, key)
        if one.http is not None:
            return await http_rows(
                self._egress, one.http, name, folder, deadline_ns=one.deadline_ns
            )
        assert one.sql is not None, "it was checked"
        ends_ns = clock.monotonic_ns() + one.deadline_ns
        database = next(
            each for each in self._loaded.sync.databases if each.name == one.sql.database
        )
        if database.url.startswith(SQLITE):
            path = folder / database.url.removeprefix(SQLITE)
            return sqlite_rows(path, one.sql, rows_max=one.rows_max, ends_ns=ends_ns)
        column = next((name for name, field in one.columns.items() if field == key), key)
        return await postgres_rows(
            self._asker, one.sql, column, rows_max=one.rows_max, ends_ns=ends_ns
        )
