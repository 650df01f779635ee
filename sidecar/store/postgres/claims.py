"""Claims on idempotency keys on Postgres.

**Rules**
1. Every change is a compare-and-set on the fence and the state that were seen.
2. Only ``claimed`` may become ``sent``; only the holder of the fence may end a claim.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from sidecar.store.ledger import (
    TOMBSTONE_NS,
    Claim,
    ClaimEnd,
    ClaimState,
    Fence,
    Intent,
    Scope,
    Seen,
)
from sidecar.store.postgres.connection import Connection
from sidecar.store.postgres.stops import ACTIVE
from sidecar.store.reading import POLICY_REVISION
from sidecar.store.sealing import ClaimRow
from sidecar.store.stop import StopKind, kinds_that_stop, strongest

_COLUMNS = (
    "claim_id, project, principal, tool, key_hash, fingerprint, state, owner, lease_until_ns,"
    " fence, attempt, call_id, updated_at_ns, expires_at_ns, approval_id, receipt_id, reason,"
    " possible, answer"
)
_OVER = "state IN ('completed', 'failed_safe', 'resolved_done', 'resolved_not_done')"
_MAY_HAVE = "(state IN ('sent', 'unknown') OR (state = 'claimed' AND possible))"
"""Whether the attempt that is taken over, or one before it, may have had its effect: the key then
expires with the first of them, since the upstream forgets its own."""
_GROUND = (
    "SELECT (SELECT value FROM gateway_state WHERE name = $1) AS revision,"  # noqa: S608
    " EXISTS (SELECT FROM api_key WHERE key_id = $2 AND revoked_at_ns IS NOT NULL) AS revoked,"
    " ARRAY(SELECT kind " + ACTIVE.format(project="$3", agent="$4", tool="$5") + ") AS stops"
)
_MAKE = (
    f"WITH ground AS ({_GROUND}), made AS ("  # noqa: S608
    "INSERT INTO claim (project, principal, tool, key_hash, fingerprint, state, owner,"
    " lease_until_ns, fence, attempt, call_id, updated_at_ns, expires_at_ns, approval_id)"
    " SELECT $3, $4, $5, $8, $9, 'claimed', $10, $11::bigint, 1, 1, $12, $13::bigint, $14::bigint,"
    " $15 FROM ground WHERE revision = $6 AND NOT revoked AND NOT stops && $7"
    " ON CONFLICT DO NOTHING RETURNING claim_id)"
    " SELECT revision, revoked, stops, (SELECT claim_id FROM made) AS claim_id FROM ground"
)


async def find(connection: Connection, scope: Scope) -> ClaimRow | None:
    """The claim of a scope with its sealed answer."""
    row = await connection.fetchrow(
        f"SELECT {_COLUMNS} FROM claim"  # noqa: S608
        " WHERE project = $1 AND principal = $2 AND tool = $3 AND key_hash = $4",
        *(scope.project, scope.principal, scope.tool, scope.key_hash),
    )
    return _claim(row) if row else None


async def find_of(connection: Connection, call_id: str) -> ClaimRow | None:
    """The claim whose present attempt a call made, with its sealed answer."""
    row = await connection.fetchrow(f"SELECT {_COLUMNS} FROM claim WHERE call_id = $1", call_id)  # noqa: S608
    return _claim(row) if row else None


async def in_state(
    connection: Connection, states: tuple[ClaimState, ...], limit: int
) -> list[Claim]:
    """Claims in one of the states, oldest first, without their answers."""
    rows = await connection.fetch(
        f"SELECT {_COLUMNS} FROM claim WHERE state = ANY($1)"  # noqa: S608
        " AND state IN ('claimed', 'sent', 'unknown') ORDER BY claim_id LIMIT $2",
        *(list(states), limit),
    )
    return [_claim(row)[0] for row in rows]


async def open_of(connection: Connection, owners: list[str], limit: int) -> list[Claim]:
    """Open claims of these owners, oldest first."""
    rows = await connection.fetch(
        f"SELECT {_COLUMNS} FROM claim WHERE state IN ('claimed', 'sent')"  # noqa: S608
        " AND owner = ANY($1) ORDER BY claim_id LIMIT $2",
        *(owners, limit),
    )
    return [_claim(row)[0] for row in rows]


async def owners_of_open(connection: Connection) -> list[str]:
    """Who has open claims."""
    rows = await connection.fetch(
        "SELECT DISTINCT owner FROM claim WHERE state IN ('claimed', 'sent')"
    )
    return [row[0] for row in rows]


async def call_of(connection: Connection, seen: Seen) -> str | None:
    """The call that made a claim's present attempt."""
    call_id: str | None = await connection.fetchval(
        "SELECT call_id FROM claim WHERE claim_id = $1 AND fence = $2", seen.claim_id, seen.fence
    )
    return call_id


