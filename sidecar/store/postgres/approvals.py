"""Approvals and votes on Postgres.

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
7. Whoever waits for a request is told when it changes: NOTIFY, delivered with the commit.
"""

from processors.model.call import Approval, Vote
from sidecar.store.glass import PEOPLE
from sidecar.store.ledger import ApprovalUse, Ballot
from sidecar.store.postgres import chain
from sidecar.store.postgres.chain import Turn
from sidecar.store.postgres.connection import Connection
from sidecar.store.postgres.query import where
from sidecar.store.postgres.text import kept
from sidecar.store.sealing import (
    APPROVAL_COLUMNS,
    APPROVAL_NAMES,
    ApprovalRow,
    approval_fields,
    approval_of,
)
from sidecar.store.standing import identity_of, went_back, why_not_spent
from sidecar.store.step_up import decode_authn, encode_authn

CHANNEL = "agenttwin_approval"
_KEY = "key:"
_FALLEN = (
    "EXISTS (SELECT FROM api_key"
    " WHERE {of}.voter LIKE 'key:%' AND key_id = substr({of}.voter, 5)"
    " AND (revoked_at_ns IS NOT NULL OR expires_at_ns <= {now}"
    " OR coalesce(role, CASE kind WHEN 'approver' THEN 'reviewer' ELSE '' END)"
    " NOT IN ('owner', 'reviewer')))"
)


def _standing(now: str) -> str:
    """How many approve a request whose keys still may, as SQL; ``now`` is the mark of the time."""
    return (
        "(SELECT count(*) FROM vote WHERE vote.approval_id = approval.approval_id"  # noqa: S608
        f" AND decision = 'approve' AND NOT {_FALLEN.format(of='vote', now=now)})"
    )


def _stands(now: str) -> str:
    """Whether a request has the votes it needs, its glass's where that was broken, as SQL."""
    return (
        f"CASE WHEN glass_id = '' THEN {_standing(now)} >= approvers_min ELSE (SELECT count(*)"  # noqa: S608
        " FROM glass_vote WHERE glass_vote.glass_id = approval.glass_id"
        f" AND NOT {_FALLEN.format(of='glass_vote', now=now)}) >= {PEOPLE} END"
    )


async def find(connection: Connection, project: str | None, approval_id: str) -> ApprovalRow | None:
    """A request with its votes and its sealed summary."""
    rows = await _select(
        connection,
        "WHERE approval_id = $1 AND ($2::text IS NULL OR project = $2)",
        *(approval_id, project),
    )
    return rows[0] if rows else None


async def list_newest(
    connection: Connection,
    project: str | None,
    limit: int,
    after: tuple[int, str] | None = None,
) -> list[ApprovalRow]:
    """Requests of a project, or of all, newest first; ``after`` a moment and id of that order."""
    clause, values = where(
        {"project = {}": project, "(requested_at_ns, approval_id) < ({}, {})": after}
    )
    order = f"ORDER BY requested_at_ns DESC, approval_id DESC LIMIT ${len(values) + 1}"
    return await _select(connection, f"{clause} {order}", *values, limit)


async def find_asked(connection: Connection, wanted: Approval) -> ApprovalRow | None:
    """The newest request for the same action and key under the same policy and tool."""
    rows = await _select(
        connection,
        "WHERE project = $1 AND requester = $2 AND tool = $3 AND key_hash = $4"
        " AND action_hash = $5 AND policy_revision = $6 AND tool_digest = $7"
        " AND status != 'consumed' ORDER BY requested_at_ns DESC LIMIT 1",
        *(wanted.project, wanted.requester, wanted.tool, wanted.key_hash, wanted.action_hash),
        *(wanted.policy_revision, wanted.tool_digest),
    )
    return rows[0] if rows else None


