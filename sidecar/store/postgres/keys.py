"""API keys, wrapped data keys and keys of redaction's digests on Postgres.

Rules
1. A lookup sees every committed change at once: a revoked key is refused on the next request. A
   revocation waits for its turn at the ledger, so that what is committed after it has seen it.
2. A project's first data key is made once, whichever process asks first; so is its first redaction
   key. Later data keys are numbered from 1.
3. Keys are sealed before they come here. What is deleted leaves the tables at once, and the files
   with the server's next vacuum.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from processors.model.principal import StoredKey
from sidecar.store.postgres import chain
from sidecar.store.postgres.connection import Connection, Database
from sidecar.store.postgres.text import storable
from sidecar.store.redaction import SealedRedactionKey
from sidecar.store.sealing import SealedKey

_COLUMNS = (
    "key_id, kind, project, name, secret_sha256, created_at_ns, revoked_at_ns, role, organisation,"
    " tools, expires_at_ns, previous_sha256, previous_until_ns, owner,"
    " on_behalf_of"
)
_NEWEST = "SELECT number, wrapped FROM data_key WHERE project = $1 ORDER BY number DESC LIMIT 1"
_REDACTION_COLUMNS = "project, key_id, sealed, created_at_ns, retires_at_ns"
_ADD_REDACTION_KEY = f"INSERT INTO redaction_key ({_REDACTION_COLUMNS}) VALUES ($1, $2, $3, $4, $5)"  # noqa: S608


class PostgresKeys:
    """Keys over a database with an up-to-date schema; calls are short, from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        if not storable(key_id):
            return None
        rows = self._rows("WHERE key_id = $1", key_id)
        return rows[0] if rows else None

    def list_keys(self, project: str | None = None) -> list[StoredKey]:
        """All keys, oldest first, of one project or of all."""
        if not storable(project):
            return []
        return self._rows(
            "WHERE $1::text IS NULL OR project = $1 ORDER BY created_at_ns, key_id", project
        )

    def add_key(self, key: StoredKey) -> None:
        """Store a new key."""
        self._write(
            f"INSERT INTO api_key ({_COLUMNS})"  # noqa: S608
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
            *(key.key_id, key.kind, key.project, key.name, key.secret_sha256),
            *(key.created_at_ns, key.revoked_at_ns, key.role, key.organisation),
            *(",".join(key.tools), key.expires_at_ns),
            *(key.previous_sha256, key.previous_until_ns, key.owner, key.on_behalf_of),
        )

    def rotate_key(self, key_id: str, secret_sha256: str, previous_until_ns: int) -> bool:
        """Give a key a new secret; the one it had opens until then, the one before no more.

        False when there is no such key, or it is revoked.
        """
        return storable(key_id) and self._write(
            "UPDATE api_key SET previous_sha256 = secret_sha256, previous_until_ns = $1,"
            " secret_sha256 = $2 WHERE key_id = $3 AND revoked_at_ns IS NULL",
            *(previous_until_ns, secret_sha256, key_id),
        )

    def revoke_key(self, key_id: str, now_ns: int) -> bool:
        """Revoke a key; False when there is none, True also when it was revoked before."""

        async def revoke(connection: Connection) -> str:
            await connection.execute(chain.LOCK)
            return await connection.execute(
                "UPDATE api_key SET revoked_at_ns = coalesce(revoked_at_ns, $1) WHERE key_id = $2",
                *(now_ns, key_id),
            )

        return storable(key_id) and _changed(self._database.transact_sync(revoke))

    def newest_data_key(self, project: str, make: Callable[[], bytes]) -> tuple[int, bytes]:
        """Number and wrapped key of the newest; ``make`` gives the first when there is none."""
        row = self._database.read_sync(lambda c: c.fetchrow(_NEWEST, project))
        if row is None:
            wrapped = make()
            self._write(
                "INSERT INTO data_key (project, number, wrapped) VALUES ($1, 0, $2)"
                " ON CONFLICT DO NOTHING",
                *(project, wrapped),
            )
            row = self._database.read_sync(lambda c: c.fetchrow(_NEWEST, project))
        assert row is not None
        return row["number"], row["wrapped"]

    def numbered_data_key(self, project: str, number: int) -> bytes | None:
        """One wrapped key."""
        found: bytes | None = self._database.read_sync(
            lambda c: c.fetchval(
                "SELECT wrapped FROM data_key WHERE project = $1 AND number = $2", project, number
            )
        )
        return found

    def add_data_key(self, project: str, make: Callable[[int], bytes], now_ns: int) -> int:
        """Store what ``make`` wraps under the next number; that number."""

        async def add(connection: Connection) -> int:
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended('agenttwin data key ' || $1, 0))",
                project,
            )
            number: int = await connection.fetchval(
                "SELECT coalesce(max(number), 0) + 1 FROM data_key WHERE project = $1", project
            )
            await connection.execute(
                "INSERT INTO data_key (project, number, wrapped, created_at_ns)"
                " VALUES ($1, $2, $3, $4)",
                *(project, number, make(number), now_ns),
            )
            return number

        return self._database.transact_sync(add)

    def redaction_keys(self, project: str) -> list[SealedRedactionKey]:
        """All keys of a project's digests, the one in use first, then the newest."""
        return self._database.read_sync(lambda c: _redaction_keys(c, project))

    def find_or_add_redaction_key(
        self, project: str, make: Callable[[], SealedRedactionKey]
    ) -> SealedRedactionKey:
        """The key in use, made when there is none yet."""
        found = self.redaction_keys(project)
        if found and found[0].retires_at_ns is None:
            return found[0]
        made = make()

        async def add(connection: Connection) -> SealedRedactionKey:
            await connection.execute(
                f"{_ADD_REDACTION_KEY} ON CONFLICT DO NOTHING", *msgspec.structs.astuple(made)
            )
            return (await _redaction_keys(connection, project))[0]

        return self._database.transact_sync(add)

    def replace_redaction_key(self, new: SealedRedactionKey, retires_at_ns: int) -> None:
        """Put a new key in use; the one that was retires then. Those retired before are deleted."""

        async def replace(connection: Connection) -> None:
            await connection.execute(
                "DELETE FROM redaction_key WHERE retires_at_ns <= $1", new.created_at_ns
            )
            await connection.execute(
                "UPDATE redaction_key SET retires_at_ns = $1"
                " WHERE project = $2 AND retires_at_ns IS NULL",
                *(retires_at_ns, new.project),
            )
            await connection.execute(_ADD_REDACTION_KEY, *msgspec.structs.astuple(new))

        self._database.transact_sync(replace)

    def drop_retired_redaction_keys(self, now_ns: int) -> int:
        """Delete the keys whose time is over; how many."""
        done = self._database.run_sync(
            lambda c: c.execute("DELETE FROM redaction_key WHERE retires_at_ns <= $1", now_ns)
        )
        return int(done.rpartition(" ")[2])

    def add_signing_key(self, key: SealedKey, signs_from_ns: int) -> bool:
        """Make a signing key known that signs from then on; False where there is none to follow."""
        return self._write(
            "INSERT INTO signing_key (kid, public, sealed, created_at_ns, signs_from_ns)"
            " SELECT $1, $2::bytea, $3::bytea, $4::bigint, $5::bigint"
            " WHERE EXISTS (SELECT FROM signing_key)",
            *(key.kid, key.public, key.sealed, key.created_at_ns, signs_from_ns),
        )

    def revoke_signing_key(self, kid: str, now_ns: int, settled_ns: int) -> bool:
        """Revoke a signing key that another, not revoked, has followed at ``settled_ns``.

        False where there is none such, or it was revoked before.
        """

        async def revoke(connection: Connection) -> str:
            await connection.execute(chain.LOCK)
            return await connection.execute(
                "UPDATE signing_key SET revoked_at_ns = $1 WHERE kid = $2 AND revoked_at_ns IS NULL"
                " AND EXISTS (SELECT FROM signing_key later WHERE later.revoked_at_ns IS NULL"
                " AND later.signs_from_ns > signing_key.signs_from_ns"
                " AND later.signs_from_ns <= $3)",
                *(now_ns, kid, settled_ns),
            )

        return storable(kid) and _changed(self._database.transact_sync(revoke))

    def close(self) -> None:
        """Let go. The database is its opener's."""

    def _rows(self, clause: str, value: object) -> list[StoredKey]:
        query = f"SELECT {_COLUMNS} FROM api_key {clause}"  # noqa: S608
        return [_key(row) for row in self._database.read_sync(lambda c: c.fetch(query, value))]

    def _write(self, query: str, *values: object) -> bool:
        return _changed(self._database.run_sync(lambda c: c.execute(query, *values)))


def _changed(status: str) -> bool:
    return not status.endswith(" 0")


def _key(row: Any) -> StoredKey:
    fields = dict(row)
    fields["tools"] = tuple(fields["tools"].split(",")) if fields["tools"] else ()
    return StoredKey(**fields)


async def _redaction_keys(connection: Connection, project: str) -> list[SealedRedactionKey]:
    rows = await connection.fetch(
        f"SELECT {_REDACTION_COLUMNS} FROM redaction_key WHERE project = $1"  # noqa: S608
        " ORDER BY retires_at_ns IS NOT NULL, created_at_ns DESC",
        project,
    )
    return [SealedRedactionKey(**dict(row)) for row in rows]
