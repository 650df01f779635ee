"""Signing keys and named state of the gateway in ledger.db.

**Rules**
1. Private keys and secrets are stored sealed; public keys in the clear, so that anybody can verify.
2. Whichever process asks first makes the key; all use the newest.
"""

import sqlite3

from sidecar.store.sealing import SealedKey


def find_or_add_key(connection: sqlite3.Connection, made: SealedKey) -> SealedKey:
    """The newest key, ``made`` if there was none."""
    row = connection.execute(
        "SELECT kid, public, sealed, created_at_ns FROM signing_key"
        " ORDER BY created_at_ns DESC, kid LIMIT 1"
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
