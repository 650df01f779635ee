"""Opening SQLite databases the one way this product uses them.

Rules
1. WAL, ``synchronous=FULL``: an acknowledged commit survives power loss.
2. Every failure of the disk or of a lock becomes StoreUnavailable with its file and a remedy.
3. Schema changes are numbered scripts, run in order inside one transaction, recorded in
   ``user_version``.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sidecar.errors import NoStore, StoreUnavailable

BUSY_TIMEOUT_MS = 10_000
MEMORY = ":memory:"
_LOG_BYTES_KEPT = 64 * 1024**2


@contextmanager
def translating(path: Path | str) -> Iterator[None]:
    """Map sqlite3's and the file system's errors about ``path`` to StoreUnavailable."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, error) from error


def unusable(path: Path | str, error: Exception) -> StoreUnavailable:
    """What an error of sqlite3 or the file system means."""
    return StoreUnavailable(
        f"the store cannot be used: {error}",
        where=str(path),
        do="Check that the folder exists, is writable and has free space.",
    )


def open_database(
    path: Path | str, *, read_only: bool = False, page_bytes: int | None = None
) -> sqlite3.Connection:
    """A connection in autocommit mode with WAL and full durability.

    ``:memory:`` is a database of this connection alone, ``:memory:NAME`` one that all connections
    of this process share, for as long as there is one.
    ``page_bytes`` is the page size of a database made anew; an existing one keeps its own.
    """
    with translating(path):
        if str(path).startswith(MEMORY):
            name = str(path).removeprefix(MEMORY)
            connection = sqlite3.connect(
                f"file:/{name}?vfs=memdb" if name else MEMORY,
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
        else:
            file = Path(path)
            if read_only and not file.exists():
                raise NoStore(
                    "there is no store", where=str(file), do="Name the folder with --store."
                )
            if not read_only:
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                _make(file)
            connection = sqlite3.connect(
                f"file:{quote(os.fsencode(file))}?mode={'ro' if read_only else 'rw'}",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
                timeout=BUSY_TIMEOUT_MS / 1000,
            )
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        if not read_only:
            if page_bytes is not None:
                connection.execute(f"PRAGMA page_size={page_bytes}")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            # One large transaction must not leave a log of its size for good.
            connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES_KEPT}")
        connection.execute("PRAGMA foreign_keys=ON")
        # The log and its index are opened with the first read, and belong to the connection from
        # then on: until then another one that closes may still delete them (see ``presence``).
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        return connection


def _make(file: Path) -> None:
    """Make the file with its mode, where there is none.

    One that is there must not be opened and closed besides SQLite: closing any descriptor of a file
    gives up all locks of the process on it (POSIX), and another process that then closes its own
    connection would delete the log this one commits to (https://sqlite.org/howtocorrupt.html).
    """
    if file.exists():
        return
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass  # another process was faster


def migrate(connection: sqlite3.Connection, scripts: Sequence[str], path: Path | str) -> None:
    """Bring the schema up to ``len(scripts)``; a newer one than this is refused."""
    with translating(path):
        if _version(connection, len(scripts), path) == len(scripts):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again: another process, of a newer program perhaps, may have been faster.
            version = _version(connection, len(scripts), path)
            for script in scripts[version:]:
                for statement in statements(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version={len(scripts)}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _version(connection: sqlite3.Connection, known: int, path: Path | str) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > known:
        raise StoreUnavailable(
            f"the store has schema {version}, this program knows {known}",
            where=str(path),
            do="Use the program version that wrote it, or a newer one.",
        )
    return int(version)


def statements(script: str) -> Iterator[str]:
    """The complete SQL statements of a script, in order."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            if pending.strip():
                yield pending
            pending = ""
    if pending.strip():
        raise ValueError(f"unfinished SQL statement: {pending.strip()[:80]}")
