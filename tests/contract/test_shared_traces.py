"""Many sidecars on one database: each has its own cursor, and a trace is one wherever it came."""

import asyncio
import itertools
import random
import time

import pytest
import trace_stores
from msgspec.structs import replace

from processors.model.step import Source, Step
from processors.model.trace import AgentTrace
from sidecar.store.location import read_location
from sidecar.store.outbox import Advance, Lane, Outgoing, Tally
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.open_traces import PostgresOpenTraces
from sidecar.store.postgres.outbox import PostgresOutbox, prepare_outbox
from sidecar.store.postgres.published import PostgresPublished
from sidecar.store.traces import (
    Bounds,
    CursorMove,
    Digests,
    Due,
    Intake,
    Part,
    Publication,
    Retention,
    TraceQuery,
    content_digest,
)
from sidecar.store.verdicts import VerdictQuery

FOREVER = 1 << 60
ALL = TraceQuery(limit=10_000)


class Sidecar:
    """A pipeline's store, over connections of its own."""

    def __init__(self, url, name, **more):
        self.name = name
        self.database = Database(read_location(url), schema="traces")
        self.store = PostgresOpenTraces(
            self.database, sealers=trace_stores.sealers, source=name, **more
        )
        self.place = 0

    async def take(self, *parts, now_ns=100, exports=()):
        move = CursorMove(name=self.name, before=self.place, after=self.place + 1)
        await self.store.take_in(Intake(move=move, parts=parts, exports=exports, now_ns=now_ns))
        self.place += 1

    def due(self, limit=100):
        return self.store.due(Due(now_ns=10_000, idle_ns=1, open_max_ns=1000, limit=limit))

    async def publish(self, opened, now_ns=500):
        """An open trace as a trace with a step for each part, under the first of its keys."""
        names = [payload.decode() for _, payload in self.store.parts(opened)]
        before = [self.store.get_trace(base, opened.project, n) for base, n in opened.bases]
        names += [step.name for base in before if base for step in base.steps]
        made = trace(opened.key, sorted(set(names)))
        publication = Publication(
            open_id=opened.open_id,
            version=opened.version,
            traces=(made,),
            digests=(Digests(content=content_digest(made), facts="f"),),
            now_ns=now_ns,
        )
        return await self.store.publish([publication])

    def close(self):
        self.store.close()
        self.database.close()


def trace(trace_id, names):
    ids = sorted({trace_id, *(name.split(".")[0] for name in names)})
    steps = tuple(
        Step(
            step_id=name,
            kind="other",
            name=name,
            start_ns=1,
            sources=(Source(kind="span", trace_id=trace_id, span_id=name),),
        )
        for name in names
    )
    return AgentTrace(trace_id=trace_id, trace_ids=tuple(ids), project="shop", steps=steps)


def part(key, payload, *, clues=(), **more):
    more = {"expires_ns": FOREVER, "project": "shop", "kind": "telemetry", **more}
    return Part(key=key, payload=payload.encode(), clues=clues, **more)


@pytest.fixture
def kept(tmp_path):
    made = trace_stores.made("postgres", tmp_path)
    yield made
    made.close()


@pytest.fixture
def sidecars(kept):
    made = []

    def make(count, **more):
        made.extend(Sidecar(kept.url, f"journal:{n}", **more) for n in range(count))
        return made

    yield make
    for each in made:
        each.close()


def test_spans_of_one_trace_that_come_to_two_sidecars_at_once_are_one_trace(sidecars):
    one, two = sidecars(2)
    key = "a" * 32

    async def both():
        for number in range(10):
            first, second = f"{key}.{number}x", f"{key}.{number}y"
            await asyncio.gather(one.take(part(key, first)), two.take(part(key, second)))

    asyncio.run(both())
    (opened,) = one.due()
    assert two.due() == [], "one of them builds it"
    assert len(one.store.parts(opened)) == 20
    assert asyncio.run(one.publish(opened)) == 1
    assert len(two.store.get_trace(key).steps) == 20
    assert two.due() == []


def test_traces_that_share_a_clue_come_together_from_whichever_sidecar(sidecars):
    one, two = sidecars(2)
    word = (b"w" * 16,)
    keys = [f"{n:032x}" for n in range(1, 9)]

    async def all_at_once():
        for a, b in zip(keys[::2], keys[1::2], strict=True):
            await asyncio.gather(
                one.take(part(a, f"{a}.1", clues=word)), two.take(part(b, f"{b}.1", clues=word))
            )

    asyncio.run(all_at_once())
    (opened,) = one.due()
    assert len(one.store.parts(opened)) == len(keys)


