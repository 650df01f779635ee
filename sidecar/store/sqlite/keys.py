"""API keys, wrapped data keys and keys of redaction's digests in ledger.db.

Rules
1. A lookup sees every committed change at once: a revoked key is refused on the next request. What
   was found is kept only while SQLite says that nobody has committed (``PRAGMA data_version``; it
   does not tell of this connection's own commits, which forget what was kept themselves).
2. A project's first data key is made once, whichever process asks first; so is its first redaction
   key. Later data keys are numbered from 1.
3. What is deleted here is overwritten: a key that is gone is gone from the file.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from processors.model.principal import StoredKey
from sidecar.store.redaction import SealedRedactionKey
from sidecar.store.sealing import SealedKey
from sidecar.store.sqlite.connection import migrate, open_database, translating
from sidecar.store.sqlite.presence import Presence
from sidecar.store.sqlite.scripts import LEDGER, scripts

_COLUMNS = (
    "key_id, kind, project, name, secret_sha256, created_at_ns, revoked_at_ns, role, organisation,"
    " tools, expires_at_ns, previous_sha256, previous_until_ns, owner,"
    " on_behalf_of"
)

_FIND = f"SELECT {_COLUMNS} FROM api_key WHERE key_id = ?"  # noqa: S608
_KEPT_MAX = 4096

_NEWEST = (
    "SELECT number, wrapped FROM later_data_key WHERE project = ?"
    " UNION ALL SELECT 0, wrapped FROM data_key WHERE project = ? ORDER BY 1 DESC LIMIT 1"
)
_REDACTION_COLUMNS = "project, key_id, sealed, created_at_ns, retires_at_ns"
_ADD_REDACTION_KEY = f"INSERT INTO redaction_key ({_REDACTION_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608


class SqliteKeys:
    """Keys over one connection of its own; calls are short and may come from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_database(path)
        migrate(self._connection, scripts(LEDGER), path)
        self._connection.execute("PRAGMA secure_delete=ON")
        self._presence = Presence(path)
        self._lock = threading.Lock()
        self._kept: dict[str, StoredKey] = {}
        self._kept_at = -1

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        connection = self._connection
        with self._lock, translating(self._path):
            self._presence.check()  # a key revoked in the file that lies there now is revoked
            # Asked before the row is read: a commit between the two is seen the next time.
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != self._kept_at:
                self._kept.clear()
                self._kept_at = version
            found = self._kept.get(key_id)
            if found is None:
                row = connection.execute(_FIND, (key_id,)).fetchone()
                if row is None:
                    return None
                if len(self._kept) >= _KEPT_MAX:
                    self._kept.clear()
                found = self._kept[key_id] = _key(row)
            return found

    def list_keys(self, project: str | None = None) -> list[StoredKey]:
        """All keys, oldest first, of one project or of all."""
        return self._rows(
            f"SELECT {_COLUMNS} FROM api_key WHERE ? IS NULL OR project = ? ORDER BY created_at_ns",  # noqa: S608
            (project, project),
        )

    def add_key(self, key: StoredKey) -> None:
        """Store a new key."""
        self._write(
            f"INSERT INTO api_key ({_COLUMNS})"  # noqa: S608
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(key.key_id, key.kind, key.project, key.name, key.secret_sha256),
                *(key.created_at_ns, key.revoked_at_ns, key.role, key.organisation),
                *(",".join(key.tools), key.expires_at_ns),
                *(key.previous_sha256, key.previous_until_ns, key.owner, key.on_behalf_of),
            ),
        )

    def rotate_key(self, key_id: str, secret_sha256: str, previous_until_ns: int) -> bool:
        """Give a key a new secret; the one it had opens until then, the one before no more.

        False when there is no such key, or it is revoked.
        """
        return self._write(
            "UPDATE api_key SET previous_sha256 = secret_sha256, previous_until_ns = ?,"
            " secret_sha256 = ? WHERE key_id = ? AND revoked_at_ns IS NULL",
            (previous_until_ns, secret_sha256, key_id),
        )

    def revoke_key(self, key_id: str, now_ns: int) -> bool:
        """Revoke a key; False when there is none, True also when it was revoked before."""
        return self._write(
            "UPDATE api_key SET revoked_at_ns = coalesce(revoked_at_ns, ?) WHERE key_id = ?",
            (now_ns, key_id),
        )

    def newest_data_key(self, project: str, make: Callable[[], bytes]) -> tuple[int, bytes]:
        """Number and wrapped key of the newest; ``make`` gives the first when there is none."""
        with self._lock, translating(self._path):
            row = self._connection.execute(_NEWEST, (project, project)).fetchone()
            if row is None:
                self._connection.execute(
                    "INSERT INTO data_key (project, wrapped) VALUES (?, ?) ON CONFLICT DO NOTHING",
                    (project, make()),
                )
                row = self._connection.execute(_NEWEST, (project, project)).fetchone()
        return int(row[0]), row[1]

    def numbered_data_key(self, project: str, number: int) -> bytes | None:
        """One wrapped key."""
        with self._lock, translating(self._path):
            row = self._connection.execute(
                "SELECT wrapped FROM data_key WHERE project = ?1 AND ?2 = 0"
                " UNION ALL SELECT wrapped FROM later_data_key WHERE project = ?1 AND number = ?2",
                (project, number),
            ).fetchone()
        return row[0] if row else None

    def add_data_key(self, project: str, make: Callable[[int], bytes], now_ns: int) -> int:
        """Store what ``make`` wraps under the next number; that number."""
        with self._transaction() as connection:
            (last,) = connection.execute(
                "SELECT coalesce(max(number), 0) FROM later_data_key WHERE project = ?", (project,)
            ).fetchone()
            number = int(last) + 1
            connection.execute(
                "INSERT INTO later_data_key VALUES (?, ?, ?, ?)",
                (project, number, make(number), now_ns),
            )
        return number

    def redaction_keys(self, project: str) -> list[SealedRedactionKey]:
        """All keys of a project's digests, the one in use first, then the newest."""
        with self._lock, translating(self._path):
            return _redaction_keys(self._connection, project)

    def find_or_add_redaction_key(
        self, project: str, make: Callable[[], SealedRedactionKey]
    ) -> SealedRedactionKey:
        """The key in use, made when there is none yet."""
        found = self.redaction_keys(project)
        if found and found[0].retires_at_ns is None:
            return found[0]
        made = make()
        with self._transaction() as connection:
            connection.execute(
                f"{_ADD_REDACTION_KEY} ON CONFLICT DO NOTHING", msgspec.structs.astuple(made)
            )
            return _redaction_keys(connection, project)[0]

    def replace_redaction_key(self, new: SealedRedactionKey, retires_at_ns: int) -> None:
        """Put a new key in use; the one that was retires then. Those retired before are deleted."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM redaction_key WHERE retires_at_ns <= ?", (new.created_at_ns,)
            )
            connection.execute(
                "UPDATE redaction_key SET retires_at_ns = ?"
                " WHERE project = ? AND retires_at_ns IS NULL",
                (retires_at_ns, new.project),
            )
            connection.execute(_ADD_REDACTION_KEY, msgspec.structs.astuple(new))

    def drop_retired_redaction_keys(self, now_ns: int) -> int:
        """Delete the keys whose time is over; how many."""
        with self._transaction() as connection:
            return connection.execute(
                "DELETE FROM redaction_key WHERE retires_at_ns <= ?", (now_ns,)
            ).rowcount

    def add_signing_key(self, key: SealedKey, signs_from_ns: int) -> bool:
        """Make a signing key known that signs from then on; False where there is none to follow."""
        return self._write(
            "INSERT INTO signing_key (kid, public, sealed, created_at_ns, signs_from_ns)"
            " SELECT ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM signing_key)",
            (key.kid, key.public, key.sealed, key.created_at_ns, signs_from_ns),
        )

    def revoke_signing_key(self, kid: str, now_ns: int, settled_ns: int) -> bool:
        """Revoke a signing key that another, not revoked, has followed at ``settled_ns``.

        False where there is none such, or it was revoked before.
        """
        return self._write(
            "UPDATE signing_key SET revoked_at_ns = ?1 WHERE kid = ?2 AND revoked_at_ns IS NULL"
            " AND EXISTS (SELECT 1 FROM signing_key later WHERE later.revoked_at_ns IS NULL"
            " AND later.signs_from_ns > signing_key.signs_from_ns AND later.signs_from_ns <= ?3)",
            (now_ns, kid, settled_ns),
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        with self._lock, translating(self._path):
            self._kept.clear()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _rows(self, query: str, values: tuple[object, ...]) -> list[StoredKey]:
        with self._lock, translating(self._path):
            self._presence.check()
            return [_key(row) for row in self._connection.execute(query, values)]

    def _write(self, query: str, values: tuple[object, ...]) -> bool:
        with self._lock, translating(self._path):
            self._kept.clear()
            cursor: sqlite3.Cursor = self._connection.execute(query, values)
            return cursor.rowcount > 0


def _key(row: tuple[Any, ...]) -> StoredKey:
    return StoredKey(
        key_id=row[0],
        kind=row[1],
        project=row[2],
        name=row[3],
        secret_sha256=row[4],
        created_at_ns=row[5],
        revoked_at_ns=row[6],
        role=row[7],
        organisation=row[8],
        tools=tuple(row[9].split(",")) if row[9] else (),
        expires_at_ns=row[10],
        previous_sha256=row[11],
        previous_until_ns=row[12],
        owner=row[13],
        on_behalf_of=row[14],
    )


def _redaction_keys(connection: sqlite3.Connection, project: str) -> list[SealedRedactionKey]:
    rows = connection.execute(
        f"SELECT {_REDACTION_COLUMNS} FROM redaction_key WHERE project = ?"  # noqa: S608
        " ORDER BY retires_at_ns IS NOT NULL, created_at_ns DESC",
        (project,),
    )
    return [
        SealedRedactionKey(
            project=row[0],
            key_id=row[1],
            sealed=row[2],
            created_at_ns=row[3],
            retires_at_ns=row[4],
        )
        for row in rows
    ]
