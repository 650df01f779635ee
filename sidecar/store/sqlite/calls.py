"""Calls and receipts in ledger.db: what happened, one row a call, its receipts in the audit chain.

**Rules**
1. A receipt stands in the chain; its row here only says where.
2. Arguments come and go sealed (``store.sealing``).
"""

import json
import sqlite3
from typing import Any

from processors.model.call import Receipt
from sidecar.store.ledger import CallQuery, CallRow, Counted, OpenedCall
from sidecar.store.receipts import from_document
from sidecar.store.sealing import FactRow, OpenedRow, opened_by

_SHORT = (
    "call.call_id, call.project, call.principal, call.tool, call.class, call.phase, call.status,"
    " call.effect, call.decision_effect, call.code, call.approval_id, call.trace_id,"
    " call.started_at_ns, call.finished_at_ns"
)
_RECORDED = (
    "seq, at_ns, project, kind, body, prev, hash, receipt_id, call_id, principal, tool, class,"
    " status, effect, decision_effect, code, approval_id, trace_id, started_at_ns, finished_at_ns,"
    " arguments"
)
_INTO_RECORDED = f"INSERT INTO recorded VALUES ({', '.join('?' * 21)})"  # noqa: S608
_RECORD = """
CREATE TEMP TRIGGER record INSTEAD OF INSERT ON recorded BEGIN
    INSERT INTO audit (seq, at_ns, project, kind, body, prev, hash)
        VALUES (new.seq, new.at_ns, new.project, new.kind, new.body, new.prev, new.hash);
    INSERT INTO call (call_id, project, principal, tool, class, phase, status, effect,
            decision_effect, code, approval_id, trace_id, started_at_ns, finished_at_ns, arguments)
        VALUES (new.call_id, new.project, new.principal, new.tool, new.class, new.kind, new.status,
            new.effect, new.decision_effect, new.code, new.approval_id, new.trace_id,
            new.started_at_ns, new.finished_at_ns, new.arguments)
        ON CONFLICT (call_id) DO UPDATE SET phase = excluded.phase, status = excluded.status,
            effect = excluded.effect, decision_effect = excluded.decision_effect,
            code = excluded.code, approval_id = excluded.approval_id,
            finished_at_ns = excluded.finished_at_ns;
    INSERT INTO receipt (receipt_id, call_id, seq) VALUES (new.receipt_id, new.call_id, new.seq);
END
"""
_FIELDS = tuple(CallRow.__struct_fields__[:14])


def prepare(connection: sqlite3.Connection) -> None:
    """Let one statement on this connection write a receipt: the entry, its call, its place."""
    names = [name.strip() for name in _RECORDED.split(",")]
    view = ", ".join(f"NULL AS {name}" for name in names)
    connection.execute(f"CREATE TEMP VIEW recorded AS SELECT {view}")
    connection.execute(_RECORD)


def write(
    connection: sqlite3.Connection,
    entry: tuple[int, int, str, str, str, str, str],
    *,
    call: OpenedCall,
    receipt: Receipt,
    sealed: bytes | None,
) -> None:
    """Write an entry of the chain with a receipt in it: the entry, the call with its newest receipt
    in short, and where the receipt stands."""
    connection.execute(
        _INTO_RECORDED,
        (
            *entry,
            *(receipt.receipt_id, call.call_id, call.principal, call.tool, call.class_),
            *(receipt.status, receipt.effect, receipt.decision_effect, receipt.code),
            *(receipt.approval_id, call.trace_id, call.started_at_ns, receipt.finished_at_ns),
            sealed,
        ),
    )


def list_newest(connection: sqlite3.Connection, query: CallQuery) -> list[CallRow]:
    """Calls that match, newest first, without their receipts' ids."""
    rows = connection.execute(
        f"SELECT {_SHORT}, claim.state FROM call LEFT JOIN claim USING (call_id)"  # noqa: S608
        " WHERE (?1 IS NULL OR call.project = ?1) AND (?2 IS NULL OR call.tool = ?2)"
        " AND (?3 IS NULL OR call.trace_id = ?3) AND (?4 IS NULL OR claim.state = ?4)"
        " AND (?6 IS NULL OR (call.started_at_ns, call.call_id) < (?6, ?7))"
        " ORDER BY call.started_at_ns DESC, call.call_id DESC LIMIT ?5",
        (
            *(query.project, query.tool, query.trace_id, query.state, query.limit),
            *(query.after or (None, None)),
        ),
    )
    return [_row(row, ()) for row in rows]


