"""The trace stores of every backend, for the contract tests: one rig, the same tests."""

import hashlib
import itertools
import sqlite3

import asyncpg
import postgres_rig

from sidecar import clock
from sidecar.store.envelope import Sealer
from sidecar.store.location import read_location
from sidecar.store.postgres import outbox as postgres_outbox
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.datasets import PostgresDatasets
from sidecar.store.postgres.episodes import PostgresEpisodes
from sidecar.store.postgres.open_traces import PostgresOpenTraces
from sidecar.store.postgres.published import PostgresPublished
from sidecar.store.postgres.traces import PostgresTraces
from sidecar.store.postgres.verdicts import PostgresVerdicts
from sidecar.store.sqlite import outbox as sqlite_outbox
from sidecar.store.sqlite.connection import open_database
from sidecar.store.sqlite.datasets import SqliteDatasets
from sidecar.store.sqlite.episodes import SqliteEpisodes
from sidecar.store.sqlite.published import SqlitePublished
from sidecar.store.sqlite.traces import SqliteOpenTraces, SqliteTraces, migrate_traces
from sidecar.store.sqlite.verdicts import SqliteVerdicts

BACKENDS = ("memory", "file", "postgres")
_numbers = itertools.count()


def sealers(project):
    """A project's key, the same in every test."""
    return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)


def made(backend, folder):
    """A store of a backend, empty."""
    if backend == "postgres":
        return OnPostgres()
    return OnSqlite(folder / "traces.db" if backend == "file" else f":memory:{next(_numbers)}")


class OnSqlite:
    """traces.db in a file, or in memory for as long as this is."""

    def __init__(self, path):
        self.path = path
        self._parts = []
        self._kept = open_database(path)
        migrate_traces(path)

    def open_traces(self, **bounds):
        """The pipeline's side."""
        return self._part(SqliteOpenTraces(self.path, sealers=sealers, **bounds))

    def traces(self):
        """The readers' side."""
        return self._part(SqliteTraces(self.path))

    def published(self):
        """Revisions in order."""
        return self._part(SqlitePublished(self.path))

    def verdicts(self):
        """The gate's."""
        return self._part(SqliteVerdicts(self.path))

    def datasets(self):
        """Datasets."""
        return self._part(SqliteDatasets(self.path))

    def episodes(self):
        """Replays in shards."""
        return self._part(SqliteEpisodes(self.path))

    def outbox(self):
        """The exporters' side."""
        return self._part(sqlite_outbox.SqliteOutbox(self.path, sealers=sealers))

    def progress(self):
        """The metrics' side."""
        return self._part(sqlite_outbox.SqliteExportProgress(self.path))

    def prepare_outbox(self, lanes):
        """Cursors for exporters; how many items are forgotten."""
        return sqlite_outbox.prepare_outbox(self.path, lanes)

    def rows(self, statement):
        """What a statement finds or does."""
        return self._kept.execute(statement).fetchall()

    def stored(self):
        """All bytes that are kept."""
        return "".join(self._kept.iterdump()).encode()

    def close_parts(self):
        """Close whatever was opened, keeping what is stored."""
        while self._parts:
            self._parts.pop().close()

    def close(self):
        """The end."""
        self.close_parts()
        self._kept.close()

    def _part(self, part):
        self._parts.append(part)
        return part


class OnPostgres:
    """A database of its own."""

    def __init__(self):
        self._context = postgres_rig.database()
        self.url = self._context.__enter__()
        self.database = Database(read_location(self.url), schema="traces")
        self._parts = []

    def open_traces(self, **more):
        """The pipeline's side."""
        return self._part(PostgresOpenTraces(self.database, sealers=sealers, **more))

    def traces(self):
        """The readers' side."""
        return self._part(PostgresTraces(self.database))

    def published(self):
        """Revisions in order."""
        return self._part(PostgresPublished(self.database))

    def verdicts(self):
        """The gate's."""
        return self._part(PostgresVerdicts(self.database))

    def datasets(self):
        """Datasets."""
        return self._part(PostgresDatasets(self.database))

    def episodes(self):
        """Replays in shards."""
        return self._part(PostgresEpisodes(self.database))

    def outbox(self):
        """The exporters' side."""
        return self._part(postgres_outbox.PostgresOutbox(self.database, sealers=sealers))

    def progress(self):
        """The metrics' side."""
        return self._part(postgres_outbox.PostgresExportProgress(self.database))

    def prepare_outbox(self, lanes):
        """Cursors for exporters; how many items are forgotten."""
        return postgres_outbox.prepare_outbox(self.database, lanes)

    def rows(self, statement):
        """What a statement finds or does."""
        found = self.database.run_sync(lambda connection: connection.fetch(statement))
        return [tuple(row) for row in found]

    def stored(self):
        """All bytes that are kept."""
        tables = self.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = current_schema()::regnamespace"
        )
        kept = b""
        for (table,) in tables:
            for row in self.rows(f"SELECT * FROM {table}"):
                kept += b"".join(v if isinstance(v, bytes) else str(v).encode() for v in row)
        return kept

    def close_parts(self):
        """Close whatever was opened, keeping what is stored."""
        while self._parts:
            self._parts.pop().close()

    def close(self):
        """The end."""
        self.close_parts()
        for (table,) in self.rows(
            "SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid"
            " WHERE c.relname LIKE 'trace\\_content\\_d%' AND c.relkind = 'r'"
        ):
            self.rows(f"DROP TABLE {table}")  # what is left is as it was made
        self.database.close()
        self._context.__exit__(None, None, None)

    def _part(self, part):
        self._parts.append(part)
        return part


def integrity_errors():
    """What the backends raise for a row that is there already."""
    return (sqlite3.IntegrityError, asyncpg.IntegrityConstraintViolationError)