def test_what_two_sidecars_built_is_published_once(sidecars):
    """A builder whose connection was lost may still publish: the version decides, not the lock."""
    one, two = sidecars(2)
    asyncio.run(one.take(part("a" * 32, "a.1")))
    (opened,) = one.due()
    assert asyncio.run(two.publish(opened)) == 1
    assert asyncio.run(one.publish(opened)) == 0
    assert [line.revision for line in one.store.revisions("a" * 32, "shop")] == [1]


def test_a_trace_whose_builder_died_is_built_by_another(sidecars):
    one, two = sidecars(2)
    asyncio.run(one.take(part("a" * 32, "a.1"), part("b" * 32, "b.1")))
    assert len(one.due(limit=1)) == 1
    assert [opened.key[0] for opened in two.due()] == ["b"]
    one.store.close()
    for _ in range(100):  # the server notices the end of a connection a moment later
        if len(two.due()) == 2:
            break
    assert len(two.due()) == 2


@pytest.mark.requirement("REC-06")
@pytest.mark.parametrize("also", ["come together", "expire"])
def test_whatever_sidecars_do_at_once_nothing_is_lost_doubled_or_misnumbered(sidecars, kept, also):
    """Goal: concurrency changes nothing. Method: four sidecars take in, publish, expire and prune
    at random, all over the same few traces and clues; at the end everything is counted."""
    dice = random.Random(also)
    members = sidecars(4, bounds=Bounds(open_traces_max=6))
    sent, seen = [], []

    async def live(me, dice):
        for number in range(25):
            match dice.choice(["take", "take", "take", "publish", "expire"]):
                case "take":
                    keys = dice.sample(range(1, 10), dice.randint(1, 4))
                    names = [f"{key:032x}.{me.name[8:]}-{number}" for key in keys]
                    shared = also == "come together" and dice.random() < 0.4
                    clues = (bytes([dice.randint(1, 12)]) * 16,) if shared else ()
                    await me.take(
                        *(
                            part(f"{key:032x}", name, clues=clues, expires_ns=number)
                            for key, name in zip(keys, names, strict=True)
                        )
                    )
                    sent.extend(names)
                case "publish":
                    for opened in await asyncio.to_thread(me.due, 5):
                        await me.publish(opened)
                case "expire" if also == "expire":
                    await me.store.expire(number, 2)
                    await me.store.prune(Retention(now_ns=number, limit=1))

    async def follow(published, stop):
        place = 0
        while not stop.is_set() or place < published.place():
            place, found = await asyncio.to_thread(published.after, place, ALL)
            seen.extend((line.trace_id, line.revision) for line in found)

    async def all_at_once():
        stop = asyncio.Event()
        follower = asyncio.create_task(follow(PostgresPublished(kept.database), stop))
        await asyncio.gather(*(live(me, random.Random(dice.random())) for me in members))
        for me in members:
            while found := await asyncio.to_thread(me.due):
                for opened in found:
                    await me.publish(opened)
        stop.set()
        await follower

    asyncio.run(all_at_once())
    store = members[0].store
    stored = []
    for line in store.list_traces(ALL):
        stored += [step.name for step in store.get_trace(line.trace_id, "shop").steps]
    assert sorted(stored) == sorted(sent)
    rows = kept.rows("SELECT trace_id, revision FROM trace ORDER BY 1, 2")
    for _, some in itertools.groupby(rows, key=lambda row: row[0]):
        revisions = [revision for _, revision in some]
        assert revisions == list(range(1, len(revisions) + 1))
    assert sorted(seen) == rows, "who follows along sees every revision once"
    assert kept.rows("SELECT sum(bytes), sum(traces) FROM held") == kept.rows(
        "SELECT coalesce(sum(length(sealed)), 0), (SELECT count(*) FROM open_trace) FROM part"
    )
    assert kept.rows(
        "SELECT count(*) FROM open_trace o WHERE (items, sealed_bytes) IS DISTINCT FROM"
        " (SELECT (sum(items)::bigint, sum(length(sealed))) FROM part"
        " WHERE part.open_id = o.open_id)"
    ) == [(0,)]


def test_one_sidecar_sends_for_an_exporter_and_another_takes_over(sidecars, kept):
    one, two = sidecars(2)
    kept.prepare_outbox([Lane(name="a", bytes_max=1 << 30)])
    item = Outgoing(project="shop", signal="traces", items=1, payload=b"x")
    asyncio.run(one.take(exports=(item,)))
    asyncio.run(two.take(exports=(replace(item, payload=b"y"),)))
    first = PostgresOutbox(one.database, sealers=trace_stores.sealers)
    second = PostgresOutbox(two.database, sealers=trace_stores.sealers)
    waiting = first.items_after(first.position("a"), count_max=9, bytes_max=1 << 20)
    assert [each.payload for each in waiting] == [b"x", b"y"]
    assert second.items_after(second.position("a"), count_max=9, bytes_max=1 << 20) == []
    first.close()
    found, until = [], time.monotonic() + 20  # the server ends a session when it comes to it
    while not found and time.monotonic() < until:
        found = second.items_after(second.position("a"), count_max=9, bytes_max=1 << 20)
    assert [each.payload for each in found] == [b"x", b"y"]
    second.close()