async def ground(connection: Connection, intent: Intent) -> str | None:
    """The code of why no intent of this revision and principal may be committed, or None."""
    row = await connection.fetchrow(_GROUND, *_grounds(intent))
    assert row is not None, "the query always has one row"
    return _why_not(row, intent)


async def make(connection: Connection, intent: Intent) -> Fence | str | None:
    """Make the claim of an intent, on good ground; None when the scope is another's, else the
    code of why not. One statement, and nothing is written unless a fence is given."""
    call = intent.call
    row = await connection.fetchrow(
        _MAKE,
        *_grounds(intent),
        intent.policy_revision.encode(),
        list(kinds_that_stop(call.class_)),
        *(call.key_hash, intent.fingerprint),
        *(intent.owner, intent.lease_until_ns, call.call_id, intent.now_ns),
        *(intent.expires_at_ns, _approval_id(intent)),
    )
    assert row is not None, "the query always has one row"
    if row["claim_id"] is not None:
        return Fence(claim_id=row["claim_id"], fence=1)
    return _why_not(row, intent)


async def same(connection: Connection, intent: Intent) -> str | None:
    """A call of the same action by the same principal that had its effect lately, or may have."""
    call = intent.call
    found: str | None = await connection.fetchval(
        "SELECT call_id FROM claim WHERE project = $1 AND principal = $2 AND tool = $3"
        " AND fingerprint = $4 AND (state IN ('claimed', 'sent', 'unknown')"
        " OR (state IN ('completed', 'resolved_done') AND updated_at_ns > $5)) LIMIT 1",
        *(call.project, call.principal, call.tool, intent.fingerprint, intent.distinct_since_ns),
    )
    return found


async def forget(connection: Connection, now_ns: int, limit: int, since_ns: int = 0) -> int:
    """Drop stored answers that have expired, then claims nothing is remembered for; how many.

    An irreversible call's claim stays for ``TOMBSTONE_NS`` more, without its answer. Of the others
    those are looked at that have expired since ``since_ns``.
    """
    # ARRAY is made once; a sub-select with a limit that is joined may be run again for each row.
    erased = await connection.execute(
        "UPDATE claim SET answer = NULL WHERE claim_id = ANY (ARRAY (SELECT claim_id FROM claim"  # noqa: S608
        f" WHERE expires_at_ns <= $1 AND {_OVER} AND answer IS NOT NULL"
        " ORDER BY expires_at_ns LIMIT $2 FOR UPDATE SKIP LOCKED))",
        *(now_ns, limit),
    )
    dropped = [
        await connection.execute(
            "DELETE FROM claim WHERE claim_id = ANY (ARRAY (SELECT claim_id FROM claim"  # noqa: S608
            f" JOIN call USING (call_id) WHERE expires_at_ns > $1 AND expires_at_ns <= $2"
            f" AND {_OVER} AND call.class {which} 'irreversible'"
            " ORDER BY expires_at_ns LIMIT $3 FOR UPDATE OF claim SKIP LOCKED))",
            *(first_ns, last_ns, limit),
        )
        for which, first_ns, last_ns in (
            ("<>", since_ns, now_ns),
            ("=", 0, now_ns - TOMBSTONE_NS),
        )
    ]
    return sum(int(each.rpartition(" ")[2]) for each in (erased, *dropped))


