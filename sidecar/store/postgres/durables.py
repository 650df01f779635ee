"""Durable calls on Postgres.

**Rules**
1. Every change is a compare-and-set on the state, and on who holds the lease.
"""

from sidecar.store.durable import (
    Attempted,
    Disposal,
    DurableCall,
    DurableQuery,
    Lease,
)
from sidecar.store.ledger import Scope
from sidecar.store.postgres.connection import Connection
from sidecar.store.sealing import DurableRow, durable_row

_COLUMNS = (
    "durable_id, project, principal, tool, key_hash, fingerprint, state, attempts, due_at_ns,"
    " ends_at_ns, created_at_ns, updated_at_ns, code, owner, lease_until_ns, request"
)


async def add(connection: Connection, call: DurableCall, sealed: bytes) -> bool:
    """Take a call on; False when there is one with its key."""
    done = await connection.execute(
        f"INSERT INTO durable ({_COLUMNS}) VALUES"  # noqa: S608
        " ($1, $2, $3, $4, $5, $6, 'waiting', 0, $7, $8, $9, $10,"
        " NULL, NULL, 0, $11) ON CONFLICT DO NOTHING",
        *(
            *(call.durable_id, call.project, call.principal, call.tool, call.key_hash),
            *(call.fingerprint, call.due_at_ns, call.ends_at_ns, call.created_at_ns),
            *(call.updated_at_ns, sealed),
        ),
    )
    return not done.endswith(" 0")


async def find(connection: Connection, project: str | None, durable_id: str) -> DurableRow | None:
    """One durable call with its sealed request."""
    rows = await _select(
        connection,
        "WHERE durable_id = $1 AND ($2::text IS NULL OR project = $2)",
        durable_id,
        project,
    )
    return rows[0] if rows else None


async def find_of(connection: Connection, scope: Scope) -> DurableRow | None:
    """The durable call of a key."""
    rows = await _select(
        connection,
        "WHERE project = $1 AND principal = $2 AND tool = $3 AND key_hash = $4",
        *(scope.project, scope.principal, scope.tool, scope.key_hash),
    )
    return rows[0] if rows else None


async def due(connection: Connection, now_ns: int, limit: int) -> list[DurableRow]:
    """Waiting calls whose time has come, the longest due first."""
    return await _select(
        connection,
        "WHERE state = 'waiting' AND due_at_ns <= $1 ORDER BY due_at_ns LIMIT $2",
        *(now_ns, limit),
    )


async def newest(connection: Connection, query: DurableQuery) -> list[DurableRow]:
    """Durable calls that match, newest first."""
    return await _select(
        connection,
        "WHERE ($1::text IS NULL OR project = $1) AND ($2::text IS NULL OR state = $2)"
        " ORDER BY created_at_ns DESC, durable_id DESC LIMIT $3",
        *(query.project, query.state, query.limit),
    )


async def lease(connection: Connection, wanted: Lease) -> bool:
    """Take the lease of a row that has not moved since it was seen."""
    seen = wanted.seen
    done = await connection.execute(
        "UPDATE durable SET owner = $1, lease_until_ns = $2 WHERE durable_id = $3"
        " AND state = 'waiting' AND attempts = $4 AND updated_at_ns = $5"
        " AND owner IS NOT DISTINCT FROM $6::text AND lease_until_ns = $7",
        *(
            *(wanted.owner, wanted.until_ns, seen.durable_id, seen.attempts),
            *(seen.updated_at_ns, seen.owner, seen.lease_until_ns),
        ),
    )
    return not done.endswith(" 0")


async def end(connection: Connection, ended: Attempted) -> bool:
    """What came of an attempt; False when the lease is another's."""
    kept = ended.state in ("waiting", "dead")
    done = await connection.execute(
        "UPDATE durable SET state = $1, attempts = $2, due_at_ns = $3, code = $4,"
        " updated_at_ns = $5, owner = NULL, lease_until_ns = 0,"
        " request = CASE WHEN $6::boolean THEN request END"
        " WHERE durable_id = $7 AND owner = $8 AND state = 'waiting'",
        *(
            *(ended.state, ended.attempts, ended.due_at_ns, ended.code, ended.now_ns),
            *(kept, ended.call.durable_id, ended.owner),
        ),
    )
    return not done.endswith(" 0")


async def dispose(connection: Connection, disposal: Disposal) -> bool:
    """Put a dead letter back or away for good, or what waits and is not being made away; False when
    it is neither."""
    again = disposal.action == "requeue"
    done = await connection.execute(
        "UPDATE durable SET state = $1, attempts = 0, due_at_ns = $2, ends_at_ns = $3,"
        " updated_at_ns = $4, owner = NULL, lease_until_ns = 0,"
        " request = CASE WHEN $5::boolean THEN request END"
        " WHERE durable_id = $6 AND project = $7"
        " AND (state = 'dead' OR (NOT $5::boolean AND state = 'waiting' AND owner IS NULL))",
        *(
            *("waiting" if again else "discarded", disposal.due_at_ns, disposal.ends_at_ns),
            *(disposal.due_at_ns, again, disposal.durable_id, disposal.project),
        ),
    )
    return not done.endswith(" 0")


async def prune(connection: Connection, before_ns: int, limit: int) -> int:
    """Delete calls that were done or discarded before then, some at a time; how many."""
    done = await connection.execute(
        "DELETE FROM durable WHERE durable_id = ANY (ARRAY (SELECT durable_id FROM durable"
        " WHERE state IN ('done', 'discarded') AND updated_at_ns <= $1 LIMIT $2))",
        *(before_ns, limit),
    )
    return int(done.rpartition(" ")[2])


async def _select(connection: Connection, where: str, *values: object) -> list[DurableRow]:
    rows = await connection.fetch(
        f"SELECT {_COLUMNS} FROM durable {where}",  # noqa: S608
        *values,
    )
    return [durable_row(tuple(row)) for row in rows]
