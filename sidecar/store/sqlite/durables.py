"""Durable calls in ledger.db.

**Rules**
1. Every change is a compare-and-set on the state, and on who holds the lease.
"""

import sqlite3

from sidecar.store.durable import (
    Attempted,
    Disposal,
    DurableCall,
    DurableQuery,
    Lease,
)
from sidecar.store.ledger import Scope
from sidecar.store.sealing import DurableRow, durable_row

_COLUMNS = (
    "durable_id, project, principal, tool, key_hash, fingerprint, state, attempts, due_at_ns,"
    " ends_at_ns, created_at_ns, updated_at_ns, code, owner, lease_until_ns, request"
)


def add(connection: sqlite3.Connection, call: DurableCall, sealed: bytes) -> bool:
    """Take a call on; False when there is one with its key."""
    done = connection.execute(
        f"INSERT INTO durable ({_COLUMNS}) VALUES"  # noqa: S608
        " (?, ?, ?, ?, ?, ?, 'waiting', 0, ?, ?, ?, ?,"
        " NULL, NULL, 0, ?) ON CONFLICT DO NOTHING",
        (
            *(call.durable_id, call.project, call.principal, call.tool, call.key_hash),
            *(call.fingerprint, call.due_at_ns, call.ends_at_ns, call.created_at_ns),
            *(call.updated_at_ns, sealed),
        ),
    )
    return done.rowcount > 0


def find(connection: sqlite3.Connection, project: str | None, durable_id: str) -> DurableRow | None:
    """One durable call with its sealed request."""
    rows = _select(
        connection,
        "WHERE durable_id = ?1 AND (?2 IS NULL OR project = ?2)",
        durable_id,
        project,
    )
    return rows[0] if rows else None


def find_of(connection: sqlite3.Connection, scope: Scope) -> DurableRow | None:
    """The durable call of a key."""
    rows = _select(
        connection,
        "WHERE project = ?1 AND principal = ?2 AND tool = ?3 AND key_hash = ?4",
        *(scope.project, scope.principal, scope.tool, scope.key_hash),
    )
    return rows[0] if rows else None


def due(connection: sqlite3.Connection, now_ns: int, limit: int) -> list[DurableRow]:
    """Waiting calls whose time has come, the longest due first."""
    return _select(
        connection,
        "WHERE state = 'waiting' AND due_at_ns <= ?1 ORDER BY due_at_ns LIMIT ?2",
        *(now_ns, limit),
    )


def newest(connection: sqlite3.Connection, query: DurableQuery) -> list[DurableRow]:
    """Durable calls that match, newest first."""
    return _select(
        connection,
        "WHERE (?1 IS NULL OR project = ?1) AND (?2 IS NULL OR state = ?2)"
        " ORDER BY created_at_ns DESC, durable_id DESC LIMIT ?3",
        *(query.project, query.state, query.limit),
    )


def lease(connection: sqlite3.Connection, wanted: Lease) -> bool:
    """Take the lease of a row that has not moved since it was seen."""
    seen = wanted.seen
    done = connection.execute(
        "UPDATE durable SET owner = ?, lease_until_ns = ? WHERE durable_id = ?"
        " AND state = 'waiting' AND attempts = ? AND updated_at_ns = ?"
        " AND owner IS ? AND lease_until_ns = ?",
        (
            *(wanted.owner, wanted.until_ns, seen.durable_id, seen.attempts),
            *(seen.updated_at_ns, seen.owner, seen.lease_until_ns),
        ),
    )
    return done.rowcount > 0


def end(connection: sqlite3.Connection, ended: Attempted) -> bool:
    """What came of an attempt; False when the lease is another's."""
    kept = ended.state in ("waiting", "dead")
    done = connection.execute(
        "UPDATE durable SET state = ?, attempts = ?, due_at_ns = ?, code = ?,"
        " updated_at_ns = ?, owner = NULL, lease_until_ns = 0,"
        " request = CASE WHEN ? THEN request END"
        " WHERE durable_id = ? AND owner = ? AND state = 'waiting'",
        (
            *(ended.state, ended.attempts, ended.due_at_ns, ended.code, ended.now_ns),
            *(kept, ended.call.durable_id, ended.owner),
        ),
    )
    return done.rowcount > 0


def dispose(connection: sqlite3.Connection, disposal: Disposal) -> bool:
    """Put a dead letter back or away for good, or what waits and is not being made away; False when
    it is neither."""
    again = disposal.action == "requeue"
    done = connection.execute(
        "UPDATE durable SET state = ?, attempts = 0, due_at_ns = ?, ends_at_ns = ?,"
        " updated_at_ns = ?, owner = NULL, lease_until_ns = 0,"
        " request = CASE WHEN ? THEN request END"
        " WHERE durable_id = ? AND project = ?"
        " AND (state = 'dead' OR (NOT ? AND state = 'waiting' AND owner IS NULL))",
        (
            *("waiting" if again else "discarded", disposal.due_at_ns, disposal.ends_at_ns),
            *(disposal.due_at_ns, again, disposal.durable_id, disposal.project, again),
        ),
    )
    return done.rowcount > 0


def prune(connection: sqlite3.Connection, before_ns: int, limit: int) -> int:
    """Delete calls that were done or discarded before then, some at a time; how many."""
    done = connection.execute(
        "DELETE FROM durable WHERE durable_id IN (SELECT durable_id FROM durable"
        " WHERE state IN ('done', 'discarded') AND updated_at_ns <= ? LIMIT ?)",
        (before_ns, limit),
    )
    return done.rowcount


def _select(connection: sqlite3.Connection, where: str, *values: object) -> list[DurableRow]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM durable {where}",  # noqa: S608
        values,
    ).fetchall()
    return [durable_row(row) for row in rows]