async def mark_sent(
    connection: Connection, claim: Fence, now_ns: int, kinds: Sequence[StopKind]
) -> bool:
    """From ``claimed`` to ``sent``, before the first byte leaves; False when the fence is gone, or
    a stop of one of these kinds stands."""
    return _changed(
        await connection.execute(
            "UPDATE claim SET state = 'sent', updated_at_ns = $1"  # noqa: S608
            " WHERE claim_id = $2 AND fence = $3 AND state = 'claimed' AND NOT EXISTS (SELECT "
            + ACTIVE.format(project="claim.project", agent="claim.principal", tool="claim.tool")
            + " AND kind = ANY($4))",
            *(now_ns, claim.claim_id, claim.fence, list(kinds)),
        )
    )


async def end(
    connection: Connection,
    ended: ClaimEnd,
    *,
    now_ns: int,
    receipt_id: str,
    answer: bytes | None,
) -> bool | None:
    """Set how a claim ended: whether its call still holds amounts; None when another holds the
    claim or it has ended already."""
    holds: bool | None = await connection.fetchval(
        "UPDATE claim SET state = $1, reason = $2, receipt_id = $3, answer = $4,"
        " updated_at_ns = $5"
        " WHERE claim_id = $6 AND fence = $7 AND state IN ('claimed', 'sent', 'unknown')"
        " RETURNING EXISTS (SELECT FROM budget_hold WHERE budget_hold.call_id = $8"
        " AND budget_hold.state = 'held')",
        *(ended.state, ended.reason, receipt_id, answer, now_ns),
        *(ended.claim.claim_id, ended.claim.fence, ended.call_id),
    )
    return holds


async def take_over(connection: Connection, intent: Intent) -> Fence | None:
    """Take over the claim an intent has seen; None when it has moved since."""
    seen = intent.expected
    assert seen is not None
    done = await connection.execute(
        "UPDATE claim SET state = 'claimed', fingerprint = $1, owner = $2,"  # noqa: S608
        " lease_until_ns = $3,"
        " fence = fence + 1, attempt = attempt + 1, call_id = $4, updated_at_ns = $5,"
        f" expires_at_ns = CASE WHEN {_MAY_HAVE} THEN expires_at_ns ELSE $6 END,"
        f" possible = {_MAY_HAVE},"
        " approval_id = $7, receipt_id = NULL, reason = NULL, answer = NULL"
        " WHERE claim_id = $8 AND fence = $9 AND state = $10",
        *(intent.fingerprint, intent.owner, intent.lease_until_ns, intent.call.call_id),
        *(intent.now_ns, intent.expires_at_ns, _approval_id(intent)),
        *(seen.claim_id, seen.fence, seen.state),
    )
    return Fence(claim_id=seen.claim_id, fence=seen.fence + 1) if _changed(done) else None


def _grounds(intent: Intent) -> tuple[str, ...]:
    call = intent.call
    who = (call.project, call.principal, call.tool)
    return (POLICY_REVISION, call.principal.removeprefix("key:"), *who)


def _why_not(row: Any, intent: Intent) -> str | None:
    if row["revision"] != intent.policy_revision.encode():
        return "policy_changed"
    if row["revoked"]:
        return "key_revoked"
    falls = kinds_that_stop(intent.call.class_)
    return strongest([kind for kind in row["stops"] if kind in falls])


def _approval_id(intent: Intent) -> str | None:
    return intent.approval.approval_id if intent.approval else None


def _changed(status: str) -> bool:
    return not status.endswith(" 0")


def _claim(row: Any) -> ClaimRow:
    fields = dict(row)
    sealed = fields.pop("answer")
    return msgspec.convert(fields, Claim), sealed
