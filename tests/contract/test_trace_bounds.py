"""What keeps a trace store within bounds: room in a trace, room for all, and age."""

import asyncio

import pytest
import trace_stores
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.model.step import Step
from processors.model.trace import AgentTrace
from sidecar import clock
from sidecar.store.traces import (
    Bounds,
    CursorMove,
    Digests,
    Due,
    Intake,
    Part,
    Publication,
    Quarantined,
    Retention,
    content_digest,
)

FOREVER = 1 << 60
A, B, C = "a" * 32, "b" * 32, "c" * 32


class Store:
    """A store of small bounds."""

    def __init__(self, kept, **bounds):
        self.kept = kept
        self.store = kept.open_traces(bounds=Bounds(**bounds))

    def take(self, *parts, now_ns=100, **more):
        before = self.store.cursor("j")
        move = CursorMove(name="j", before=before, after=before + 1)
        asyncio.run(self.store.take_in(Intake(move=move, parts=parts, now_ns=now_ns, **more)))

    def due(self):
        return self.store.due(Due(now_ns=10_000, idle_ns=1, open_max_ns=1000, limit=100))

    def publish(self, now_ns=500):
        """Every open trace as a trace with a step for each part."""
        for opened in self.due():
            payloads = [payload for _, payload in self.store.parts(opened)]
            made = trace(opened.key, opened.project, payloads)
            digests = (Digests(content=content_digest(made), facts="f"),)
            publication = Publication(
                open_id=opened.open_id, version=opened.version, traces=(made,), digests=digests,
                now_ns=now_ns,
            )  # fmt: skip
            asyncio.run(self.store.publish([publication]))

    def expire(self, now_ns=1000, limit=100):
        return asyncio.run(self.store.expire(now_ns, limit))

    def prune(self, now_ns, limit=100, **ages):
        otherwise = ages.pop("otherwise", None)
        retention = Retention(now_ns=now_ns, limit=limit, ages_ns=ages, otherwise_ns=otherwise)
        return asyncio.run(self.store.prune(retention))

    def rows(self, query):
        return self.kept.rows(query)

    def dropped(self):
        return self.rows("SELECT reason, items FROM dropped")

    def sums(self):
        """What is kept of sums, and the same counted."""
        kept = self.rows(
            "SELECT CAST(sum(bytes) AS INTEGER), CAST(sum(traces) AS INTEGER) FROM held"
        ) + self.rows("SELECT open_id, items, bytes FROM open_trace ORDER BY open_id")
        counted = self.rows(
            "SELECT (SELECT CAST(coalesce(sum(length(sealed)), 0) AS INTEGER) FROM part),"
            " (SELECT count(*) FROM open_trace)"
        ) + self.rows(
            "SELECT o.open_id, CAST(coalesce(sum(p.items), 0) AS INTEGER),"
            " CAST(coalesce(sum(p.bytes), 0) AS INTEGER)"
            " FROM open_trace o LEFT JOIN part p ON p.open_id = o.open_id"
            " GROUP BY o.open_id ORDER BY 1"
        )
        return [(a or 0, b or 0, *rest) for a, b, *rest in kept], counted


@pytest.fixture(params=trace_stores.BACKENDS)
def make_store(request, tmp_path):
    kept = trace_stores.made(request.param, tmp_path)
    yield lambda **bounds: Store(kept, **bounds)
    kept.close()


def trace(trace_id, project, payloads):
    steps = tuple(
        Step(step_id=f"{trace_id}:{n}", kind="other", name=payload[:20].hex(), start_ns=n + 1)
        for n, payload in enumerate(payloads)
    )
    return AgentTrace(trace_id=trace_id, trace_ids=(trace_id,), project=project, steps=steps)


def part(key=A, payload=b"p", *, items=1, project="shop", kind="telemetry", **more):
    more.setdefault("expires_ns", FOREVER)
    return Part(project=project, key=key, kind=kind, payload=payload, items=items, **more)


