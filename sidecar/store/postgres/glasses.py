"""Break-glass on Postgres: what runs inside the writer's turn.

**Rules**
1. Opening, breaking and reviewing are one transaction each, with their entry in the chain.
2. Breaking approves the request in the same transaction, or does not happen.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from sidecar.store import glass as rules
from sidecar.store.glass import BreakGlass, GlassBallot, GlassVote
from sidecar.store.postgres import approvals, chain, vault
from sidecar.store.postgres.chain import Turn
from sidecar.store.postgres.connection import Connection
from sidecar.store.postgres.query import where as conditions
from sidecar.store.postgres.text import kept
from sidecar.store.reading import POLICY_REVISION
from sidecar.store.step_up import decode_authn, encode_authn

_COLUMNS = (
    "glass_id, project, approval_id, document, digest, kid, signature, opened_at_ns,"
    " expires_at_ns, broken_at_ns, reviewed_at_ns, reviewed_by, review"
)
Append = Callable[[Turn, str, str, int, dict[str, Any]], Awaitable[None]]


async def find(connection: Connection, project: str | None, glass_id: str) -> BreakGlass | None:
    """One glass with its votes."""
    clause, values = conditions({"glass_id = {}": glass_id, "project = {}": project})
    found = await _select(connection, clause, *values)
    return found[0] if found else None


async def newest(connection: Connection, project: str | None, limit: int) -> list[BreakGlass]:
    """Glasses: those whose review is open first, then the newest."""
    return await _select(
        connection,
        "WHERE ($1::text IS NULL OR project = $1)"
        " ORDER BY broken_at_ns IS NULL OR reviewed_at_ns IS NOT NULL, opened_at_ns DESC, glass_id"
        " LIMIT $2",
        *(project, limit),
    )


async def open_(turn: Turn, wanted: BreakGlass, ballot: GlassBallot, append: Append) -> str | None:
    """Keep a signed glass with its first vote: None, or the code of why not."""
    code = await _why_not(turn.connection, wanted.approval_id, ballot)
    if code is not None:
        return code
    opened: bool = await turn.connection.fetchval(
        "SELECT EXISTS (SELECT FROM glass WHERE approval_id = $1 AND broken_at_ns IS NULL"
        " AND expires_at_ns > $2)",
        *(wanted.approval_id, ballot.now_ns),
    )
    if opened:
        return "glass_open"
    names = _COLUMNS.split(", ")
    marks = ",".join(f"${place}" for place in range(1, len(names) + 1))
    await turn.connection.execute(
        f"INSERT INTO glass ({_COLUMNS}) VALUES ({marks})",  # noqa: S608
        *(getattr(wanted, name) for name in names),
    )
    await _add_vote(turn, ballot)
    body = rules.opened_entry(wanted, ballot)
    await append(turn, "glass_opened", wanted.project, ballot.now_ns, body)
    return None


async def break_(turn: Turn, ballot: GlassBallot, lasts_ns: int, append: Append) -> str | None:
    """The second vote, which approves the request: None, or the code of why it does not count."""
    found = await find(turn.connection, ballot.project, ballot.glass_id)
    code = rules.why_not_broken(found, ballot)
    if code is None and found is not None:
        code = await _why_not(turn.connection, found.approval_id, ballot)
    if code is not None or found is None:
        return code
    if not await _add_vote(turn, ballot):
        return "vote_repeated"
    row = await approvals.find(turn.connection, ballot.project, found.approval_id)
    assert row is not None, "a glass is of a request"
    await turn.connection.execute(
        "UPDATE glass SET broken_at_ns = $1 WHERE glass_id = $2", ballot.now_ns, ballot.glass_id
    )
    until_ns = rules.use_by(row[0], ballot.now_ns, lasts_ns)
    await turn.connection.execute(
        "UPDATE approval SET status = 'approved', glass_id = $1, execute_by_ns = $2,"
        " expires_at_ns = $2 WHERE approval_id = $3 AND status = 'pending'",
        *(ballot.glass_id, until_ns, found.approval_id),
    )
    body = rules.word_entry(found, ballot, execute_by_ns=str(until_ns))
    await append(turn, "glass_broken", ballot.project, ballot.now_ns, body)
    said = rules.resolved(row[0], ballot, until_ns)
    await append(turn, "approval_resolved", ballot.project, ballot.now_ns, said)
    await approvals.tell(turn, found.approval_id)
    return None


async def review(turn: Turn, ballot: GlassBallot, append: Append) -> str | None:
    """Close a review: None, or the code of why it stays open."""
    found = await find(turn.connection, ballot.project, ballot.glass_id)
    code = rules.why_not_reviewed(found, ballot)
    if code is not None or found is None:
        return code
    if await approvals.is_revoked(turn.connection, ballot.voter):
        return "approver_not_eligible"
    own: bool = await turn.connection.fetchval(
        "SELECT EXISTS (SELECT FROM glass_vote WHERE glass_id = $1 AND identity = $2)",
        *(ballot.glass_id, kept(ballot.identity)),
    )
    if own:
        return "self_review"
    await turn.connection.execute(
        "UPDATE glass SET reviewed_at_ns = $1, reviewed_by = $2, review = $3 WHERE glass_id = $4",
        *(ballot.now_ns, ballot.voter, kept(ballot.reason), ballot.glass_id),
    )
    body = rules.word_entry(found, ballot)
    await append(turn, "glass_reviewed", ballot.project, ballot.now_ns, body)
    return None


async def _why_not(connection: Connection, approval_id: str, ballot: GlassBallot) -> str | None:
    row = await approvals.find(connection, ballot.project, approval_id)
    revision = await vault.get_state(connection, POLICY_REVISION)
    code = rules.why_not_voted(
        row[0] if row else None,
        ballot,
        revision=None if revision is None else revision.decode(),
        mark_ns=await chain.latest(connection),
    )
    if code is not None:
        return code
    if await approvals.is_revoked(connection, ballot.voter):
        return "approver_not_eligible"
    voted: bool = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM vote WHERE approval_id = $1 AND identity = $2)",
        *(approval_id, kept(ballot.identity)),
    )
    return "vote_repeated" if voted else None


async def _add_vote(turn: Turn, ballot: GlassBallot) -> bool:
    done = await turn.connection.execute(
        "INSERT INTO glass_vote (glass_id, identity, voter, reason, voted_at_ns, digest, authn)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        *(ballot.glass_id, kept(ballot.identity), ballot.voter, kept(ballot.reason)),
        *(ballot.now_ns, ballot.digest, kept(encode_authn(ballot.authn))),
    )
    return not done.endswith(" 0")


async def _select(connection: Connection, clause: str, *values: object) -> list[BreakGlass]:
    rows = await connection.fetch(f"SELECT {_COLUMNS} FROM glass {clause}", *values)  # noqa: S608
    votes: dict[str, list[GlassVote]] = {row["glass_id"]: [] for row in rows}
    if votes:
        cast = await connection.fetch(
            "SELECT glass_id, voter, reason, voted_at_ns, digest, authn FROM glass_vote"
            " WHERE glass_id = ANY($1) ORDER BY voted_at_ns",
            list(votes),
        )
        for vote in cast:
            fields = dict(vote)
            fields["authn"] = decode_authn(fields["authn"])
            votes[fields.pop("glass_id")].append(GlassVote(**fields))
    return [BreakGlass(**dict(row), votes=tuple(votes[row["glass_id"]])) for row in rows]