async def insert(turn: Turn, asked: Approval, summary: bytes) -> None:
    """Keep a new request; ``summary`` is sealed."""
    fields = approval_fields(asked)
    for name in ("requester_owner", "requester_name", "on_behalf_of", "step_up"):
        fields[name] = kept(fields[name])
    marks = ",".join(f"${place}" for place in range(1, len(APPROVAL_NAMES) + 2))
    await turn.connection.execute(
        f"INSERT INTO approval ({APPROVAL_COLUMNS}, summary) VALUES ({marks})",  # noqa: S608
        *(*fields.values(), summary),
    )


async def set_status(turn: Turn, approval_id: str, status: str) -> bool:
    """Resolve a request that waits for a decision or for its call; False when it waits no more."""
    done = await turn.connection.execute(
        "UPDATE approval SET status = $1 WHERE approval_id = $2"
        " AND status IN ('pending', 'approved')",
        *(status, approval_id),
    )
    return _changed(done)


async def set_approved(turn: Turn, approval_id: str, execute_by_ns: int) -> bool:
    """Resolve a pending request as approved, to be used until then; False when it is pending no
    more."""
    done = await turn.connection.execute(
        "UPDATE approval SET status = 'approved', execute_by_ns = $1, expires_at_ns = $1"
        " WHERE approval_id = $2 AND status = 'pending'",
        *(execute_by_ns, approval_id),
    )
    return _changed(done)


async def add_vote(turn: Turn, ballot: Ballot) -> bool:
    """Keep a vote; False when this person has voted on the request already, and does not take an
    approval back."""
    done = await turn.connection.execute(
        "INSERT INTO vote (approval_id, voter, identity, decision, reason, voted_at_ns,"
        " shown_digest, authn) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
        " ON CONFLICT (approval_id, identity) DO UPDATE SET voter = excluded.voter,"
        " decision = 'deny', reason = excluded.reason, voted_at_ns = excluded.voted_at_ns,"
        " shown_digest = excluded.shown_digest, authn = excluded.authn"
        " WHERE vote.decision = 'approve' AND excluded.decision = 'deny'",
        *(ballot.approval_id, ballot.voter, kept(identity_of(ballot)), ballot.decision),
        *(kept(ballot.reason), ballot.now_ns, ballot.shown_digest),
        kept(encode_authn(ballot.authn)),
    )
    return _changed(done)


async def tell(turn: Turn, approval_id: str) -> None:
    """Wake who waits for this request, here and in other sidecars, once this is committed."""
    await turn.connection.execute("SELECT pg_notify($1, $2)", CHANNEL, approval_id)


async def is_revoked(connection: Connection, principal: str) -> bool:
    """Whether this principal's key is revoked, as of this statement."""
    found: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM api_key WHERE key_id = $1 AND revoked_at_ns IS NOT NULL)",
        principal.removeprefix(_KEY),
    )
    return found


async def standing(connection: Connection, approval_id: str, now_ns: int) -> int:
    """How many approve a request whose keys still may."""
    count: int | None = await connection.fetchval(
        f"SELECT {_standing('$2')} FROM approval WHERE approval_id = $1",  # noqa: S608
        *(approval_id, now_ns),
    )
    return count or 0


async def stands(connection: Connection, approval_id: str, now_ns: int) -> bool:
    """Whether a request has the votes it needs, of keys that still may."""
    found: bool | None = await connection.fetchval(
        f"SELECT {_stands('$2')} FROM approval WHERE approval_id = $1",  # noqa: S608
        *(approval_id, now_ns),
    )
    return bool(found)


