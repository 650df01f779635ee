"""States of the approval pages on Postgres."""

from sidecar.store.pages import PageRow
from sidecar.store.postgres.connection import Connection

_COLUMNS = "digest, kind, owner, sealed, used_at_ns, expires_at_ns"


async def keep(connection: Connection, row: tuple[object, ...], now_ns: int, most: int) -> None:
    """Add a state; those that ran out go, and the least lately used of its kind beyond ``most``."""
    await connection.execute("DELETE FROM page_state WHERE expires_at_ns <= $1", now_ns)
    await connection.execute(
        f"INSERT INTO page_state ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)",  # noqa: S608
        *row,
    )
    await connection.execute(
        "DELETE FROM page_state WHERE digest IN (SELECT digest FROM page_state WHERE kind = $1"
        " ORDER BY used_at_ns DESC, digest = $3 DESC OFFSET $2)",
        *(row[1], most, row[0]),
    )


async def find(connection: Connection, kind: str, digest: str, now_ns: int) -> PageRow | None:
    """A state that has not run out."""
    row = await connection.fetchrow(
        "SELECT owner, sealed, used_at_ns, expires_at_ns FROM page_state"
        " WHERE digest = $1 AND kind = $2 AND expires_at_ns > $3",
        *(digest, kind, now_ns),
    )
    return None if row is None else tuple(row)


async def use(connection: Connection, digest: str, now_ns: int, expires_at_ns: int) -> None:
    """Note that a state is used; it runs out later, never one that is gone."""
    await connection.execute(
        "UPDATE page_state SET used_at_ns = $1, expires_at_ns = $2"
        " WHERE digest = $3 AND expires_at_ns > $1",
        *(now_ns, expires_at_ns, digest),
    )


async def take(connection: Connection, kind: str, digest: str, now_ns: int) -> PageRow | None:
    """A state that has not run out, which is gone from then on."""
    row = await connection.fetchrow(
        "DELETE FROM page_state WHERE digest = $1 AND kind = $2"
        " RETURNING owner, sealed, used_at_ns, expires_at_ns",
        *(digest, kind),
    )
    return tuple(row) if row is not None and row["expires_at_ns"] > now_ns else None


async def drop(connection: Connection, digest: str, owner: str) -> None:
    """Drop a state, and all of an owner where one is named."""
    await connection.execute(
        "DELETE FROM page_state WHERE digest = $1 OR ($2 != '' AND owner = $2)", digest, owner
    )
