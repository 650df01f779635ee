"""Approvals and votes in ledger.db: statements that run inside the writer's transaction.

**Rules**
1. Consuming is one UPDATE that checks all it is bound to; it succeeds for one caller.
2. A request is asked once: the same action and key find the request that is there, unless it was
   consumed or its policy or tool has changed since.
3. A person votes once on a request, whatever number of keys they have; they may take an approval
   back, by a denial, until it is used.
4. An approval that came back from a call that was not sent comes back once.
5. A vote stands as long as its voter's key does and may decide: with the key it is revoked or runs
   out, however long ago it was cast. Who votes without a key of this ledger (a token, an episode)
   cannot be looked at again here.
6. What an agent asks and a person approves is counted here, in the transaction that adds to it.
"""

import sqlite3
from typing import Any

from processors.model.call import Approval, Vote
from sidecar.store.glass import PEOPLE
from sidecar.store.ledger import ApprovalUse, Ballot
from sidecar.store.sealing import (
    APPROVAL_COLUMNS,
    APPROVAL_NAMES,
    ApprovalRow,
    approval_fields,
    approval_of,
)
from sidecar.store.sqlite import chain
from sidecar.store.standing import identity_of, went_back, why_not_spent
from sidecar.store.step_up import decode_authn, encode_authn

_KEY = "key:"
_FALLEN = (
    "EXISTS (SELECT 1 FROM api_key"
    " WHERE 'key:' || key_id = {}.voter AND (revoked_at_ns IS NOT NULL OR expires_at_ns <= ?"
    " OR coalesce(role, CASE kind WHEN 'approver' THEN 'reviewer' ELSE '' END)"
    " NOT IN ('owner', 'reviewer')))"
)
_STANDING = (
    "(SELECT count(*) FROM vote WHERE vote.approval_id = approval.approval_id"  # noqa: S608
    f" AND decision = 'approve' AND NOT {_FALLEN.format('vote')})"
)
_STANDS = (
    f"CASE WHEN glass_id = '' THEN {_STANDING} >= approvers_min ELSE (SELECT count(*)"  # noqa: S608
    " FROM glass_vote WHERE glass_vote.glass_id = approval.glass_id"
    f" AND NOT {_FALLEN.format('glass_vote')}) >= {PEOPLE} END"
)
"""Whether a request has the votes it needs, its glass's where that was broken; takes now twice."""


def find(
    connection: sqlite3.Connection, project: str | None, approval_id: str
) -> ApprovalRow | None:
    """A request with its votes and its sealed summary."""
    rows = _select(
        connection,
        "WHERE approval_id = ? AND (? IS NULL OR project = ?)",
        (approval_id, project, project),
    )
    return rows[0] if rows else None


def list_newest(
    connection: sqlite3.Connection,
    project: str | None,
    limit: int,
    after: tuple[int, str] | None = None,
) -> list[ApprovalRow]:
    """Requests of a project, or of all, newest first; ``after`` a moment and id of that order."""
    return _select(
        connection,
        "WHERE (?1 IS NULL OR project = ?1)"
        " AND (?2 IS NULL OR (requested_at_ns, approval_id) < (?2, ?3))"
        " ORDER BY requested_at_ns DESC, approval_id DESC LIMIT ?4",
        (project, *(after or (None, None)), limit),
    )


def find_asked(connection: sqlite3.Connection, wanted: Approval) -> ApprovalRow | None:
    """The newest request for the same action and key under the same policy and tool."""
    rows = _select(
        connection,
        "WHERE project = ? AND requester = ? AND tool = ? AND key_hash = ? AND action_hash = ?"
        " AND policy_revision = ? AND tool_digest = ? AND status != 'consumed'"
        " ORDER BY requested_at_ns DESC LIMIT 1",
        (
            *(wanted.project, wanted.requester, wanted.tool, wanted.key_hash, wanted.action_hash),
            *(wanted.policy_revision, wanted.tool_digest),
        ),
    )
    return rows[0] if rows else None