async def asked_since(connection: Connection, wanted: Approval, since_ns: int) -> int:
    """How many requests the same agent has made since then."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM approval"
        " WHERE project = $1 AND requester = $2 AND requested_at_ns > $3",
        *(wanted.project, wanted.requester, since_ns),
    )
    return count


async def approved_since(connection: Connection, ballot: Ballot, since_ns: int) -> int:
    """How many requests the same person has approved since then, in any project."""
    count: int = await connection.fetchval(
        "SELECT count(*) FROM vote"
        " WHERE identity = $1 AND voted_at_ns > $2 AND decision = 'approve'",
        *(kept(identity_of(ballot)), since_ns),
    )
    return count


async def run_out(turn: Turn, now_ns: int) -> list[tuple[str, str]]:
    """Resolve as expired what is not spent in time; each one's id and project."""
    rows = await turn.connection.fetch(
        "UPDATE approval SET status = 'expired' WHERE status IN ('pending', 'approved')"
        " AND expires_at_ns <= $1 RETURNING approval_id, project",
        now_ns,
    )
    return [(row[0], row[1]) for row in rows]


async def next_to_run_out(connection: Connection) -> int | None:
    """When the next request that waits runs out."""
    found: int | None = await connection.fetchval(
        "SELECT min(expires_at_ns) FROM approval WHERE status IN ('pending', 'approved')"
    )
    return found


async def consume(
    turn: Turn, use: ApprovalUse, *, project: str, requester: str, by: str, now_ns: int
) -> str | None:
    """Spend an approval on call ``by``; None when it was done, else the code of why not."""
    connection = turn.connection
    mark_ns = await chain.latest(connection)
    done = await connection.execute(
        "UPDATE approval SET status = 'consumed', consumed_by = $1"  # noqa: S608
        " WHERE approval_id = $2 AND project = $3 AND requester = $4 AND status = 'approved'"
        " AND expires_at_ns > $5 AND action_hash = $6 AND key_hash = $7 AND policy_revision = $8"
        f" AND tool_digest = $9 AND $10 AND {_stands('$5')}",
        *(by, use.approval_id, project, requester, now_ns, use.action_hash, use.key_hash),
        *(use.policy_revision, use.tool_digest, not went_back(now_ns, mark_ns)),
    )
    if _changed(done):
        return None
    found = await find(connection, project, use.approval_id)
    return why_not_spent(
        found[0] if found else None,
        use,
        requester=requester,
        now_ns=now_ns,
        stands=await stands(connection, use.approval_id, now_ns),
        mark_ns=mark_ns,
    )


async def restore(turn: Turn, call_id: str) -> str | None:
    """Give back what a call consumed, once; the approval's id when it was given back."""
    approval_id: str | None = await turn.connection.fetchval(
        "UPDATE approval SET status = 'approved', consumed_by = NULL, restored = restored + 1"
        " WHERE consumed_by = $1 AND status = 'consumed' AND restored < 1 RETURNING approval_id",
        call_id,
    )
    return approval_id


async def take_token(turn: Turn, project: str, approval_id: str, now_ns: int) -> bool:
    """Whether this is the first time the approved request's token is asked for."""
    done = await turn.connection.execute(
        "UPDATE approval SET token_taken = true WHERE approval_id = $1 AND project = $2"  # noqa: S608
        " AND status = 'approved' AND NOT token_taken AND expires_at_ns > $3"
        f" AND {_stands('$3')}",
        *(approval_id, project, now_ns),
    )
    return _changed(done)


def _changed(status: str) -> bool:
    return not status.endswith(" 0")


async def _select(connection: Connection, where: str, *values: object) -> list[ApprovalRow]:
    rows = await connection.fetch(
        f"SELECT {APPROVAL_COLUMNS}, summary FROM approval {where}",  # noqa: S608
        *values,
    )
    votes: dict[str, list[Vote]] = {row["approval_id"]: [] for row in rows}
    if votes:
        cast = await connection.fetch(
            "SELECT approval_id, voter, decision, reason, voted_at_ns, shown_digest, authn"
            " FROM vote WHERE approval_id = ANY($1) ORDER BY voted_at_ns",
            list(votes),
        )
        for vote in cast:
            fields = dict(vote)
            fields["authn"] = decode_authn(fields["authn"])
            votes[fields.pop("approval_id")].append(Vote(**fields))
    return [approval_of(tuple(row), votes[row["approval_id"]]) for row in rows]
