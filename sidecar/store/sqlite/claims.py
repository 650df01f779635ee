"""Claims on idempotency keys in ledger.db: statements that run inside the writer's transaction.

**Rules**
1. Every change is a compare-and-set on the fence and the state that were seen.
2. Only ``claimed`` may become ``sent``; only the holder of the fence may end a claim.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

from sidecar.store.ledger import (
    TOMBSTONE_NS,
    Claim,
    ClaimEnd,
    ClaimState,
    Committed,
    Fence,
    Intent,
    IntentResult,
    Scope,
    Seen,
)
from sidecar.store.reading import POLICY_REVISION
from sidecar.store.sealing import ClaimRow
from sidecar.store.sqlite.approvals import key_of
from sidecar.store.sqlite.stops import ACTIVE, strongest_of
from sidecar.store.stop import StopKind

_COLUMNS = (
    "claim_id, project, principal, tool, key_hash, fingerprint, state, owner, lease_until_ns,"
    " fence, attempt, call_id, updated_at_ns, expires_at_ns, approval_id, receipt_id, reason,"
    " possible, answer"
)
_AGAINST = (
    "SELECT (SELECT value FROM gateway_state WHERE name = ?),"  # noqa: S608
    " EXISTS (SELECT 1 FROM api_key WHERE key_id = ? AND revoked_at_ns IS NOT NULL),"
    " (SELECT group_concat(kind) " + ACTIVE.format(project="?", agent="?", tool="?") + ")"
)
"""What three tables say in one statement: each costs a turn of the interpreter."""
_OVER = "state IN ('completed', 'failed_safe', 'resolved_done', 'resolved_not_done')"
_NAMES = tuple(name.strip() for name in _COLUMNS.split(","))


def find(connection: sqlite3.Connection, scope: Scope) -> ClaimRow | None:
    """The claim of a scope with its sealed answer."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM claim"  # noqa: S608
        " WHERE project = ? AND principal = ? AND tool = ? AND key_hash = ?",
        (scope.project, scope.principal, scope.tool, scope.key_hash),
    ).fetchone()
    return _claim(row) if row else None


def find_of(connection: sqlite3.Connection, call_id: str) -> ClaimRow | None:
    """The claim whose present attempt a call made, with its sealed answer."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM claim WHERE call_id = ?",  # noqa: S608
        (call_id,),
    ).fetchone()
    return _claim(row) if row else None


def in_state(
    connection: sqlite3.Connection, states: tuple[ClaimState, ...], limit: int
) -> list[ClaimRow]:
    """Claims in one of the states, oldest first."""
    marks = ",".join("?" * len(states))
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM claim WHERE state IN ({marks}) ORDER BY claim_id LIMIT ?",  # noqa: S608
        (*states, limit),
    )
    return [_claim(row) for row in rows]


def open_of(connection: sqlite3.Connection, owner: str, limit: int) -> list[Claim]:
    """Open claims of an owner, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM claim WHERE state IN ('claimed', 'sent') AND owner = ?"  # noqa: S608
        " ORDER BY claim_id LIMIT ?",
        (owner, limit),
    )
    return [_claim(row)[0] for row in rows]


def call_of(connection: sqlite3.Connection, seen: Seen) -> str | None:
    """The call that made a claim's present attempt."""
    row = connection.execute(
        "SELECT call_id FROM claim WHERE claim_id = ? AND fence = ?", (seen.claim_id, seen.fence)
    ).fetchone()
    return row[0] if row else None


def against(connection: sqlite3.Connection, intent: Intent) -> str | None:
    """The code of what an intent may not be committed for: ``policy_changed``, ``key_revoked`` or
    the stop that its call falls under; None where there is nothing."""
    call = intent.call
    revision, revoked, kinds = connection.execute(
        _AGAINST,
        (
            *(POLICY_REVISION, key_of(call.principal)),
            *(call.project, call.principal, call.tool),
        ),
    ).fetchone()
    if revision is None or bytes(revision) != intent.policy_revision.encode():
        return "policy_changed"
    if revoked:
        return "key_revoked"
    return strongest_of(call, kinds.split(",")) if kinds else None


def take(connection: sqlite3.Connection, intent: Intent) -> Fence | None:
    """Make or take over the claim of an intent; None when the scope is another's."""
    return _take_over(connection, intent) if intent.expected else _insert(connection, intent)


def same(connection: sqlite3.Connection, intent: Intent) -> str | None:
    """A call of the same action by the same principal that had its effect lately, or may have."""
    call = intent.call
    row = connection.execute(
        "SELECT call_id FROM claim WHERE project = ? AND principal = ? AND tool = ?"
        " AND fingerprint = ? AND (state IN ('claimed', 'sent', 'unknown')"
        " OR (state IN ('completed', 'resolved_done') AND updated_at_ns > ?)) LIMIT 1",
        (
            *(call.project, call.principal, call.tool, intent.fingerprint),
            intent.distinct_since_ns,
        ),
    ).fetchone()
    return row[0] if row else None


