"""Whose claims are whose, among many sidecars on one database.

**Rules**
1. An owner's process holds the lock of its name with a connection of its own (``presence``); the
   server lets go of it at the process's death.
2. A lock that is free is no death yet: the server may have restarted, or the network dropped a
   connection, and a living owner takes its lock again within moments. It is dead when the lock was
   found free twice, ``GRACE_SECONDS`` apart by the server's clock. Until then its claims are its
   own; whoever is wrong about that is kept from sending by the fence.
3. Who closes takes its name away: then it is dead as soon as its lock is free. So does, for the
   one before it, who starts in the same data folder: there the kernel tells that its process has
   ended (``owners.files``), however it did.
"""

from sidecar.store.postgres.connection import Connection
from sidecar.store.postgres.presence import holders

GRACE_SECONDS = 10.0


def lock_name(owner: str) -> str:
    """The name of an owner's lock."""
    return f"owner {owner}"


async def register(connection: Connection, owner: str) -> None:
    """This owner is known from now on, and was not missed."""
    await connection.execute(
        "INSERT INTO owner (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET missed_at = NULL",
        owner,
    )


async def remove(connection: Connection, owners: list[str]) -> None:
    """These owners have gone."""
    await connection.execute("DELETE FROM owner WHERE name = ANY($1)", owners)


async def dead_among(
    connection: Connection, schema: str, owners: list[str], grace_seconds: float
) -> set[str]:
    """Which of the owners are dead; who is missed for the first time is noted down."""
    if not owners:
        return set()
    named = {lock_name(owner): owner for owner in owners}
    held = {named[name] for name in await holders(connection, schema, list(named))}
    if held:
        await connection.execute(
            "UPDATE owner SET missed_at = NULL WHERE name = ANY($1) AND missed_at IS NOT NULL",
            list(held),
        )
    missing = [owner for owner in owners if owner not in held]
    if not missing:
        return set()
    rows = await connection.fetch(
        "UPDATE owner SET missed_at = coalesce(missed_at, clock_timestamp()) WHERE name = ANY($1)"
        " RETURNING name, clock_timestamp() - missed_at >= make_interval(secs => $2) AS gone",
        *(missing, grace_seconds),
    )
    spared = {row["name"] for row in rows if not row["gone"]}
    dead = {owner for owner in missing if owner not in spared}
    await connection.execute("DELETE FROM owner WHERE name = ANY($1)", list(dead))
    return dead
