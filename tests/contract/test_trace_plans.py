"""What is asked often of a full store on Postgres is found by an index, not by reading a table."""

import asyncio
import json

import msgspec
import pytest
import trace_stores

from processors.model.step import Step
from processors.model.trace import AgentTrace
from sidecar.store.envelope import SealBroken
from sidecar.store.location import read_location
from sidecar.store.outbox import Advance, Lane, Outgoing
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.open_traces import PostgresOpenTraces
from sidecar.store.postgres.outbox import PostgresExportProgress, PostgresOutbox
from sidecar.store.postgres.published import PostgresPublished
from sidecar.store.postgres.verdicts import PostgresVerdicts
from sidecar.store.traces import (
    CursorMove,
    Digests,
    Due,
    Intake,
    Part,
    Publication,
    Quarantined,
    Retention,
    TraceQuery,
    content_digest,
)
from sidecar.store.verdicts import VerdictQuery

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

DAY_NS = 86_400_000_000_000
NOW_NS = 20_000 * DAY_NS
FILLED = {
    "cursor": "SELECT 'journal:' || n, n FROM n",
    "open_trace": "SELECT n, 'shop', lpad(n::text, 32, '0'), 2, 2 - (n % 100 = 0)::int,"
    f" {NOW_NS} - n, {NOW_NS} - n, {NOW_NS} + n * 1000000 FROM n",
    "part": "SELECT n / 2, 'telemetry', lpad((n / 2)::text, 32, '0'), 1, 9, 'x'::bytea FROM n",
    "run_key": "SELECT 'shop', lpad(n::text, 32, '0'), n, lpad(n::text, 32, '0'), NULL FROM n",
    "clue": "SELECT 'shop', decode(md5(n::text), 'hex'), n FROM n",
    "trace": "SELECT 'p' || n % 3, lpad((n / 2)::text, 32, '0'), 1 + n % 2, n % 2 = 1,"
    f" 's' || n % 20, '1', {NOW_NS} - n * 1000, {NOW_NS}, 3, 'complete', 'unverified', '',"
    f" {NOW_NS} - n * 1000, 'f', 'c' FROM n",
    "superseded": "SELECT 'shop', 'x' || n, lpad(n::text, 32, '0') FROM n",
    "quarantine": f"SELECT 'j', n, 'shop', 'r', {NOW_NS} - n, 'x'::bytea FROM n",
    "export_item": "SELECT 'shop', 'traces', 1, n * 100, 1, 'x'::bytea FROM n",
    "export_sent": "SELECT n, 'x'::bytea FROM n",
    "verdict": "SELECT md5(n::text), 'p' || n % 3, 'suite', 'a', 'b', 'PASS', 0, n, 'd',"
    " 'x'::bytea FROM n",
}
COLUMNS = {
    "open_trace": "(open_id, project, key, version, published_version, touched_ns, dirty_ns,"
    " expires_ns)",
    "part": "(open_id, kind, key, items, bytes, sealed)",
    "trace": "(project, trace_id, revision, newest, service, service_version, started_ns,"
    " ended_ns, steps, completeness, outcome, contradictions, published_ns, facts_digest,"
    " content_digest)",
    "quarantine": "(source, seq, project, reason, stored_ns, sealed)",
    "export_item": "(project, signal, items, end_offset, stored_ns, sealed)",
}
ROWS = 6000


class Explaining(Database):
    """The plan of every statement, as it is about to run with its values."""

    def __init__(self, location, *, schema):
        self.plans = []
        super().__init__(location, schema=schema)

    async def connect(self):
        return _Explained(await super().connect(), self.plans)

    async def _attempt(self, job, seconds):
        return await super()._attempt(lambda c: job(_Explained(c, self.plans)), seconds)


class _Explained:
    def __init__(self, connection, plans):
        self._connection = connection
        self._plans = plans

    def __getattr__(self, name):
        return getattr(self._connection, name)

    async def fetch(self, statement, *values):
        return await self._run("fetch", statement, values)

    async def fetchrow(self, statement, *values):
        return await self._run("fetchrow", statement, values)

    async def fetchval(self, statement, *values):
        return await self._run("fetchval", statement, values)

    async def execute(self, statement, *values):
        return await self._run("execute", statement, values)

    async def _run(self, name, statement, values):
        if statement.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"):
            found = await self._connection.fetchval(f"EXPLAIN (FORMAT JSON) {statement}", *values)
            self._plans.append((statement, json.loads(found)[0]["Plan"]))
        return await getattr(self._connection, name)(statement, *values)