def lose(kept, member):
    """End the sessions of a sidecar that hold locks, as a restarted network would."""
    kept.rows(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid IN"
        f" (SELECT pid FROM pg_locks WHERE locktype = 'advisory') AND application_name = '{member}'"
    )


@pytest.fixture
def named(kept):
    """Databases whose connections the server tells apart."""
    made = []

    def make(name):
        made.append(Database(read_location(f"{kept.url}"), schema="traces"))
        made[-1]._settings["application_name"] = name
        return made[-1]

    yield make
    for each in made:
        each.close()


async def took(wanted):
    """Look until it is so; what was found."""
    for _ in range(500):
        found = wanted()
        if found:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


def test_who_lost_its_session_sends_nothing_until_it_leads_again(sidecars, kept, named):
    (one,) = sidecars(1)
    kept.prepare_outbox([Lane(name="a", bytes_max=1 << 30)])
    item = Outgoing(project="shop", signal="traces", items=1, payload=b"x")
    asyncio.run(one.take(exports=(item,)))
    first = PostgresOutbox(named("first"), sealers=trace_stores.sealers)
    second = PostgresOutbox(named("second"), sealers=trace_stores.sealers)
    place = first.position("a")
    (waiting,) = first.items_after(place, count_max=9, bytes_max=1 << 20)
    assert first.sends("a") and not second.sends("a")
    lose(kept, "first")
    asyncio.run(took(lambda: not first.sends("a")))
    step = Advance(
        name="a", seq=waiting.seq, tallies=(Tally(signal="traces", fate="sent", items=1),)
    )
    assert second.position("a") == place and second.sends("a")
    assert first.items_after(first.position("a"), count_max=9, bytes_max=1 << 20) == []
    assert not asyncio.run(first.advance(step)), "its sending is the other's by now"
    assert asyncio.run(second.advance(step))
    assert kept.rows("SELECT items FROM export_tally") == [(1,)]
    lose(kept, "second")
    asyncio.run(took(lambda: first.position("a") == waiting.seq))
    assert first.sends("a") and not second.sends("a")
    first.close()
    second.close()


def test_a_sidecar_with_fewer_exporters_takes_no_queue_from_those_that_have_more(sidecars, kept):
    (one,) = sidecars(1)
    both = [Lane(name=name, bytes_max=1 << 30) for name in ("a", "b")]

    def start(source, *lanes):
        return prepare_outbox(one.database, lanes, source=source)

    def places():
        return [name for (name,) in kept.rows("SELECT name FROM export_cursor ORDER BY 1")]

    assert start("s1", *both) == start("s2", *both) == 0
    item = Outgoing(project="shop", signal="traces", items=1, payload=b"x")
    asyncio.run(one.take(exports=(item,)))
    assert start("s2", both[0]) == start("s2") == start("new") == 0
    assert places() == ["a", "b"], "the first has them still"
    assert (start("s1", both[0]), places()) == (1, ["a"]), "and now nobody has the second"
    assert start("s2", both[1]) == 0
    age = "UPDATE export_seen SET seen_at = seen_at - interval '{}'"
    kept.rows(age.format("6 days 23 hours"))
    outbox = PostgresOutbox(one.database, sealers=trace_stores.sealers, source="s2")
    assert outbox.position("b") == 0, "it runs, and is seen so"
    outbox.close()
    kept.rows(age.format("2 hours"))
    assert (start("new"), places()) == (1, ["b"]), "who was not seen for seven days is gone"
    assert start("s2") == 1
    assert kept.rows("SELECT count(*) FROM export_item") == [(0,)]


def test_who_lost_its_session_builds_nothing_that_another_builds(sidecars, kept, named):
    (one,) = sidecars(1)
    key = "a" * 32
    asyncio.run(one.take(part(key, f"{key}.1")))
    stores = [PostgresOpenTraces(named(n), sealers=trace_stores.sealers, source=n) for n in "ab"]
    due = Due(now_ns=10_000, idle_ns=1, open_max_ns=1000, limit=100)
    (opened,) = stores[0].due(due)
    assert stores[1].due(due) == []
    lose(kept, "a")
    assert stores[1].due(due) == [opened]
    assert stores[0].due(due) == [], "another builds it"
    lose(kept, "b")
    assert stores[0].due(due) == [opened]
    for store in stores:
        store.close()


