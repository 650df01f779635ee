"""How long published traces are kept: revisions go one by one, what they said a day at a time.

Rules
1. A revision is gone for every reader as soon as it is older than its project keeps it.
2. What it said lies with all that was published on its day (UTC) and goes, at the latest, with that
   day: the day is dropped whole once no project keeps anything of it, and emptied of the projects
   that do not while others do.
3. One sidecar at a time does this; each step is a small transaction.
4. What items of datasets say that were made from runs goes at an age of its own.
5. Who may not change the schema still publishes: what has no day of its own lies in ``_REST``.
"""

from collections.abc import Iterable, Sequence

import asyncpg
from msgspec import Struct

from sidecar.store.postgres.again import in_order, lead
from sidecar.store.postgres.bounds import let_go
from sidecar.store.postgres.connection import Connection
from sidecar.store.postgres.datasets import ERASE_OLD_ITEMS
from sidecar.store.traces import Retention

DAY_NS = 86_400_000_000_000
_REST = "trace_content_rest"
_NAMED = "trace_content_d"
_PROJECTS = (
    "WITH RECURSIVE found (name) AS (SELECT min(project) FROM {table} UNION ALL"
    " SELECT (SELECT min(project) FROM {table} WHERE project > found.name) FROM found"
    " WHERE name IS NOT NULL) SELECT name FROM found WHERE name IS NOT NULL"
)
_OLD = (
    "DELETE FROM trace WHERE row_id IN (SELECT row_id FROM trace WHERE project = $1"
    " AND published_ns < $2 ORDER BY published_ns LIMIT $3) RETURNING trace_id, newest"
)
_OPENED = (
    "SELECT o.open_id, o.sealed_bytes FROM run_key r JOIN open_trace o USING (open_id)"
    " WHERE r.project = $1 AND r.key = ANY ($2::text[]) AND o.version = o.published_version"
    " ORDER BY o.open_id FOR UPDATE OF o SKIP LOCKED"
)
_DAYS = (
    "SELECT substring(c.relname from '[0-9]+$')::bigint FROM pg_inherits i"
    " JOIN pg_class c ON c.oid = i.inhrelid"
    " WHERE i.inhparent = to_regclass('trace_content') AND c.relname LIKE 'trace\\_content\\_d%'"
    " ORDER BY 1"
)
_MAKING = "SELECT pg_advisory_xact_lock(hashtextextended('agenttwin days ' || current_schema(), 0))"


class _Day(Struct, frozen=True, kw_only=True):
    """The table of one day, and the moment at which it ends."""

    table: str
    end_ns: int


def day_of(published_ns: int) -> int:
    """The day of a publication, counted from 1970."""
    return published_ns // DAY_NS


async def add_day(connection: Connection, day: int) -> None:
    """Make the table of a day, if there is none; a transaction of its own."""
    table = f"{_NAMED}{day}"
    if await connection.fetchval("SELECT to_regclass($1)", table) is not None:
        return
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            await connection.execute(_MAKING)
            # Attached, not made as a part: that would stop every reader for a moment.
            await connection.execute(f"CREATE TABLE {table} (LIKE trace_content INCLUDING ALL)")
            await connection.execute(
                f"ALTER TABLE trace_content ATTACH PARTITION {table}"
                f" FOR VALUES FROM ({day * DAY_NS}) TO ({(day + 1) * DAY_NS})"
            )
    except (
        asyncpg.DuplicateTableError,  # another sidecar was faster
        asyncpg.InsufficientPrivilegeError,
        asyncpg.LockNotAvailableError,
        asyncpg.CheckViolationError,  # the rest holds some of this day already
    ):
        return


async def prune_revisions(connection: Connection, source: str, retention: Retention) -> int:
    """Delete some published revisions that are too old, and what hangs on them; how many."""
    if not await lead(connection):
        return 0
    await in_order(connection)
    gone = 0
    for project in await _projects(connection, "trace"):
        before_ns = retention.before_ns(project)
        if gone < retention.limit and before_ns is not None:
            rows = await connection.fetch(_OLD, project, before_ns, retention.limit - gone)
            gone += len(rows)
            unlisted = [row["trace_id"] for row in rows if row["newest"]]
            await _forget_traces(connection, source, project, unlisted)
    for project in await _projects(connection, "quarantine"):
        before_ns = retention.before_ns(project)
        if before_ns is not None:
            await connection.execute(
                "DELETE FROM quarantine WHERE row_id IN (SELECT row_id FROM quarantine"
                " WHERE project = $1 AND stored_ns < $2 LIMIT $3)",
                *(project, before_ns, retention.limit),
            )
    for project in await _projects(connection, "dataset_version"):
        before_ns = retention.items_before_ns(project)
        if before_ns is not None:
            await connection.execute(ERASE_OLD_ITEMS, project, before_ns, retention.limit)
    return gone


async def prune_contents(connection: Connection, retention: Retention) -> None:
    """Remove what revisions that are gone have said; only once every old revision is gone."""
    if not await lead(connection):
        return
    for project in await _projects(connection, _REST):
        before_ns = retention.before_ns(project)
        if before_ns is not None:
            await _empty(connection, _REST, project, before_ns, retention.limit)
    for day in await _days(connection):
        if day.end_ns > retention.now_ns:
            return
        projects = await _projects(connection, day.table)
        over = [each for each in projects if _is_over(day, retention.before_ns(each))]
        if len(over) == len(projects) and await _dropped(connection, day):
            return  # one a transaction: it locks out every reader of the contents
        for project in over:
            await _empty(connection, day.table, project, day.end_ns, retention.limit)


def _is_over(day: _Day, before_ns: int | None) -> bool:
    return before_ns is not None and before_ns >= day.end_ns


async def _dropped(connection: Connection, day: _Day) -> bool:
    """Whether the day could be dropped; not while somebody reads long, nor by who may not."""
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '1s'")
            await connection.execute(f"DROP TABLE {day.table}")
    except (asyncpg.LockNotAvailableError, asyncpg.InsufficientPrivilegeError):
        return False
    return True


async def _empty(
    connection: Connection, table: str, project: str, before_ns: int, limit: int
) -> None:
    await connection.execute(
        f"DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {table}"  # noqa: S608
        " WHERE project = $1 AND published_ns < $2 LIMIT $3))",
        *(project, before_ns, limit),
    )


async def _forget_traces(
    connection: Connection, source: str, project: str, trace_ids: Sequence[str]
) -> None:
    """Of traces that are listed no more: redirects to them, and telemetry that still waits."""
    if trace_ids:
        rows = await connection.fetch(_OPENED, project, trace_ids)
        await let_go(connection, source, list({row[0]: (row[0], row[1]) for row in rows}.values()))
        await connection.execute(
            "DELETE FROM superseded WHERE project = $1 AND by_id = ANY ($2::text[])",
            *(project, trace_ids),
        )


async def _projects(connection: Connection, table: str) -> list[str]:
    return [row[0] for row in await connection.fetch(_PROJECTS.format(table=table))]


async def _days(connection: Connection) -> Iterable[_Day]:
    return [
        _Day(table=f"{_NAMED}{row[0]}", end_ns=(row[0] + 1) * DAY_NS)
        for row in await connection.fetch(_DAYS)
    ]
