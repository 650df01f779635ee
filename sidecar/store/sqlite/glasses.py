"""Break-glass in ledger.db: what runs inside the writer's transaction.

**Rules**
1. Opening, breaking and reviewing are one transaction each, with their entry in the chain.
2. Breaking approves the request in the same transaction, or does not happen.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

from sidecar.store import glass as rules
from sidecar.store.glass import BreakGlass, GlassBallot, GlassVote
from sidecar.store.reading import POLICY_REVISION
from sidecar.store.sqlite import approvals, chain, vault
from sidecar.store.step_up import decode_authn, encode_authn

_COLUMNS = (
    "glass_id, project, approval_id, document, digest, kid, signature, opened_at_ns,"
    " expires_at_ns, broken_at_ns, reviewed_at_ns, reviewed_by, review"
)
Append = Callable[[sqlite3.Connection, str, str, int, dict[str, Any]], None]


def find(connection: sqlite3.Connection, project: str | None, glass_id: str) -> BreakGlass | None:
    """One glass with its votes."""
    found = _select(
        connection,
        "WHERE glass_id = ? AND (? IS NULL OR project = ?)",
        (glass_id, project, project),
    )
    return found[0] if found else None


def newest(connection: sqlite3.Connection, project: str | None, limit: int) -> list[BreakGlass]:
    """Glasses: those whose review is open first, then the newest."""
    return _select(
        connection,
        "WHERE (?1 IS NULL OR project = ?1)"
        " ORDER BY broken_at_ns IS NULL OR reviewed_at_ns IS NOT NULL, opened_at_ns DESC, glass_id"
        " LIMIT ?2",
        (project, limit),
    )


def open_(
    connection: sqlite3.Connection, wanted: BreakGlass, ballot: GlassBallot, append: Append
) -> str | None:
    """Keep a signed glass with its first vote: None, or the code of why not."""
    code = _why_not(connection, wanted.approval_id, ballot)
    if code is not None:
        return code
    opened = connection.execute(
        "SELECT 1 FROM glass WHERE approval_id = ? AND broken_at_ns IS NULL AND expires_at_ns > ?",
        (wanted.approval_id, ballot.now_ns),
    ).fetchone()
    if opened is not None:
        return "glass_open"
    names = _COLUMNS.split(", ")
    connection.execute(
        f"INSERT INTO glass ({_COLUMNS}) VALUES ({','.join('?' * len(names))})",  # noqa: S608
        tuple(getattr(wanted, name) for name in names),
    )
    _add_vote(connection, ballot)
    body = rules.opened_entry(wanted, ballot)
    append(connection, "glass_opened", wanted.project, ballot.now_ns, body)
    return None


def break_(
    connection: sqlite3.Connection, ballot: GlassBallot, lasts_ns: int, append: Append
) -> str | None:
    """The second vote, which approves the request: None, or the code of why it does not count."""
    found = find(connection, ballot.project, ballot.glass_id)
    code = rules.why_not_broken(found, ballot)
    if code is None and found is not None:
        code = _why_not(connection, found.approval_id, ballot)
    if code is not None or found is None:
        return code
    if not _add_vote(connection, ballot):
        return "vote_repeated"
    row = approvals.find(connection, ballot.project, found.approval_id)
    assert row is not None, "a glass is of a request"
    connection.execute(
        "UPDATE glass SET broken_at_ns = ? WHERE glass_id = ?", (ballot.now_ns, ballot.glass_id)
    )
    until_ns = rules.use_by(row[0], ballot.now_ns, lasts_ns)
    connection.execute(
        "UPDATE approval SET status = 'approved', glass_id = ?1, execute_by_ns = ?2,"
        " expires_at_ns = ?2 WHERE approval_id = ?3 AND status = 'pending'",
        (ballot.glass_id, until_ns, found.approval_id),
    )
    body = rules.word_entry(found, ballot, execute_by_ns=str(until_ns))
    append(connection, "glass_broken", ballot.project, ballot.now_ns, body)
    said = rules.resolved(row[0], ballot, until_ns)
    append(connection, "approval_resolved", ballot.project, ballot.now_ns, said)
    return None


def review(connection: sqlite3.Connection, ballot: GlassBallot, append: Append) -> str | None:
    """Close a review: None, or the code of why it stays open."""
    found = find(connection, ballot.project, ballot.glass_id)
    code = rules.why_not_reviewed(found, ballot)
    if code is not None or found is None:
        return code
    if approvals.is_revoked(connection, ballot.voter):
        return "approver_not_eligible"
    own = connection.execute(
        "SELECT 1 FROM glass_vote WHERE glass_id = ? AND identity = ?",
        (ballot.glass_id, ballot.identity),
    ).fetchone()
    if own is not None:
        return "self_review"
    connection.execute(
        "UPDATE glass SET reviewed_at_ns = ?, reviewed_by = ?, review = ? WHERE glass_id = ?",
        (ballot.now_ns, ballot.voter, ballot.reason, ballot.glass_id),
    )
    body = rules.word_entry(found, ballot)
    append(connection, "glass_reviewed", ballot.project, ballot.now_ns, body)
    return None


def _why_not(connection: sqlite3.Connection, approval_id: str, ballot: GlassBallot) -> str | None:
    row = approvals.find(connection, ballot.project, approval_id)
    revision = vault.get_state(connection, POLICY_REVISION)
    code = rules.why_not_voted(
        row[0] if row else None,
        ballot,
        revision=None if revision is None else revision.decode(),
        mark_ns=chain.latest(connection),
    )
    if code is not None:
        return code
    if approvals.is_revoked(connection, ballot.voter):
        return "approver_not_eligible"
    voted = connection.execute(
        "SELECT 1 FROM vote WHERE approval_id = ? AND identity = ?",
        (approval_id, ballot.identity),
    ).fetchone()
    return None if voted is None else "vote_repeated"


def _add_vote(connection: sqlite3.Connection, ballot: GlassBallot) -> bool:
    cursor = connection.execute(
        "INSERT INTO glass_vote (glass_id, identity, voter, reason, voted_at_ns, digest, authn)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            *(ballot.glass_id, ballot.identity, ballot.voter, ballot.reason),
            *(ballot.now_ns, ballot.digest, encode_authn(ballot.authn)),
        ),
    )
    return cursor.rowcount > 0


def _select(
    connection: sqlite3.Connection, where: str, values: tuple[object, ...]
) -> list[BreakGlass]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM glass {where}", values).fetchall()  # noqa: S608
    return [_glass(connection, row) for row in rows]


def _glass(connection: sqlite3.Connection, row: tuple[Any, ...]) -> BreakGlass:
    votes = connection.execute(
        "SELECT voter, reason, voted_at_ns, digest, authn FROM glass_vote WHERE glass_id = ?"
        " ORDER BY voted_at_ns",
        (row[0],),
    )
    return BreakGlass(
        **dict(zip(_COLUMNS.split(", "), row, strict=True)),
        votes=tuple(
            GlassVote(
                voter=each[0],
                reason=each[1],
                voted_at_ns=each[2],
                digest=each[3],
                authn=decode_authn(each[4]),
            )
            for each in votes
        ),
    )
