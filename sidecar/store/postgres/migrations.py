"""Bringing a schema on Postgres up to date, whoever else is starting at the same moment.

**Rules**
1. One process migrates at a time (advisory lock); all that is pending is one transaction.
2. A schema that is up to date is only read: then the user needs no right to change it.
3. What is newer than this program is used while it may be (``store.migrate``), else refused.
"""

from importlib import resources
from typing import Literal

from sidecar.errors import StoreUnavailable
from sidecar.store.migrate import (
    NOTHING,
    Applied,
    Migration,
    SchemaTooNew,
    after,
    numbered,
    pending,
)
from sidecar.store.postgres.connection import Connection, Database

Kind = Literal["ledger", "traces"]
MIGRATE_SECONDS = 600.0
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('agenttwin migrate ' || $1::text, 0))"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS schema_version (number integer PRIMARY KEY, name text NOT NULL,"
    " oldest integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
)


def migrations(kind: Kind) -> tuple[Migration, ...]:
    """The migrations that ship with the program for one schema."""
    folder = resources.files("sidecar.store") / "sql" / "postgres" / kind
    return numbered(
        (file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql")
    )


def applied(database: Database) -> Applied:
    """What the store has."""
    return database.read_sync(lambda connection: _applied(connection, database.schema))


def migrate(database: Database, known: tuple[Migration, ...]) -> Applied:
    """Apply what is pending; what the store has then. Raises StoreUnavailable."""
    try:
        found = applied(database)
        if not pending(known, found):
            return found
        return database.transact_sync(
            lambda connection: _apply(connection, database.schema, known), seconds=MIGRATE_SECONDS
        )
    except SchemaTooNew as error:
        raise StoreUnavailable(
            str(error),
            where=f"{database.where} schema {database.schema}",
            do="Use the program version that wrote it, or a newer one.",
        ) from None


async def _apply(connection: Connection, schema: str, known: tuple[Migration, ...]) -> Applied:
    await connection.execute("SET LOCAL statement_timeout = 0")
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('agenttwin migrate ' || $1::text, 0))",
        schema,
    )
    await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    await connection.execute(_TABLE)
    found = await _applied(connection, schema)  # another process may have been first
    for migration in pending(known, found):
        await connection.execute(migration.text)
        found = after(found, migration)
        await connection.execute(
            "INSERT INTO schema_version (number, name, oldest) VALUES ($1, $2, $3)",
            *(found.number, migration.name, found.oldest),
        )
    return found


async def _applied(connection: Connection, schema: str) -> Applied:
    if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.schema_version") is None:
        return NOTHING
    row = await connection.fetchrow(
        f'SELECT max(number) AS number, max(oldest) AS oldest FROM "{schema}".schema_version'  # noqa: S608
    )
    if row is None or row["number"] is None:
        return NOTHING
    return Applied(number=row["number"], oldest=row["oldest"])
