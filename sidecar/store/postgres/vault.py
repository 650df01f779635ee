"""Signing keys and named state of the gateway on Postgres.

**Rules**
1. Private keys and secrets are stored sealed; public keys in the clear, so that anybody can verify.
2. Whichever process asks first makes the key; which signs is ``store.signing``'s rule.
"""

from sidecar.store.postgres.chain import Turn
from sidecar.store.postgres.connection import Connection
from sidecar.store.sealing import SealedKey
from sidecar.store.signing import KnownKey


async def find_or_add_key(turn: Turn, made: SealedKey) -> SealedKey:
    """The key that signs when ``made`` was made, ``made`` if there is none."""
    row = await turn.connection.fetchrow(
        "SELECT kid, public, sealed, created_at_ns FROM signing_key"
        " WHERE revoked_at_ns IS NULL AND signs_from_ns <= $1"
        " ORDER BY signs_from_ns DESC, created_at_ns DESC LIMIT 1",
        made.created_at_ns,
    )
    if row is not None:
        return SealedKey(**dict(row))
    await turn.connection.execute(
        "INSERT INTO signing_key (kid, public, sealed, created_at_ns) VALUES ($1, $2, $3, $4)",
        *(made.kid, made.public, made.sealed, made.created_at_ns),
    )
    return made


async def public_keys(connection: Connection) -> dict[str, bytes]:
    """Every key's public half by key id."""
    return {row[0]: row[1] for row in await connection.fetch("SELECT kid, public FROM signing_key")}


async def signing_keys(connection: Connection) -> list[KnownKey]:
    """Every key, the newest first."""
    rows = await connection.fetch(
        "SELECT kid, public, created_at_ns, signs_from_ns, revoked_at_ns FROM signing_key"
        " ORDER BY signs_from_ns DESC, created_at_ns DESC"
    )
    return [KnownKey(**dict(row)) for row in rows]


async def get_state(connection: Connection, name: str) -> bytes | None:
    """A named value."""
    value: bytes | None = await connection.fetchval(
        "SELECT value FROM gateway_state WHERE name = $1", name
    )
    return value


async def hold_state(connection: Connection, name: str) -> bytes | None:
    """A named value that no other transaction changes until this one ends."""
    value: bytes | None = await connection.fetchval(
        "SELECT value FROM gateway_state WHERE name = $1 FOR UPDATE", name
    )
    return value


async def set_state(turn: Turn, name: str, value: bytes) -> bool:
    """Set a named value; False when it was that already."""
    if await get_state(turn.connection, name) == value:
        return False
    await turn.connection.execute(
        "INSERT INTO gateway_state (name, value) VALUES ($1, $2)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        *(name, value),
    )
    return True


async def find_or_add_state(turn: Turn, name: str, made: bytes) -> bytes:
    """A named value, ``made`` if there was none."""
    found = await get_state(turn.connection, name)
    if found is None:
        await set_state(turn, name, made)
    return made if found is None else found
