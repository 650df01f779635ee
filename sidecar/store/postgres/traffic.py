"""What the ledger on Postgres keeps of one trace's calls: receipts with arguments, and answers.

**Rules**
1. Both stay inside one project, whoever else has the trace id.
"""

from sidecar.store.ledger import TrafficQuery
from sidecar.store.postgres.connection import Connection
from sidecar.store.sealing import AnswerRow, FactRow


async def facts_of(connection: Connection, query: TrafficQuery) -> list[FactRow]:
    """The receipts of a trace's calls in order, with sealed arguments; without a trace id those of
    calls that had none.

    That a call will be made later is no fact of it: it has receipts when it is made.
    """
    which = "= $2" if query.trace_id is not None else "IS NULL AND $2::text IS NULL"
    rows = await connection.fetch(
        "SELECT audit.seq, audit.project, audit.body, call_id, call.arguments FROM call"  # noqa: S608
        " JOIN receipt USING (call_id) JOIN audit USING (seq)"
        f" WHERE call.project = $1 AND call.trace_id {which} AND audit.kind <> 'accepted'"
        " AND ($3::bigint IS NULL OR call.started_at_ns >= $3)"
        " AND ($4::bigint IS NULL OR call.started_at_ns < $4)"
        " AND receipt.seq > $5 ORDER BY audit.seq LIMIT $6",
        *(query.project, query.trace_id, query.since_ns, query.until_ns),
        *(query.after, query.limit),
    )
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


async def answers_of(connection: Connection, project: str, trace_id: str) -> list[AnswerRow]:
    """The sealed answers that are still kept of a trace's calls."""
    rows = await connection.fetch(
        "SELECT claim.project, claim.call_id, claim.principal, claim.tool, claim.key_hash,"
        " claim.answer FROM call JOIN claim USING (call_id)"
        " WHERE call.project = $1 AND call.trace_id = $2 AND claim.answer IS NOT NULL",
        *(project, trace_id),
    )
    return [(row[0], row[1], row[2], row[3], row[4], row[5]) for row in rows]


async def trace_ids_of(
    connection: Connection, project: str, since_ns: int, until_ns: int, limit: int
) -> list[str]:
    """The traces that had calls in a while, the newest first."""
    rows = await connection.fetch(
        "SELECT trace_id FROM call WHERE project = $1 AND started_at_ns >= $2"
        " AND started_at_ns < $3 AND trace_id IS NOT NULL GROUP BY trace_id"
        " ORDER BY max(started_at_ns) DESC, trace_id LIMIT $4",
        *(project, since_ns, until_ns, limit),
    )
    return [row[0] for row in rows]