def find(connection: sqlite3.Connection, project: str | None, call_id: str) -> CallRow | None:
    """One call with its receipts' ids."""
    row = connection.execute(
        f"SELECT {_SHORT}, claim.state FROM call LEFT JOIN claim USING (call_id)"  # noqa: S608
        " WHERE call.call_id = ?1 AND (?2 IS NULL OR call.project = ?2)",
        (call_id, project),
    ).fetchone()
    if row is None:
        return None
    ids = connection.execute(
        "SELECT receipt_id FROM receipt WHERE call_id = ? ORDER BY seq", (call_id,)
    )
    return _row(row, tuple(each[0] for each in ids))


def find_receipt(
    connection: sqlite3.Connection, project: str | None, receipt_id: str
) -> Receipt | None:
    """One receipt, read from the chain."""
    row = connection.execute(
        "SELECT audit.body FROM receipt JOIN audit USING (seq)"
        " WHERE receipt_id = ?1 AND (?2 IS NULL OR audit.project = ?2)",
        (receipt_id, project),
    ).fetchone()
    return from_document(json.loads(row[0])["receipt"]) if row else None


def prior_tools(connection: sqlite3.Connection, call: OpenedCall) -> tuple[str, ...]:
    """Tools whose calls by this principal in this trace had their effect, the newest hundred."""
    if call.trace_id is None:
        return ()
    rows = connection.execute(
        "SELECT tool FROM call WHERE trace_id = ? AND project = ? AND principal = ?"
        " AND phase = 'executed' AND effect = 'confirmed' ORDER BY started_at_ns DESC LIMIT 100",
        (call.trace_id, call.project, call.principal),
    ).fetchall()
    return tuple(row[0] for row in reversed(rows))


_COUNTED = (
    "SELECT tool, class,"
    " sum(phase IN ('authorised', 'executed') AND effect != 'not_executed'), sum(phase = 'refused')"
    " FROM call WHERE {} AND project = ? AND principal = ?"
    " GROUP BY tool, class ORDER BY tool, class"
)


def counted(
    connection: sqlite3.Connection, call: OpenedCall, since_ns: int, traceless: bool
) -> list[Counted]:
    """How many calls of each tool this principal made since then; ``traceless``: without a
    trace."""
    rows = connection.execute(
        _COUNTED.format("started_at_ns > ? AND (NOT ? OR trace_id IS NULL)"),
        (since_ns, traceless, call.project, call.principal),
    )
    return [_count(row) for row in rows]


def counted_in_session(connection: sqlite3.Connection, call: OpenedCall) -> list[Counted]:
    """How many calls of each tool this principal made in this trace."""
    rows = connection.execute(
        _COUNTED.format("trace_id = ?"), (call.trace_id, call.project, call.principal)
    )
    return [_count(row) for row in rows]


def _count(row: tuple[Any, ...]) -> Counted:
    return Counted(tool=row[0], class_=row[1], made=row[2], refused=row[3])


def find_opened(connection: sqlite3.Connection, call_id: str) -> OpenedRow | None:
    """A call as it was opened, with its sealed arguments; read from its first receipt."""
    row = connection.execute(
        "SELECT audit.body, call.arguments FROM call JOIN receipt USING (call_id)"
        " JOIN audit USING (seq) WHERE call_id = ? ORDER BY seq LIMIT 1",
        (call_id,),
    ).fetchone()
    if row is None:
        return None
    return opened_by(row[0]), row[1]


def facts_after(connection: sqlite3.Connection, after: int, limit: int) -> list[FactRow]:
    """Receipts that follow ``after`` in the chain, with sealed arguments.

    That a call will be made later is no fact of it: it has receipts when it is made.
    """
    rows = connection.execute(
        "SELECT audit.seq, audit.project, audit.body, call_id, call.arguments FROM audit"
        " JOIN receipt USING (seq) JOIN call USING (call_id)"
        " WHERE audit.seq > ? AND audit.kind <> 'accepted' ORDER BY audit.seq LIMIT ?",
        (after, limit),
    )
    return rows.fetchall()


def _row(row: tuple[Any, ...], receipts: tuple[str, ...]) -> CallRow:
    fields = dict(zip(_FIELDS, row, strict=False))
    return CallRow(**fields, receipts=receipts, state=row[14])