@pytest.mark.requirement("REC-03")
def test_a_trace_takes_so_many_items_and_what_is_more_is_counted(make_store):
    store = make_store(trace_items_max=10)
    store.take(part(items=6), part(items=4, payload=b"q"))
    store.take(part(items=1, payload=b"r"), part(B, items=3))
    store.take(part(items=5, payload=b"s"))
    opened = {each.key: each for each in store.due()}
    assert (opened[A].lost, opened[B].lost) == (6, 0)
    assert [payload for _, payload in store.store.parts(opened[A])] == [b"p", b"q"]
    assert store.dropped() == [("trace_over_limit", 6)]


@pytest.mark.requirement("REC-03")
def test_a_trace_takes_so_many_bytes_before_they_are_packed(make_store):
    store = make_store(trace_bytes_max=5000)
    store.take(part(payload=b"x" * 3000))
    store.take(part(payload=b"y" * 3000), part(payload=b"z" * 1000))
    (opened,) = store.due()
    assert [payload[:1] for _, payload in store.store.parts(opened)] == [b"x", b"z"]
    assert opened.lost == 1


def test_a_receipt_always_has_room(make_store):
    store = make_store(trace_items_max=1)
    store.take(part(items=1))
    store.take(part(kind="receipt", payload=b"r"))
    (opened,) = store.due()
    assert [kind for kind, _ in store.store.parts(opened)] == ["telemetry", "receipt"]
    assert opened.lost == 0


def test_a_full_trace_is_told_of_once_and_not_built_again_for_each_span(make_store):
    store = make_store(trace_items_max=1)
    store.take(part())
    store.publish()
    assert store.due() == []
    store.take(part(payload=b"over"), now_ns=200)
    (opened,) = store.due()
    assert opened.lost == 1
    store.publish()
    store.take(part(payload=b"over again"), now_ns=300)
    assert store.due() == []
    assert store.rows("SELECT lost FROM open_trace") == [(2,)]


def test_traces_put_together_are_read_up_to_the_same_bounds(make_store):
    store = make_store(trace_items_max=10)
    store.take(*(part(f"{n:032x}", b"%d" % n, items=4) for n in range(1, 6)))
    word = b"w" * 16
    store.take(*(part(f"{n:032x}", b"+", items=0, clues=(word,)) for n in range(1, 6)))
    (opened,) = store.due()
    assert opened.lost == 10
    payloads = [payload for _, payload in store.store.parts(opened)]
    assert payloads[:2] == [b"1", b"2"] and len(payloads) < 10
    kept, counted = store.sums()
    assert kept == counted


@pytest.mark.requirement("REC-03")
def test_when_all_that_is_held_is_too_much_the_oldest_published_goes_first(make_store):
    noise = clock.random_bytes(600_000)  # it does not pack
    store = make_store(held_bytes_max=1 << 20)
    store.take(part(A, noise, expires_ns=FOREVER))
    store.take(part(B, noise, expires_ns=FOREVER + 1))
    store.publish()
    store.take(part(C, noise, expires_ns=FOREVER + 2))
    assert store.expire() == 2
    assert store.rows("SELECT key FROM open_trace") == [(C,)]
    assert store.dropped() == [("content_over_limit", 2)]
    assert store.expire() == 0
    assert store.store.get_trace(A) is not None  # only its telemetry went


def test_too_many_open_traces_are_as_much_too_much(make_store):
    store = make_store(open_traces_max=2)
    for number in range(1, 6):
        store.take(part(f"{number:032x}", expires_ns=FOREVER + number))
    assert store.expire() == 0  # none of them is published yet
    store.publish()
    assert store.expire() == 3
    assert store.rows("SELECT count(*) FROM open_trace") == [(2,)]


def test_late_telemetry_of_what_had_to_go_is_added_to_what_was_published(make_store):
    store = make_store(open_traces_max=1)
    store.take(part(A))
    store.publish()
    store.take(part(B))
    store.publish()
    assert store.expire() == 1
    store.take(part(A, b"late"))
    opened = next(each for each in store.due() if each.key == A)
    assert opened.bases == ((A, 1),)


