"""API keys and wrapped data keys in ledger.db.

Rules
1. A lookup sees every committed change at once: a revoked key is refused on the next request.
2. A project's data key is made once, whichever process asks first.
"""

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from processors.model.principal import KeyKind, StoredKey
from sidecar.store.sqlite.connection import migrate, open_database, translating
from sidecar.store.sqlite.scripts import LEDGER, scripts

_COLUMNS = "key_id, kind, project, name, secret_sha256, created_at_ns, revoked_at_ns"


class SqliteKeys:
    """Keys over one connection of its own; calls are short and may come from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_database(path)
        migrate(self._connection, scripts(LEDGER), path)
        self._lock = threading.Lock()

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM api_key WHERE key_id = ?", (key_id,))  # noqa: S608
        return rows[0] if rows else None

    def list_keys(self, project: str | None = None) -> list[StoredKey]:
        """All keys, oldest first, of one project or of all."""
        return self._rows(
            f"SELECT {_COLUMNS} FROM api_key WHERE ? IS NULL OR project = ? ORDER BY created_at_ns",  # noqa: S608
            (project, project),
        )

    def add_key(self, key: StoredKey) -> None:
        """Store a new key."""
        self._write(
            f"INSERT INTO api_key ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (
                *(key.key_id, key.kind, key.project, key.name, key.secret_sha256),
                *(key.created_at_ns, key.revoked_at_ns),
            ),
        )

    def revoke_key(self, key_id: str, now_ns: int) -> bool:
        """Revoke a key; False when there is none, True also when it was revoked before."""
        return self._write(
            "UPDATE api_key SET revoked_at_ns = coalesce(revoked_at_ns, ?) WHERE key_id = ?",
            (now_ns, key_id),
        )

    def wrapped_data_key(self, project: str, make: Callable[[], bytes]) -> bytes:
        """The project's wrapped data key; ``make`` gives a new one when there is none yet."""
        query = "SELECT wrapped FROM data_key WHERE project = ?"
        with self._lock, translating(self._path):
            row = self._connection.execute(query, (project,)).fetchone()
            if row is None:
                self._connection.execute(
                    "INSERT INTO data_key (project, wrapped) VALUES (?, ?) ON CONFLICT DO NOTHING",
                    (project, make()),
                )
                row = self._connection.execute(query, (project,)).fetchone()
        wrapped: bytes = row[0]
        return wrapped

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, query: str, values: tuple[object, ...]) -> list[StoredKey]:
        with self._lock, translating(self._path):
            return [_key(row) for row in self._connection.execute(query, values)]

    def _write(self, query: str, values: tuple[object, ...]) -> bool:
        with self._lock, translating(self._path):
            cursor: sqlite3.Cursor = self._connection.execute(query, values)
            return cursor.rowcount > 0


def _key(row: tuple[str, KeyKind, str, str, str, int, int | None]) -> StoredKey:
    return StoredKey(
        key_id=row[0],
        kind=row[1],
        project=row[2],
        name=row[3],
        secret_sha256=row[4],
        created_at_ns=row[5],
        revoked_at_ns=row[6],
    )