def scanned(plan):
    """The tables that a plan reads from end to end."""
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for below in plan.get("Plans", ()):
        yield from scanned(below)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    kept = trace_stores.made("postgres", tmp_path_factory.mktemp("plans"))
    kept.prepare_outbox([Lane(name="a", bytes_max=1 << 40)])
    for table, select in FILLED.items():
        kept.rows(
            f"WITH n AS (SELECT n::bigint FROM generate_series(1, {ROWS}) AS n)"
            f" INSERT INTO {table} {COLUMNS.get(table, '')} {select}"
        )
    kept.rows("SELECT setval('open_id', 1000000)")
    kept.rows("UPDATE export_cursor SET seq = 3000, end_offset = 300000")
    kept.rows("ANALYZE")
    yield kept
    kept.close()


@pytest.fixture
def explaining(filled):
    database = Explaining(read_location(filled.url), schema="traces")
    yield database
    database.close()


def check(database):
    """No statement read a filled table from end to end."""
    wrong = {
        statement: tables
        for statement, plan in database.plans
        if (tables := set(scanned(plan)) & FILLED.keys())
    }
    assert database.plans and not wrong


@pytest.fixture
def store(explaining):
    made = PostgresOpenTraces(explaining, sealers=trace_stores.sealers, source="me")
    yield made
    made.close()


@pytest.mark.parametrize(
    "query",
    [
        TraceQuery(project="p1"),
        TraceQuery(project="p1", service="s4"),
        TraceQuery(project="p1", service="none"),
        TraceQuery(service="s4"),
        TraceQuery(project="p1", since_ns=NOW_NS - 9000, until_ns=NOW_NS - 2000),
        TraceQuery(project="p1", after=(NOW_NS - 9000, "0" * 32)),
        TraceQuery(),
    ],
    ids=lambda query: str(query.service or query.project),
)
def test_traces_are_listed_in_order_from_an_index(explaining, store, query):
    store.list_traces(query)
    check(explaining)


def test_one_trace_is_found_by_its_id(explaining, store):
    store.get_trace(f"{5:032d}", "p1")
    store.get_trace(f"{5:032d}", "p1", 1)
    store.revisions(f"{5:032d}", "p1")
    store.facts_digest("p1", f"{5:032d}")
    check(explaining)


def test_the_pipeline_takes_in_and_publishes_by_index(explaining, store):
    assert store.cursor("journal:7") == 7
    keys = [f"{number:032d}" for number in (5, 6, 10**9)]
    parts = tuple(
        Part(
            project="shop", key=key, kind="telemetry", payload=b"p", expires_ns=NOW_NS + 9,
            clues=(b"c" * 16,),
        )
        for key in keys
    )  # fmt: skip
    bad = Quarantined(source="j", seq=9999, project="shop", reason="r", payload=b"x")
    item = Outgoing(project="shop", signal="traces", items=1, payload=b"x")
    move = CursorMove(name="journal:7", before=7, after=8)
    intake = Intake(
        move=move, parts=parts, quarantined=(bad,), exports=(item,), now_ns=NOW_NS - 10**9
    )
    asyncio.run(store.take_in(intake))
    found = store.due(Due(now_ns=NOW_NS, idle_ns=1, open_max_ns=10**12, limit=5))
    assert len(found) == 5
    with pytest.raises(SealBroken):
        store.parts(found[0])
    store.sent(found[0].open_id)
    steps = (Step(step_id="s", kind="other", name="s", start_ns=1),)
    made = AgentTrace(trace_id="t", trace_ids=("t", "u"), project="shop", steps=steps)
    publication = Publication(
        open_id=found[0].open_id, version=found[0].version, traces=(made,), sent=b"s" * 16,
        digests=(Digests(content=content_digest(made), facts="f"),), exports=(item,),
        clues=(b"d" * 16,), now_ns=NOW_NS,
    )  # fmt: skip
    assert asyncio.run(store.publish([publication])) == 1
    check(explaining)


def test_followers_and_exporters_read_on_from_their_place(explaining):
    published = PostgresPublished(explaining)
    published.after(published.place() - 10, TraceQuery(project="p1"))
    outbox = PostgresOutbox(explaining, sealers=trace_stores.sealers)
    place = outbox.position("a")
    outbox.items_after(place, count_max=10, bytes_max=1000)
    asyncio.run(outbox.advance(Advance(name="a", seq=place + 5)))
    PostgresExportProgress(explaining).progress()
    outbox.close()
    check(explaining)


def test_verdicts_are_found_by_id_and_listed_from_an_index(explaining):
    verdicts = PostgresVerdicts(explaining)
    with pytest.raises(msgspec.DecodeError):
        verdicts.get_verdict("c4ca4238")
    verdicts.list_verdicts(VerdictQuery(project="p1", suite="other"))
    verdicts.list_verdicts(VerdictQuery(after=(50, "x")))
    check(explaining)


def test_housekeeping_looks_only_at_what_goes(explaining, store):
    asyncio.run(store.expire(NOW_NS + 2_000_000, 10))
    retention = Retention(now_ns=NOW_NS + DAY_NS, limit=10, otherwise_ns=DAY_NS + 5_000_000)
    asyncio.run(store.prune(retention))
    check(explaining)
