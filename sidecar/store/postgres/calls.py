"""Calls and receipts on Postgres: one row a call, its receipts in the audit chain.

**Rules**
1. A receipt stands in the chain; its row here only says where.
2. Arguments come and go sealed (``store.sealing``).
"""

import json

from processors.model.call import Receipt
from sidecar.store.ledger import CallQuery, CallRow, Counted, OpenedCall
from sidecar.store.postgres import chain
from sidecar.store.postgres.chain import Turn
from sidecar.store.postgres.connection import Connection
from sidecar.store.postgres.query import where
from sidecar.store.receipts import from_document, text
from sidecar.store.sealing import FactRow, OpenedRow, opened_by

_SHORT = (
    "call.call_id, call.project, call.principal, call.tool, call.class AS class_, call.phase,"
    " call.status, call.effect, call.decision_effect, call.code, call.approval_id, call.trace_id,"
    " call.started_at_ns, call.finished_at_ns, claim.state"
)
# One statement for all a receipt leaves: its entry, where it stands, and the call in short.
_WRITE = (
    f"WITH entry AS ({chain.INSERT}),"  # noqa: S608
    " stands AS (INSERT INTO receipt (receipt_id, call_id, seq) VALUES ($8, $9, $1))"
    " INSERT INTO call (call_id, project, principal, tool, class, phase, status, effect,"
    " decision_effect, code, approval_id, trace_id, started_at_ns, finished_at_ns, arguments)"
    " VALUES ($9, $3, $10, $11, $12, $4, $13, $14, $15, $16, $17, $18, $19, $20, $21)"
    " ON CONFLICT (call_id) DO UPDATE SET phase = excluded.phase, status = excluded.status,"
    " effect = excluded.effect, decision_effect = excluded.decision_effect,"
    " code = excluded.code, approval_id = excluded.approval_id,"
    " finished_at_ns = excluded.finished_at_ns"
)


async def write(
    turn: Turn, call: OpenedCall, receipt: Receipt, sealed: bytes | None, now_ns: int
) -> None:
    """Append a receipt to the chain; keep where it stands, and its call in short."""
    body = f'{{"receipt":{text(receipt)}}}'
    entry = turn.entry(
        at_ns=now_ns, project=call.project, kind=receipt.phase, body=body, kid=receipt.kid
    )
    await turn.connection.execute(
        _WRITE,
        *chain.values(entry),
        *(receipt.receipt_id, call.call_id, call.principal, call.tool, call.class_),
        *(receipt.status, receipt.effect, receipt.decision_effect, receipt.code),
        *(receipt.approval_id, call.trace_id, call.started_at_ns, receipt.finished_at_ns),
        sealed,
    )


async def has_receipt(connection: Connection, receipt_id: str) -> bool:
    """Whether a receipt stands in the chain."""
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM receipt WHERE receipt_id = $1)", receipt_id
    )
    return found


async def list_newest(connection: Connection, query: CallQuery) -> list[CallRow]:
    """Calls that match, newest first, without their receipts' ids."""
    clause, values = where(
        {
            "call.project = {}": query.project,
            "call.tool = {}": query.tool,
            "call.trace_id = {}": query.trace_id,
            "claim.state = {}": query.state,
            "(call.started_at_ns, call.call_id) < ({}, {})": query.after,
        }
    )
    rows = await connection.fetch(
        f"SELECT {_SHORT} FROM call LEFT JOIN claim USING (call_id) {clause}"  # noqa: S608
        f" ORDER BY call.started_at_ns DESC, call.call_id DESC LIMIT ${len(values) + 1}",
        *(*values, query.limit),
    )
    return [CallRow(**dict(row)) for row in rows]


async def find(connection: Connection, project: str | None, call_id: str) -> CallRow | None:
    """One call with its receipts' ids."""
    row = await connection.fetchrow(
        f"SELECT {_SHORT}, ARRAY(SELECT receipt_id FROM receipt"  # noqa: S608
        " WHERE receipt.call_id = call.call_id ORDER BY seq) AS receipts"
        " FROM call LEFT JOIN claim USING (call_id)"
        " WHERE call.call_id = $1 AND ($2::text IS NULL OR call.project = $2)",
        *(call_id, project),
    )
    if row is None:
        return None
    return CallRow(**{**dict(row), "receipts": tuple(row["receipts"])})


async def find_receipt(
    connection: Connection, project: str | None, receipt_id: str
) -> Receipt | None:
    """One receipt, read from the chain."""
    body: str | None = await connection.fetchval(
        "SELECT audit.body FROM receipt JOIN audit USING (seq)"
        " WHERE receipt_id = $1 AND ($2::text IS NULL OR audit.project = $2)",
        *(receipt_id, project),
    )
    return from_document(json.loads(body)["receipt"]) if body is not None else None


async def prior_tools(connection: Connection, call: OpenedCall) -> tuple[str, ...]:
    """Tools whose calls by this principal in this trace had their effect, the newest hundred."""
    if call.trace_id is None:
        return ()
    rows = await connection.fetch(
        "SELECT tool FROM call WHERE trace_id = $1 AND project = $2 AND principal = $3"
        " AND phase = 'executed' AND effect = 'confirmed' ORDER BY started_at_ns DESC LIMIT 100",
        *(call.trace_id, call.project, call.principal),
    )
    return tuple(row[0] for row in reversed(rows))


_COUNTED = (
    "SELECT tool, class AS class_,"
    " count(*) FILTER (WHERE phase IN ('authorised', 'executed') AND effect <> 'not_executed')"
    " AS made, count(*) FILTER (WHERE phase = 'refused') AS refused"
    " FROM call WHERE {} AND project = $1 AND principal = $2"
    " GROUP BY tool, class ORDER BY tool, class"
)


async def counted(
    connection: Connection, call: OpenedCall, since_ns: int, traceless: bool
) -> list[Counted]:
    """How many calls of each tool this principal made since then; ``traceless``: without a
    trace."""
    rows = await connection.fetch(
        _COUNTED.format("started_at_ns > $3 AND (NOT $4 OR trace_id IS NULL)"),
        *(call.project, call.principal, since_ns, traceless),
    )
    return [Counted(**dict(row)) for row in rows]


async def counted_in_session(connection: Connection, call: OpenedCall) -> list[Counted]:
    """How many calls of each tool this principal made in this trace."""
    rows = await connection.fetch(
        _COUNTED.format("trace_id = $3"), *(call.project, call.principal, call.trace_id)
    )
    return [Counted(**dict(row)) for row in rows]


async def find_opened(connection: Connection, call_id: str) -> OpenedRow | None:
    """A call as it was opened, with its sealed arguments; read from its first receipt."""
    row = await connection.fetchrow(
        "SELECT audit.body, call.arguments FROM call JOIN receipt USING (call_id)"
        " JOIN audit USING (seq) WHERE call_id = $1 ORDER BY seq LIMIT 1",
        call_id,
    )
    if row is None:
        return None
    return opened_by(row["body"]), row["arguments"]


async def facts_after(connection: Connection, after: int, limit: int) -> list[FactRow]:
    """Receipts that follow ``after`` in the chain, with sealed arguments.

    That a call will be made later is no fact of it: it has receipts when it is made.
    """
    rows = await connection.fetch(
        "SELECT audit.seq, audit.project, audit.body, call_id, call.arguments FROM audit"
        " JOIN receipt USING (seq) JOIN call USING (call_id)"
        " WHERE audit.seq > $1 AND audit.kind <> 'accepted' ORDER BY audit.seq LIMIT $2",
        *(after, limit),
    )
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]