DAY_NS = 86_400_000_000_000


def contents(kept):
    """How many contents lie in the tables of each day, and in the rest."""
    return {
        table.removeprefix("trace_content_"): kept.rows(f"SELECT count(*) FROM {table}")[0][0]
        for (table,) in kept.rows(
            "SELECT inhrelid::regclass::text FROM pg_inherits"
            " WHERE inhparent = 'trace_content'::regclass ORDER BY 1"
        )
    }


def publish_on(member, project, key, day):
    """A trace of a project, published on a day."""
    asyncio.run(member.take(part(key, f"{key}.1", project=project)))
    (opened,) = member.due()
    made = replace(trace(key, [f"{key}.1"]), project=project)
    publication = Publication(
        open_id=opened.open_id, version=opened.version, traces=(made,), now_ns=day * DAY_NS + 5,
        digests=(Digests(content=content_digest(made), facts="f"),),
    )  # fmt: skip
    assert asyncio.run(member.store.publish([publication])) == 1


def prune(member, now_ns, **ages_ns):
    async def until_nothing_goes():
        while await member.store.prune(Retention(now_ns=now_ns, limit=1, ages_ns=ages_ns)):
            pass

    asyncio.run(until_nothing_goes())


@pytest.mark.requirement("RED-01")
def test_a_day_goes_whole_once_nobody_keeps_it_and_by_project_until_then(sidecars, kept):
    (one,) = sidecars(1)
    for number, (project, day) in enumerate((("shop", 1), ("bank", 1), ("shop", 2), ("shop", 4))):
        publish_on(one, project, f"{number + 1:032x}", day)
    assert contents(kept) == {"d1": 2, "d2": 1, "d4": 1, "rest": 0}
    prune(one, 4 * DAY_NS + 10, shop=DAY_NS, bank=90 * DAY_NS)
    prune(one, 4 * DAY_NS + 10, shop=DAY_NS, bank=90 * DAY_NS)
    assert contents(kept) == {"d1": 1, "d4": 1, "rest": 0}
    assert {line.project for line in one.store.list_traces(ALL)} == {"shop", "bank"}
    assert one.store.get_trace(f"{2:032x}", "bank") is not None
    prune(one, 100 * DAY_NS, shop=DAY_NS, bank=90 * DAY_NS)
    prune(one, 100 * DAY_NS, shop=DAY_NS, bank=90 * DAY_NS)
    prune(one, 100 * DAY_NS, shop=DAY_NS, bank=90 * DAY_NS)
    assert contents(kept) == {"rest": 0}
    assert kept.rows("SELECT count(*) FROM trace") == [(0,)]


def test_who_may_not_change_the_schema_publishes_and_prunes_all_the_same(sidecars, kept):
    (owner,) = sidecars(1)
    publish_on(owner, "shop", "a" * 32, 1)
    kept.rows("DROP ROLE IF EXISTS only_data")
    kept.rows("CREATE ROLE only_data LOGIN")
    kept.rows("GRANT USAGE ON SCHEMA traces TO only_data")
    kept.rows("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA traces TO only_data")
    kept.rows("GRANT USAGE ON ALL SEQUENCES IN SCHEMA traces TO only_data")
    plain = Sidecar(kept.url.replace("sidecar@", "only_data@"), "journal:plain")
    try:
        publish_on(plain, "shop", "b" * 32, 2)
        assert contents(kept) == {"d1": 1, "rest": 1}
        assert plain.store.get_trace("b" * 32) is not None
        prune(plain, 9 * DAY_NS, shop=DAY_NS)
        assert contents(kept) == {"d1": 0, "rest": 0}
    finally:
        plain.close()
        kept.rows("DROP OWNED BY only_data")
        kept.rows("DROP ROLE only_data")


@pytest.mark.parametrize("text", ["\0", "half \ud800 a pair", "Ω"])
def test_who_looks_for_what_postgres_cannot_hold_finds_nothing(sidecars, kept, text):
    store = sidecars(1)[0].store
    assert store.list_traces(TraceQuery(service=text, project=text)) == []
    assert store.list_traces(TraceQuery(since_ns=1 << 70, until_ns=1 << 80)) == []
    assert store.get_trace(text) is None and store.revisions(text, text) == []
    assert store.get_trace("a" * 32, revision=1 << 40) is None
    assert kept.published().after(0, TraceQuery(service=text)) == (0, [])
    assert kept.verdicts().get_verdict(text) is None
    assert kept.verdicts().list_verdicts(VerdictQuery(suite=text)) == []
