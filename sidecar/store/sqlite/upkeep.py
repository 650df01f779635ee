"""Schemas and backups of the files of one folder.

Rules
1. A backup is of one moment of all files: writers are held up only while their snapshots are taken,
   never while bytes are copied.
2. A cursor in it never lies beyond what it points into: neither is ahead of the other.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from sidecar.errors import StoreUnavailable
from sidecar.store.sqlite.connection import migrate, open_database, translating
from sidecar.store.sqlite.journal import PAGE_BYTES
from sidecar.store.sqlite.scripts import JOURNAL, LEDGER, TRACES, scripts
from sidecar.store.upkeep import SchemaState

# In the order in which they are locked: senders wait for the journal, so it is locked last.
SCHEMAS: Mapping[str, Sequence[str]] = {"ledger": LEDGER, "traces": TRACES, "journal": JOURNAL}


def schemas(folder: Path) -> tuple[SchemaState, ...]:
    """What each file has."""
    return tuple(_state(folder, name) for name in SCHEMAS)


def migrate_all(folder: Path) -> None:
    """Make every file, or bring it up to date. Raises StoreUnavailable."""
    for name, names in SCHEMAS.items():
        path = folder / f"{name}.db"
        pages = PAGE_BYTES if name == "journal" else None
        with closing(open_database(path, page_bytes=pages)) as connection:
            migrate(connection, scripts(tuple(names)), path)


def copy_all(folder: Path, target: Path) -> None:
    """Copy every file as it was at one moment into ``target``. Raises StoreUnavailable."""
    paths = [path for name in SCHEMAS if (path := folder / f"{name}.db").exists()]
    if not paths:
        raise StoreUnavailable("there is no store", where=str(folder), do="Name it with --store.")
    with ExitStack() as stack:
        snapshots = _snapshots(stack, paths)
        for path, snapshot in snapshots:
            with translating(path), closing(sqlite3.connect(target / path.name)) as copy:
                snapshot.backup(copy)
                copy.execute("PRAGMA journal_mode=DELETE")  # one file, complete by itself


def settle_all(folder: Path) -> None:
    """Move what write-ahead logs still hold into their files, where nothing else has them open.

    A last connection that only reads cannot: what was deleted would stay in the log, and a copy of
    the files without it would lack what was written last.
    """
    for name in SCHEMAS:
        path = folder / f"{name}.db"
        if path.with_name(f"{path.name}-wal").exists():
            with suppress(StoreUnavailable):  # the next start does the same
                open_database(path).close()


def _snapshots(stack: ExitStack, paths: Sequence[Path]) -> list[tuple[Path, sqlite3.Connection]]:
    """A connection a file, all of them reading the same moment."""
    with ExitStack() as holding:
        for path in paths:
            writer = holding.enter_context(closing(open_database(path)))
            with translating(path):
                writer.execute("BEGIN IMMEDIATE")
        found = []
        for path in paths:
            reader = stack.enter_context(closing(open_database(path, read_only=True)))
            with translating(path):
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
            found.append((path, reader))
    return found


def _state(folder: Path, name: str) -> SchemaState:
    path, names = folder / f"{name}.db", tuple(SCHEMAS[name])
    number = 0
    with translating(path):
        if path.exists():
            with closing(open_database(path, read_only=True)) as connection:
                number = int(connection.execute("PRAGMA user_version").fetchone()[0])
    return SchemaState(name=name, number=number, newest=len(names), pending=names[number:])
