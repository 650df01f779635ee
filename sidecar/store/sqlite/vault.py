"""Signing keys and named state of the gateway in ledger.db.

**Rules**
1. Private keys and secrets are stored sealed; public keys in the clear, so that anybody can verify.
2. Whichever process asks first makes the key; which signs is ``store.signing``'s rule.
"""

import sqlite3

from sidecar.store.sealing import SealedKey
from sidecar.store.signing import KnownKey


def find_or_add_key(connection: sqlite3.Connection, made: SealedKey) -> SealedKey:
    """The key that signs when ``made`` was made, ``made`` if there is none."""
    row = connection.execute(
        "SELECT kid, public, sealed, created_at_ns FROM signing_key"
        " WHERE revoked_at_ns IS NULL AND signs_from_ns <= ?"
        " ORDER BY signs_from_ns DESC, created_at_ns DESC LIMIT 1",
        (made.created_at_ns,),
    ).fetchone()
    if row is not None:
        return SealedKey(kid=row[0], public=row[1], sealed=row[2], created_at_ns=row[3])
    connection.execute(
        "INSERT INTO signing_key (kid, public, sealed, created_at_ns) VALUES (?, ?, ?, ?)",
        (made.kid, made.public, made.sealed, made.created_at_ns),
    )
    return made


def public_keys(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Every key's public half by key id."""
    return dict(connection.execute("SELECT kid, public FROM signing_key").fetchall())


def signing_keys(connection: sqlite3.Connection) -> list[KnownKey]:
    """Every key, the newest first."""
    rows = connection.execute(
        "SELECT kid, public, created_at_ns, signs_from_ns, revoked_at_ns FROM signing_key"
        " ORDER BY signs_from_ns DESC, created_at_ns DESC"
    )
    return [KnownKey(**dict(zip(KnownKey.__struct_fields__, row, strict=True))) for row in rows]


def revoked(connection: sqlite3.Connection) -> frozenset[str]:
    """The ids of revoked keys."""
    rows = connection.execute("SELECT kid FROM signing_key WHERE revoked_at_ns IS NOT NULL")
    return frozenset(row[0] for row in rows)


def get_state(connection: sqlite3.Connection, name: str) -> bytes | None:
    """A named value."""
    row = connection.execute("SELECT value FROM gateway_state WHERE name = ?", (name,)).fetchone()
    return bytes(row[0]) if row else None


def set_state(connection: sqlite3.Connection, name: str, value: bytes) -> bool:
    """Set a named value; False when it was that already."""
    if get_state(connection, name) == value:
        return False
    connection.execute(
        "INSERT OR REPLACE INTO gateway_state (name, value) VALUES (?, ?)", (name, value)
    )
    return True


def find_or_add_state(connection: sqlite3.Connection, name: str, made: bytes) -> bytes:
    """A named value, ``made`` if there was none."""
    found = get_state(connection, name)
    if found is None:
        set_state(connection, name, made)
    return made if found is None else found
