"""A rolling upgrade: what an earlier release asks of the store still runs on the newest schema.

``releases/traces_NNNN.json`` holds every statement with its values that the program of schema NNNN
runs in ``life``. Written once, when the next schema is added, and never again:

    python tests/contract/test_trace_releases.py > tests/contract/releases/traces_NNNN.json
"""

import asyncio
import base64
import json
import sys
from pathlib import Path

import asyncpg
import pytest
import trace_stores
from msgspec.structs import replace

from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.model.verdict import Verdict
from sidecar.store.datasets import DatasetChange, DatasetVersion, Erasure, KeptItem
from sidecar.store.location import read_location
from sidecar.store.outbox import Advance, Lane, Outgoing, Tally
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.datasets import PostgresDatasets
from sidecar.store.postgres.migrations import applied, migrate, migrations
from sidecar.store.postgres.open_traces import PostgresOpenTraces
from sidecar.store.postgres.outbox import PostgresExportProgress, PostgresOutbox, prepare_outbox
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

RELEASES = sorted((Path(__file__).parent / "releases").glob("traces_*.json"))
A, B, C = "a" * 32, "b" * 32, "c" * 32
DAY_NS = 86_400_000_000_000


class Recording(Database):
    """Writes down every statement before it runs, whatever connection it runs on."""

    def __init__(self, location, *, schema):
        self.statements = []
        super().__init__(location, schema=schema)

    async def connect(self):
        return _Recorded(await super().connect(), self.statements)

    async def _attempt(self, job, seconds):
        return await super()._attempt(lambda c: job(_Recorded(c, self.statements)), seconds)


class _Recorded:
    def __init__(self, connection, statements):
        self._connection = connection
        self._statements = statements

    def __getattr__(self, name):
        found = getattr(self._connection, name)
        if name == "executemany":
            return self._many
        if name not in ("fetch", "fetchrow", "fetchval", "execute"):
            return found

        async def run(statement, *values):
            self._statements.append([statement, [_written(value) for value in values]])
            return await found(statement, *values)

        return run

    async def _many(self, statement, rows):
        for row in rows:
            self._statements.append([statement, [_written(value) for value in row]])
            await self._connection.execute(statement, *row)


def _written(value):
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return [_written(each) for each in value] if isinstance(value, (list, tuple)) else value


def _read(value):
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return [_read(each) for each in value] if isinstance(value, list) else value


def part(key, payload, *, clues=(), expires_ns=50):
    return Part(
        project="shop", key=key, kind="telemetry", payload=payload, expires_ns=expires_ns,
        clues=clues,
    )  # fmt: skip


