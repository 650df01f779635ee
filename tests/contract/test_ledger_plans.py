"""The ledger's hot queries use an index, however much the ledger holds."""

import asyncio

import asyncpg
import pytest
from ledger_rig import NOW, SCOPE, asked, call, intent
from postgres_rig import database

from sidecar.store.durable import DurableQuery
from sidecar.store.ledger import CallQuery, Seen
from sidecar.store.postgres import approvals, calls, chain, claims, durables

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

FILL = f"""
INSERT INTO claim (project, principal, tool, key_hash, fingerprint, state, owner, lease_until_ns,
        fence, attempt, call_id, updated_at_ns, expires_at_ns)
    SELECT 'p' || n % 20, 'a', 't', 'k' || n, 'h', CASE WHEN n % 500 = 0 THEN 'sent'
        WHEN n % 501 = 0 THEN 'unknown' ELSE 'completed' END, 'o' || n % 3, 0, 1, 1, 'c' || n, 0,
        {NOW} + n * 1000000000::bigint
    FROM generate_series(1, 20000) n;
INSERT INTO call SELECT 'c' || n, 'p' || n % 20, 'a', 't', 'read', 'executed', 200, 'confirmed',
        'allow', NULL, NULL, 'tr' || n % 5000, {NOW} + n, {NOW} + n, NULL
    FROM generate_series(1, 20000) n;
INSERT INTO receipt SELECT 'r' || n, 'c' || n, n FROM generate_series(1, 20000) n;
INSERT INTO audit SELECT n, 0, 'p' || n % 20, 'executed', '{{}}', '', ''
    FROM generate_series(1, 20000) n;
INSERT INTO approval (approval_id, project, requester, requester_name, tool, action_hash, key_hash,
        policy_revision, tool_digest, status, summary, shown_digest, roles, requested_at_ns,
        expires_at_ns, approvers_min, decision_id, consumed_by)
    SELECT 'ap' || n, 'p' || n % 20, 'a', '', 't', 'h' || n, 'k' || n, 'r', 'd', 'consumed', '',
        's', '', {NOW} + n, 0, 1, '', 'c' || n FROM generate_series(1, 20000) n;
INSERT INTO vote SELECT 'ap' || n, 'v', 'v', 'approve', '', 0, '' FROM generate_series(1, 20000) n;
INSERT INTO durable SELECT 'd' || n, 'p' || n % 20, 'a', 't', 'k' || n, 'f', CASE WHEN n % 500 = 0
        THEN 'waiting' ELSE 'done' END, 1, {NOW} + n, {NOW} + n, {NOW} + n, {NOW} + n, NULL, NULL,
        0, NULL FROM generate_series(1, 20000) n;
INSERT INTO stop SELECT 's' || n, 'p' || n % 20, 'kill', 'agent', 'a' || n, '', '', {NOW} + n, {NOW}
    FROM generate_series(1, 20000) n;
INSERT INTO api_key SELECT 'k' || n, 'agent', 'p', '', '', 0
    FROM generate_series(1, 5000) n;
ANALYZE
"""


class Explaining:
    """A connection that plans what it is asked and answers nothing."""

    def __init__(self, connection):
        self._connection = connection
        self.plans = []

    async def fetch(self, query, *values):
        rows = await self._connection.fetch(f"EXPLAIN {query}", *values)
        self.plans.append("\n".join(row[0] for row in rows))
        return []

    async def fetchrow(self, query, *values):
        await self.fetch(query, *values)

    async def fetchval(self, query, *values):
        await self.fetch(query, *values)

    async def execute(self, query, *values):
        await self.fetch(query, *values)
        return "UPDATE 0"


class Turn:
    def __init__(self, connection):
        self.connection = connection


FEW = ("audit_head", "gateway_state")
"""Tables of a handful of rows, always."""
HOT = {
    "make": lambda c: claims.make(c, intent()),
    "ground": lambda c: claims.ground(c, intent()),
    "call_of": lambda c: claims.call_of(c, Seen(claim_id=1, fence=1, state="sent")),
    "same": lambda c: claims.same(c, intent(distinct_since_ns=NOW)),
    "claim_of": lambda c: claims.find_of(c, "c1"),
    "forget": lambda c: claims.forget(c, NOW, 100, NOW - 10**9),
    "prune_durable": lambda c: durables.prune(c, NOW + 100, 100),
    "durable_of": lambda c: durables.find_of(c, SCOPE),
    "due_durable": lambda c: durables.due(c, NOW + 10_000, 32),
    "find_durable": lambda c: durables.find(c, "p1", "d1"),
    "list_durable": lambda c: durables.newest(c, DurableQuery(project="p1", limit=50)),
    "find_claim": lambda c: claims.find(c, SCOPE),
    "owners_of_open": claims.owners_of_open,
    "open_of": lambda c: claims.open_of(c, ["o1"], 100),
    "unresolved": lambda c: claims.in_state(c, ("unknown",), 100),
    "get_call": lambda c: calls.find(c, "p1", "c1"),
    "get_receipt": lambda c: calls.find_receipt(c, "p1", "r1"),
    "opened_call": lambda c: calls.find_opened(c, "c1"),
    "prior_tools": lambda c: calls.prior_tools(c, call(trace_id="tr1")),
    "counted": lambda c: calls.counted(c, call(), NOW + 19_990, True),
    "counted_in_session": lambda c: calls.counted_in_session(c, call(trace_id="tr1")),
    "facts_after": lambda c: calls.facts_after(c, 19_000, 100),
    "list_calls": lambda c: calls.list_newest(c, CallQuery(project="p1", limit=50)),
    "list_calls_after": lambda c: calls.list_newest(
        c, CallQuery(project="p1", limit=50, after=(NOW + 5000, "c5000"))
    ),
    "list_all_calls": lambda c: calls.list_newest(c, CallQuery(limit=50)),
    "list_approvals": lambda c: approvals.list_newest(c, "p1", 50),
    "list_all_approvals": lambda c: approvals.list_newest(c, None, 50),
    "find_approval": lambda c: approvals.find(c, "p1", "ap1"),
    "find_asked": lambda c: approvals.find_asked(c, asked(project="p1")),
    "restore": lambda c: approvals.restore(Turn(c), "c1"),
    "is_revoked": lambda c: approvals.is_revoked(c, "key:k1"),
    "standing": lambda c: approvals.standing(c, "ap1", NOW),
    "read_end": chain.read_end,
    "entries_after": lambda c: chain.read_entries(c, 19_000, 100),
}


@pytest.fixture(scope="module")
def filled():
    with database() as url:

        async def fill():
            connection = await asyncpg.connect(url, server_settings={"search_path": "ledger"})
            await connection.execute(FILL)
            await connection.close()

        asyncio.run(fill())
        yield url


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_reads_no_table_whole(filled, name):
    async def main():
        connection = await asyncpg.connect(filled, server_settings={"search_path": "ledger"})
        explaining = Explaining(connection)
        try:
            try:
                await HOT[name](explaining)
            except AssertionError:
                pass  # it was promised a row
        finally:
            await connection.close()
        return explaining.plans

    plans = asyncio.run(main())
    assert plans
    for plan in plans:
        whole = [line for line in plan.splitlines() if "Seq Scan on" in line]
        assert not [line for line in whole if not any(few in line for few in FEW)], plan