def forget(connection: sqlite3.Connection, now_ns: int, limit: int, since_ns: int = 0) -> int:
    """Drop stored answers that have expired, then claims nothing is remembered for; how many.

    An irreversible call's claim stays for ``TOMBSTONE_NS`` more, without its answer. Of the others
    those are looked at that have expired since ``since_ns``.
    """
    erased = connection.execute(
        "UPDATE claim SET answer = NULL WHERE claim_id IN (SELECT claim_id FROM claim"  # noqa: S608
        f" WHERE expires_at_ns <= ? AND {_OVER} AND answer IS NOT NULL"
        " ORDER BY expires_at_ns LIMIT ?)",
        (now_ns, limit),
    )
    dropped = [
        connection.execute(
            "DELETE FROM claim WHERE claim_id IN (SELECT claim_id FROM claim"  # noqa: S608
            f" JOIN call USING (call_id) WHERE expires_at_ns > ? AND expires_at_ns <= ?"
            f" AND {_OVER} AND call.class {which} 'irreversible'"
            " ORDER BY expires_at_ns LIMIT ?)",
            (first_ns, last_ns, limit),
        )
        for which, first_ns, last_ns in (
            ("<>", since_ns, now_ns),
            ("=", 0, now_ns - TOMBSTONE_NS),
        )
    ]
    return erased.rowcount + sum(each.rowcount for each in dropped)


def mark_sent(
    connection: sqlite3.Connection, claim: Fence, now_ns: int, kinds: Sequence[StopKind]
) -> bool:
    """From ``claimed`` to ``sent``, before the first byte leaves; False when the fence is gone, or
    a stop of one of these kinds stands."""
    marks = ",".join("?" * len(kinds))
    return _changed(
        connection.execute(
            "UPDATE claim SET state = 'sent', updated_at_ns = ?"  # noqa: S608
            " WHERE claim_id = ? AND fence = ? AND state = 'claimed' AND NOT EXISTS (SELECT 1 "
            + ACTIVE.format(project="claim.project", agent="claim.principal", tool="claim.tool")
            + f" AND kind IN ({marks}))",
            (now_ns, claim.claim_id, claim.fence, *kinds),
        )
    )


def marked(intent: Intent, connection: sqlite3.Connection, committed: IntentResult) -> IntentResult:
    """A committed intent with what marking it sent said."""
    if not isinstance(committed, Committed):
        return committed
    held = mark_sent(connection, committed.claim, intent.now_ns, intent.marks)
    return msgspec.structs.replace(committed, marked=held)


def end(
    connection: sqlite3.Connection,
    ended: ClaimEnd,
    *,
    now_ns: int,
    receipt_id: str,
    answer: bytes | None,
) -> bool:
    """Set how a claim ended; False when another holds it or it has ended already."""
    return _changed(
        connection.execute(
            "UPDATE claim SET state = ?, reason = ?, receipt_id = ?, answer = ?, updated_at_ns = ?"
            " WHERE claim_id = ? AND fence = ? AND state IN ('claimed', 'sent', 'unknown')",
            (
                *(ended.state, ended.reason, receipt_id, answer, now_ns),
                *(ended.claim.claim_id, ended.claim.fence),
            ),
        )
    )


def _insert(connection: sqlite3.Connection, intent: Intent) -> Fence | None:
    call = intent.call
    cursor = connection.execute(
        "INSERT INTO claim (project, principal, tool, key_hash, fingerprint, state, owner,"
        " lease_until_ns, fence, attempt, call_id, updated_at_ns, expires_at_ns, approval_id)"
        " VALUES (?, ?, ?, ?, ?, 'claimed', ?, ?, 1, 1, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            *(call.project, call.principal, call.tool, call.key_hash, intent.fingerprint),
            *(intent.owner, intent.lease_until_ns, call.call_id, intent.now_ns),
            *(intent.expires_at_ns, _approval_id(intent)),
        ),
    )
    if not _changed(cursor):
        return None
    assert cursor.lastrowid is not None
    return Fence(claim_id=cursor.lastrowid, fence=1)


_MAY_HAVE = "(state IN ('sent', 'unknown') OR (state = 'claimed' AND possible))"
"""Whether the attempt that is taken over, or one before it, may have had its effect: the key then
expires with the first of them, since the upstream forgets its own."""


def _take_over(connection: sqlite3.Connection, intent: Intent) -> Fence | None:
    seen = intent.expected
    assert seen is not None
    cursor = connection.execute(
        "UPDATE claim SET state = 'claimed', fingerprint = ?, owner = ?,"  # noqa: S608
        " lease_until_ns = ?,"
        " fence = fence + 1, attempt = attempt + 1, call_id = ?, updated_at_ns = ?,"
        f" expires_at_ns = CASE WHEN {_MAY_HAVE} THEN expires_at_ns ELSE ? END,"
        f" possible = {_MAY_HAVE},"
        " approval_id = ?, receipt_id = NULL, reason = NULL, answer = NULL"
        " WHERE claim_id = ? AND fence = ? AND state = ?",
        (
            *(intent.fingerprint, intent.owner, intent.lease_until_ns, intent.call.call_id),
            *(intent.now_ns, intent.expires_at_ns, _approval_id(intent)),
            *(seen.claim_id, seen.fence, seen.state),
        ),
    )
    return Fence(claim_id=seen.claim_id, fence=seen.fence + 1) if _changed(cursor) else None


def _approval_id(intent: Intent) -> str | None:
    return intent.approval.approval_id if intent.approval else None


def _changed(cursor: sqlite3.Cursor) -> bool:
    return cursor.rowcount > 0


def _claim(row: tuple[object, ...]) -> ClaimRow:
    fields = dict(zip(_NAMES, row, strict=True))
    sealed = fields.pop("answer")
    assert sealed is None or isinstance(sealed, bytes)
    fields["possible"] = bool(fields["possible"])
    return msgspec.convert(fields, Claim), sealed