def insert(connection: sqlite3.Connection, asked: Approval, summary: bytes) -> None:
    """Keep a new request; ``summary`` is sealed."""
    fields = approval_fields(asked)
    marks = ",".join("?" * (len(APPROVAL_NAMES) + 1))
    connection.execute(
        f"INSERT INTO approval ({APPROVAL_COLUMNS}, summary) VALUES ({marks})",  # noqa: S608
        (*fields.values(), summary),
    )


def set_status(connection: sqlite3.Connection, approval_id: str, status: str) -> bool:
    """Resolve a request that waits for a decision or for its call; False when it waits no more."""
    cursor = connection.execute(
        "UPDATE approval SET status = ? WHERE approval_id = ?"
        " AND status IN ('pending', 'approved')",
        (status, approval_id),
    )
    return cursor.rowcount > 0


def set_approved(connection: sqlite3.Connection, approval_id: str, execute_by_ns: int) -> bool:
    """Resolve a pending request as approved, to be used until then; False when it is pending no
    more."""
    cursor = connection.execute(
        "UPDATE approval SET status = 'approved', execute_by_ns = ?1, expires_at_ns = ?1"
        " WHERE approval_id = ?2 AND status = 'pending'",
        (execute_by_ns, approval_id),
    )
    return cursor.rowcount > 0


def add_vote(connection: sqlite3.Connection, ballot: Ballot) -> bool:
    """Keep a vote; False when this person has voted on the request already, and does not take an
    approval back."""
    cursor = connection.execute(
        "INSERT INTO vote (approval_id, voter, identity, decision, reason, voted_at_ns,"
        " shown_digest, authn) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (approval_id, identity) DO UPDATE SET voter = excluded.voter,"
        " decision = 'deny', reason = excluded.reason, voted_at_ns = excluded.voted_at_ns,"
        " shown_digest = excluded.shown_digest, authn = excluded.authn"
        " WHERE decision = 'approve' AND excluded.decision = 'deny'",
        (
            *(ballot.approval_id, ballot.voter, identity_of(ballot)),
            *(ballot.decision, ballot.reason, ballot.now_ns, ballot.shown_digest),
            encode_authn(ballot.authn),
        ),
    )
    return cursor.rowcount > 0


def is_revoked(connection: sqlite3.Connection, principal: str) -> bool:
    """Whether this principal's key is revoked, as of this transaction."""
    row = connection.execute(
        "SELECT 1 FROM api_key WHERE key_id = ? AND revoked_at_ns IS NOT NULL",
        (key_of(principal),),
    ).fetchone()
    return row is not None


def key_of(principal: str) -> str:
    """The id of a principal's key; of one without a key what is the id of none."""
    return principal.removeprefix(_KEY)


def standing(connection: sqlite3.Connection, approval_id: str, now_ns: int) -> int:
    """How many approve a request whose keys still may."""
    row = connection.execute(
        f"SELECT {_STANDING} FROM approval WHERE approval_id = ?",  # noqa: S608
        (now_ns, approval_id),
    ).fetchone()
    return int(row[0]) if row else 0


def stands(connection: sqlite3.Connection, approval_id: str, now_ns: int) -> bool:
    """Whether a request has the votes it needs, of keys that still may."""
    row = connection.execute(
        f"SELECT {_STANDS} FROM approval WHERE approval_id = ?",  # noqa: S608
        (now_ns, now_ns, approval_id),
    ).fetchone()
    return bool(row and row[0])


def asked_since(connection: sqlite3.Connection, wanted: Approval, since_ns: int) -> int:
    """How many requests the same agent has made since then."""
    (count,) = connection.execute(
        "SELECT count(*) FROM approval WHERE project = ? AND requester = ? AND requested_at_ns > ?",
        (wanted.project, wanted.requester, since_ns),
    ).fetchone()
    return int(count)


def approved_since(connection: sqlite3.Connection, ballot: Ballot, since_ns: int) -> int:
    """How many requests the same person has approved since then, in any project."""
    (count,) = connection.execute(
        "SELECT count(*) FROM vote WHERE identity = ? AND voted_at_ns > ? AND decision = 'approve'",
        (identity_of(ballot), since_ns),
    ).fetchone()
    return int(count)