@pytest.mark.requirement("RED-01")
def test_revisions_older_than_their_project_keeps_go_with_what_hangs_on_them(make_store):
    store = make_store()
    for project in ("shop", "bank", "other"):
        store.take(part(A, project=project), part(B, project=project))
    store.publish(now_ns=100)
    store.take(part(B, b"late"))
    store.publish(now_ns=900)
    quarantined = Quarantined(source="j", seq=1, project="shop", reason="r", payload=b"x")
    store.take(quarantined=(quarantined,), now_ns=100)
    assert store.prune(1000, shop=500, bank=950) == 2
    assert store.store.get_trace(A, "shop") is None
    assert store.store.get_trace(B, "shop").revision == 2
    assert store.store.get_trace(B, "shop", revision=1) is None
    assert store.store.get_trace(A, "bank") is not None
    assert store.store.get_trace(A, "other") is not None
    assert store.rows("SELECT project, key FROM open_trace WHERE project = 'shop'") == [("shop", B)]
    assert store.rows("SELECT count(*) FROM quarantine") == [(0,)]
    assert store.prune(2000, otherwise=1) == 5
    for table in ("trace", "open_trace", "part", "run_key", "clue", "superseded"):
        assert store.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


def test_redirects_to_a_trace_that_is_gone_go_with_it(make_store):
    store = make_store()
    word = b"w" * 16
    store.take(part(A, clues=(word,)), part(B, clues=(word,)))
    (opened,) = store.due()
    made = trace(A, "shop", [b"p"])
    made = AgentTrace(trace_id=A, trace_ids=(A, B), project="shop", steps=made.steps)
    publication = Publication(
        open_id=opened.open_id, version=opened.version, traces=(made,),
        digests=(Digests(content=content_digest(made), facts="f"),), now_ns=100,
    )  # fmt: skip
    asyncio.run(store.store.publish([publication]))
    assert store.store.get_trace(B) == made
    assert store.prune(1000, shop=10) == 1
    assert store.store.get_trace(B) is None
    for table in ("superseded", "open_trace", "part", "run_key", "clue"):
        assert store.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


def test_telemetry_that_is_not_published_yet_outlives_its_trace(make_store):
    store = make_store()
    store.take(part(A))
    store.publish(now_ns=100)
    store.take(part(A, b"new"))
    assert store.prune(1000, shop=10) == 1
    (opened,) = store.due()
    assert [payload for _, payload in store.store.parts(opened)] == [b"p", b"new"]


def test_pruning_goes_in_small_steps(make_store):
    store = make_store()
    store.take(*(part(f"{n:032x}") for n in range(1, 8)))
    store.publish(now_ns=100)
    assert [store.prune(1000, limit=3, shop=10) for _ in range(4)] == [3, 3, 1, 0]


steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "publish", "expire", "prune", "join"]),
        st.integers(1, 4),
        st.integers(1, 6),
    ),
    max_size=14,
)


@pytest.mark.parametrize("backend", trace_stores.BACKENDS)
@settings(max_examples=12)
@given(moves=steps)
def test_whatever_happens_the_sums_are_what_is_there(tmp_path_factory, backend, moves):
    kept = trace_stores.made(backend, tmp_path_factory.mktemp("s"))
    store = Store(kept, trace_items_max=12, open_traces_max=3)
    play(store, moves)
    sums, counted = store.sums()
    kept.close()
    assert sums == counted


def play(store, moves):
    for number, (move, key, items) in enumerate(moves):
        if move == "take":
            payload = b"x" * items * 10
            store.take(part(f"{key:032x}", payload, items=items, expires_ns=number))
        elif move == "join":
            word = bytes([items]) * 16
            store.take(*(part(f"{n:032x}", clues=(word,)) for n in (key, key + 1)))
        elif move == "publish":
            store.publish(now_ns=number)
        elif move == "expire":
            store.expire(now_ns=key, limit=items)
        else:
            store.prune(number, limit=items, shop=key)
