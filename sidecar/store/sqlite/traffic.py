"""What ledger.db keeps of one trace's calls: receipts with arguments, and answers.

**Rules**
1. Both stay inside one project, whoever else has the trace id.
"""

import sqlite3

from sidecar.store.ledger import TrafficQuery
from sidecar.store.sealing import AnswerRow, FactRow


def facts_of(connection: sqlite3.Connection, query: TrafficQuery) -> list[FactRow]:
    """The receipts of a trace's calls in order, with sealed arguments; without a trace id those of
    calls that had none.

    That a call will be made later is no fact of it: it has receipts when it is made.
    """
    which = "= ?2" if query.trace_id is not None else "IS NULL AND ?2 IS NULL"
    rows = connection.execute(
        "SELECT audit.seq, audit.project, audit.body, call_id, call.arguments FROM call"  # noqa: S608
        " JOIN receipt USING (call_id) JOIN audit USING (seq)"
        f" WHERE call.project = ?1 AND call.trace_id {which} AND audit.kind <> 'accepted'"
        " AND (?3 IS NULL OR call.started_at_ns >= ?3) AND (?4 IS NULL OR call.started_at_ns < ?4)"
        " AND receipt.seq > ?5 ORDER BY audit.seq LIMIT ?6",
        (
            *(query.project, query.trace_id, query.since_ns, query.until_ns),
            *(query.after, query.limit),
        ),
    )
    return rows.fetchall()


def answers_of(connection: sqlite3.Connection, project: str, trace_id: str) -> list[AnswerRow]:
    """The sealed answers that are still kept of a trace's calls."""
    rows = connection.execute(
        "SELECT claim.project, claim.call_id, claim.principal, claim.tool, claim.key_hash,"
        " claim.answer FROM call JOIN claim USING (call_id)"
        " WHERE call.project = ? AND call.trace_id = ? AND claim.answer IS NOT NULL",
        (project, trace_id),
    )
    return rows.fetchall()


def trace_ids_of(
    connection: sqlite3.Connection, project: str, since_ns: int, until_ns: int, limit: int
) -> list[str]:
    """The traces that had calls in a while, the newest first."""
    rows = connection.execute(
        "SELECT trace_id FROM call WHERE project = ? AND started_at_ns >= ? AND started_at_ns < ?"
        " AND trace_id IS NOT NULL GROUP BY trace_id ORDER BY max(started_at_ns) DESC, trace_id"
        " LIMIT ?",
        (project, since_ns, until_ns, limit),
    )
    return [row[0] for row in rows]