def life(database):
    """All that the program does with a trace store, once."""
    prepare_outbox(database, [Lane(name="a", bytes_max=1 << 20)])
    store = PostgresOpenTraces(database, sealers=trace_stores.sealers, source="me")
    outbox = PostgresOutbox(database, sealers=trace_stores.sealers)
    item = Outgoing(project="shop", signal="traces", items=1, payload=b"x")
    bad = Quarantined(source="j", seq=1, project="shop", reason="r", payload=b"x")
    steps = [
        {"parts": (part(A, b"1", clues=(b"w" * 16,)), part(B, b"2")), "quarantined": (bad,)},
        {"parts": (part(B, b"3", clues=(b"w" * 16,)), part("log:s", b"4")), "exports": (item,)},
        {"parts": (part(C, b"5"),), "dropped": {"looped": 2}},
    ]
    for number, each in enumerate(steps):
        move = CursorMove(name="j", before=number, after=number + 1)
        asyncio.run(store.take_in(Intake(move=move, now_ns=10 + number, **each)))
    for opened in store.due(Due(now_ns=100, idle_ns=1, open_max_ns=9, limit=9)):
        store.parts(opened)
        store.sent(opened.open_id)
        ids = (A, B) if opened.key == A else (opened.key if opened.key != "log:s" else "d" * 32,)
        made = AgentTrace(
            trace_id=ids[0],
            trace_ids=ids,
            project="shop",
            steps=(Step(step_id="s", kind="other", name="s", start_ns=1),),
        )
        store.facts_digest("shop", made.trace_id)
        publication = Publication(
            open_id=opened.open_id, version=opened.version, traces=(made,), exports=(item,),
            digests=(Digests(content=content_digest(made), facts="f"),), sent=b"s" * 16,
            clues=(b"c" * 16,), now_ns=DAY_NS + 7,
        )  # fmt: skip
        asyncio.run(store.publish([publication]))
    store.cursor("j"), store.dropped()
    store.list_traces(TraceQuery(project="shop", since_ns=0, until_ns=9, after=(5, A)))
    store.get_trace(B, "shop"), store.revisions(A, "shop")
    published = PostgresPublished(database)
    published.after(published.place() - 1, TraceQuery(service="x"))
    place = outbox.position("a")
    waiting = outbox.items_after(place, count_max=9, bytes_max=99)
    tally = Tally(signal="traces", fate="sent", items=1)
    asyncio.run(outbox.advance(Advance(name="a", seq=waiting[0].seq, tallies=(tally,))))
    PostgresExportProgress(database).progress()
    verdicts = PostgresVerdicts(database)
    verdicts.add_verdict(
        Verdict(
            verdict_id="v1",
            project="shop",
            suite="s",
            baseline="a",
            candidate="b",
            status="PASS",
            exit_code=0,
            findings=(),
            failures=(),
            counts={},
            created_at_ns=1,
            digest="d",
            evidence={},
        )
    )
    verdicts.get_verdict("v", "shop"), verdicts.list_verdicts(VerdictQuery(project="shop"))
    datasets = PostgresDatasets(database)
    made = DatasetVersion(
        project="shop", name="d", version=0, digest="0", items=0, created_at_ns=1
    )  # fmt: skip
    item = KeptItem(
        item_id="i", place=0, digest="1", question="q", trace_id=A, captured=True, added_in=1,
        added_at_ns=1, size_bytes=2, content=b"{}",
    )  # fmt: skip
    datasets.create_dataset(made)
    datasets.change_dataset(DatasetChange(version=replace(made, version=1), added=(item,)))
    datasets.list_datasets("shop", after=("shop", "c")), datasets.dataset_versions("shop", "d")
    datasets.dataset_items("shop", "d", 1), datasets.holding("shop", A), datasets.outliving()
    for which in ({"item_id": "x"}, {"trace_id": B}, {"before_ns": 1}):
        datasets.erase_items(Erasure(project="shop", limit=9, **which))
    asyncio.run(store.expire(60, 1))
    ages = {"ages_ns": {"shop": 1}, "items_ages_ns": {"shop": 1}}
    asyncio.run(store.prune(Retention(now_ns=9 * DAY_NS, limit=1, **ages)))
    store.close()
    outbox.close()


@pytest.fixture
def kept(tmp_path):
    made = trace_stores.made("postgres", tmp_path)
    yield made
    made.close()


async def replay(url, statements):
    """Run statements as recorded; what the lists found."""
    connection = await asyncpg.connect(url, server_settings={"search_path": "traces"})
    try:
        return [
            (statement, await connection.fetch(statement, *map(_read, values)))
            for statement, values in statements
        ]
    finally:
        await connection.close()


@pytest.mark.requirement("OPS-01")
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_an_earlier_release_runs_on_the_newest_schema(kept, release):
    statements = [each for each in json.loads(release.read_text()) if ";" not in each[0]]
    found = asyncio.run(replay(kept.url, statements))
    due = next(rows for statement, rows in found if "published_version FROM" not in statement
               and statement.startswith("SELECT open_id, project, key, version"))  # fmt: skip
    assert [row["key"] for row in due] == [A, "log:s", C]
    [content] = [rows for statement, rows in found if statement.startswith("SELECT content FROM t")]
    assert len(content) == 1, "what it published it can read"
    [verdict] = [rows for statement, rows in found if statement.startswith("SELECT content FROM v")]
    assert len(verdict) == 1


def test_every_schema_but_the_newest_has_its_release_kept():
    kept = [int(path.stem.rpartition("_")[2]) for path in RELEASES]
    assert kept == list(range(1, len(migrations("traces"))))


@pytest.mark.requirement("OPS-01")
def test_a_store_of_the_first_schema_is_brought_up_to_date_with_what_it_holds(kept):
    kept.rows("DROP SCHEMA traces CASCADE")
    database = Database(read_location(kept.url), schema="traces")
    known = migrations("traces")
    assert migrate(database, known[:1]).number == 1
    first = [each for each in json.loads(RELEASES[0].read_text()) if ";" not in each[0]]
    asyncio.run(replay(kept.url, first))
    held = kept.rows("SELECT trace_id, revision FROM trace")
    assert held
    assert migrate(database, known).number == len(known) > 1
    assert kept.rows("SELECT trace_id, revision FROM trace") == held
    assert migrate(database, known[:1]).number == len(known), "the release before goes on"
    assert applied(database).oldest <= 1
    database.close()


def main():
    """Record."""
    made = trace_stores.made("postgres", None)
    database = Recording(read_location(made.url), schema="traces")
    life(database)
    database.close()
    made.close()
    json.dump(database.statements, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