def run_out(connection: sqlite3.Connection, now_ns: int) -> list[tuple[str, str]]:
    """Resolve as expired what is not spent in time; each one's id and project."""
    return connection.execute(
        "UPDATE approval SET status = 'expired' WHERE status IN ('pending', 'approved')"
        " AND expires_at_ns <= ? RETURNING approval_id, project",
        (now_ns,),
    ).fetchall()


def next_to_run_out(connection: sqlite3.Connection) -> int | None:
    """When the next request that waits runs out."""
    (found,) = connection.execute(
        "SELECT min(expires_at_ns) FROM approval WHERE status IN ('pending', 'approved')"
    ).fetchone()
    return None if found is None else int(found)


def consume(
    connection: sqlite3.Connection,
    use: ApprovalUse,
    *,
    project: str,
    requester: str,
    by: str,
    now_ns: int,
) -> str | None:
    """Spend an approval on call ``by``; None when it was done, else the code of why not."""
    mark_ns = chain.latest(connection)
    cursor = connection.execute(
        "UPDATE approval SET status = 'consumed', consumed_by = ?"  # noqa: S608
        " WHERE approval_id = ? AND project = ? AND requester = ? AND status = 'approved'"
        " AND expires_at_ns > ? AND action_hash = ? AND key_hash = ? AND policy_revision = ?"
        f" AND tool_digest = ? AND ? AND {_STANDS}",
        (
            *(by, use.approval_id, project, requester, now_ns, use.action_hash, use.key_hash),
            *(use.policy_revision, use.tool_digest, not went_back(now_ns, mark_ns)),
            *(now_ns, now_ns),
        ),
    )
    if cursor.rowcount > 0:
        return None
    found = find(connection, project, use.approval_id)
    return why_not_spent(
        found[0] if found else None,
        use,
        requester=requester,
        now_ns=now_ns,
        stands=stands(connection, use.approval_id, now_ns),
        mark_ns=mark_ns,
    )


def restore(connection: sqlite3.Connection, call_id: str) -> str | None:
    """Give back what a call consumed, once; the approval's id when it was given back."""
    row = connection.execute(
        "UPDATE approval SET status = 'approved', consumed_by = NULL, restored = restored + 1"
        " WHERE consumed_by = ? AND status = 'consumed' AND restored < 1 RETURNING approval_id",
        (call_id,),
    ).fetchone()
    return row[0] if row else None


def take_token(connection: sqlite3.Connection, project: str, approval_id: str, now_ns: int) -> bool:
    """Whether this is the first time the approved request's token is asked for."""
    cursor = connection.execute(
        "UPDATE approval SET token_taken = 1 WHERE approval_id = ? AND project = ?"  # noqa: S608
        " AND status = 'approved' AND token_taken = 0 AND expires_at_ns > ?"
        f" AND {_STANDS}",
        (approval_id, project, now_ns, now_ns, now_ns),
    )
    return cursor.rowcount > 0


def _select(
    connection: sqlite3.Connection, where: str, values: tuple[object, ...]
) -> list[ApprovalRow]:
    rows = connection.execute(
        f"SELECT {APPROVAL_COLUMNS}, summary FROM approval {where}",  # noqa: S608
        values,
    ).fetchall()
    return [_approval(connection, row) for row in rows]


def _approval(connection: sqlite3.Connection, row: tuple[Any, ...]) -> ApprovalRow:
    votes = (
        Vote(
            voter=v[0],
            decision=v[1],
            reason=v[2],
            voted_at_ns=v[3],
            shown_digest=v[4],
            authn=decode_authn(v[5]),
        )
        for v in connection.execute(
            "SELECT voter, decision, reason, voted_at_ns, shown_digest, authn FROM vote"
            " WHERE approval_id = ? ORDER BY voted_at_ns",
            (row[0],),
        )
    )
    return approval_of(row, votes)
