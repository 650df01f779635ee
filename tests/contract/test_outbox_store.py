"""The outbox on the disk: a cursor for each exporter, bounded, sealed, nothing in it twice."""

import asyncio

import pytest
import trace_stores
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.model.trace import AgentTrace
from sidecar import clock
from sidecar.store.outbox import Advance, Lane, Outgoing, Tally
from sidecar.store.traces import CursorMove, Digests, Due, Intake, Part, Publication

BIG = 1 << 30


class Store:
    """A trace store with its two sides: the pipeline's and the exporters'."""

    def __init__(self, kept, *lanes):
        self.kept = kept
        self.forgotten = kept.prepare_outbox([Lane(name=n, bytes_max=b) for n, b in lanes])
        self.opened, self.outbox = kept.open_traces(), kept.outbox()
        self.watch = kept.progress()

    def put(self, *items, step=None):
        """Items as they come with a step of the pipeline."""
        before = self.opened.cursor("j")
        move = CursorMove(name="j", before=before, after=before + 1)
        asyncio.run(self.opened.take_in(Intake(move=move, exports=items, now_ns=5)))

    def seqs(self, after=0):
        found = self.outbox.items_after(after, count_max=1000, bytes_max=BIG)
        return [item.seq for item in found]

    def advance(self, name, seq, *tallies):
        return asyncio.run(self.outbox.advance(Advance(name=name, seq=seq, tallies=tallies)))

    def rows(self):
        return self.kept.rows("SELECT COUNT(*) FROM export_item")[0][0]

    def progress(self, name):
        return next(entry for entry in self.watch.progress() if entry.name == name)

    def close(self):
        self.kept.close_parts()


@pytest.fixture(params=trace_stores.BACKENDS)
def make_store(request, tmp_path):
    kept = trace_stores.made(request.param, tmp_path)
    yield lambda *lanes: Store(kept, *lanes)
    kept.close()


def item(text="x", signal="traces", project="p", items=1, **more):
    return Outgoing(project=project, signal=signal, items=items, payload=text.encode(), **more)


def noise(size):
    return Outgoing(project="p", signal="traces", items=1, payload=clock.random_bytes(size))


def test_what_is_put_in_is_read_in_order_and_opened(make_store):
    store = make_store(("a", BIG))
    store.put(item("one"), item("two", signal="logs", project="q", items=3))
    first, second = store.outbox.items_after(0, count_max=10, bytes_max=BIG)
    assert (first.payload, second.payload) == (b"one", b"two")
    assert (second.signal, second.project, second.items) == ("logs", "q", 3)
    assert store.progress("a").oldest_ns == 5 and store.progress("a").waiting_bytes > 0


def test_without_exporters_nothing_is_kept(make_store):
    store = make_store()
    store.put(item())
    assert store.rows() == 0


def test_cursors_are_apart_and_what_all_have_passed_is_deleted(make_store):
    store = make_store(("a", BIG), ("b", BIG))
    store.put(*[item(str(n)) for n in range(5)])
    last = store.seqs()[-1]
    assert store.advance("a", last, Tally(signal="traces", fate="sent", items=5))
    assert (store.outbox.position("a"), store.outbox.position("b")) == (last, 0)
    assert store.rows() == 5
    assert store.advance("b", store.seqs()[2])
    assert store.rows() == 2
    assert store.progress("a").waiting_bytes == 0
    assert store.progress("a").tallies == (Tally(signal="traces", fate="sent", items=5),)
    assert store.advance("b", last) and store.rows() == 0
    store.put(item("later"))
    assert store.seqs(last) == [last + 1], "a place is given once"


def test_a_cursor_never_goes_back(make_store):
    store = make_store(("a", BIG))
    store.put(item(), item())
    first, second = store.seqs()
    assert store.advance("a", second)
    assert not store.advance("a", first, Tally(signal="traces", fate="sent", items=1))
    assert store.progress("a").tallies == ()


def test_a_full_queue_gives_up_its_own_oldest_and_counts_them(make_store):
    store = make_store(("small", 3000), ("large", BIG))
    for _ in range(10):
        store.put(noise(1000))
    kept = store.seqs(store.outbox.position("small"))
    assert 0 < len(kept) < 4 and store.progress("small").waiting_bytes <= 3000
    assert store.progress("small").tallies == (
        Tally(signal="traces", fate="queue_full", items=10 - len(kept)),
    )
    assert len(store.seqs(store.outbox.position("large"))) == 10
    assert store.progress("large").tallies == ()


def test_an_item_larger_than_a_queue_is_given_up_alone(make_store):
    store = make_store(("small", 3000))
    store.put(noise(10_000))
    store.put(item("fits"))
    found = store.outbox.items_after(store.outbox.position("small"), count_max=9, bytes_max=BIG)
    assert [each.payload for each in found] == [b"fits"]


@pytest.mark.parametrize("backend", trace_stores.BACKENDS)
@settings(max_examples=8)
@given(
    sizes=st.lists(st.integers(1, 2000), min_size=1, max_size=20),
    bytes_max=st.integers(1000, 6000),
)
def test_waiting_bytes_never_exceed_what_is_configured_and_nothing_is_uncounted(
    tmp_path_factory, backend, sizes, bytes_max
):
    kept = trace_stores.made(backend, tmp_path_factory.mktemp("s"))
    store = Store(kept, ("a", bytes_max))
    for size in sizes:
        store.put(noise(size))
        assert store.progress("a").waiting_bytes <= bytes_max
    left = len(store.seqs(store.outbox.position("a")))
    assert left + sum(tally.items for tally in store.progress("a").tallies) == len(sizes)
    assert store.rows() == left, "what is given up by the last exporter goes from the disk"
    kept.close()


def test_a_new_exporter_starts_with_the_oldest_kept_and_a_removed_one_holds_up_nobody(make_store):
    store = make_store(("a", BIG), ("gone", BIG))
    store.put(item("1"), item("2"))
    store.advance("a", store.seqs()[0])
    store.close()
    again = make_store(("a", BIG), ("new", BIG))
    assert len(again.seqs(again.outbox.position("a"))) == 1
    assert len(again.seqs(again.outbox.position("new"))) == 2
    again.advance("a", again.seqs()[-1])
    again.advance("new", again.seqs()[-1])
    assert again.rows() == 0


def test_with_the_last_exporter_removed_the_backlog_is_forgotten_and_said_so(make_store):
    store = make_store(("a", BIG))
    store.put(item(), item())
    store.close()
    again = make_store()
    assert (again.forgotten, again.rows()) == (2, 0)


def test_nothing_readable_is_kept_and_a_moved_row_does_not_open(make_store):
    store = make_store(("a", BIG))
    store.put(item("refund 4711 to alice@example.com"))
    assert b"alice" not in store.kept.stored()
    store.kept.rows("UPDATE export_item SET project = 'other'")
    (damaged,) = store.outbox.items_after(0, count_max=9, bytes_max=BIG)
    assert damaged.payload is None


def published(store, version, *items, sent=b"", traces=(), digest="d", **more):
    digests = tuple(Digests(digest, digest) for _ in traces)
    publication = Publication(
        version=version,
        traces=traces,
        digests=digests,
        exports=items,
        sent=sent,
        **{"open_id": 1, "now_ns": 9, **more},
    )
    return asyncio.run(store.opened.publish([publication]))


def opened_trace(store, key="t"):
    part = Part(project="p", key=key, kind="telemetry", payload=b"x", expires_ns=100)
    before = store.opened.cursor("k")
    move = CursorMove(name="k", before=before, after=before + 1)
    asyncio.run(store.opened.take_in(Intake(move=move, parts=(part,), now_ns=1)))
    return store.opened.due(Due(now_ns=50, idle_ns=1, open_max_ns=1, limit=9))[0]


def test_items_go_in_with_the_publication_and_once(make_store):
    store = make_store(("a", BIG))
    opened = opened_trace(store)
    published(store, opened.version, item("span"), sent=b"s" * 16)
    published(store, opened.version, item("span"), sent=b"s" * 16)
    assert len(store.seqs()) == 1
    assert store.opened.sent(opened.open_id) == b"s" * 16
    published(store, opened_trace(store).version, item("late"), sent=b"t" * 16)
    assert store.opened.sent(opened.open_id) == b"s" * 16 + b"t" * 16
    assert len(store.seqs()) == 2


def test_an_event_of_a_revision_leaves_only_with_a_revision(make_store):
    store = make_store(("a", BIG))
    trace = AgentTrace(trace_id="t", project="p")
    event = item("event", if_revised="t")
    published(store, opened_trace(store).version, event, traces=(trace,))
    published(store, opened_trace(store).version, event, traces=(trace,))
    assert len(store.seqs()) == 1
    published(store, opened_trace(store).version, event, traces=(trace,), digest="other")
    assert len(store.seqs()) == 2


def test_what_left_of_two_traces_is_remembered_for_the_one_they_become(store_of_two):
    store, one, two = store_of_two
    first, second = b"\x00\xff" * 8, b"\xfe\x00" * 8
    clues = (b"shared",)
    published(store, one.version, sent=first, clues=clues, open_id=one.open_id)
    published(store, two.version, sent=second, clues=clues, open_id=two.open_id)
    kept = min(one.open_id, two.open_id)
    assert {store.opened.sent(kept)[:16], store.opened.sent(kept)[16:]} == {first, second}


@pytest.fixture
def store_of_two(make_store):
    """A store with two open traces that are due."""
    store = make_store(("a", BIG))
    opened_trace(store, "t")
    opened_trace(store, "u")
    found = store.opened.due(Due(now_ns=50, idle_ns=1, open_max_ns=1, limit=9))
    return store, *found


def test_what_left_is_forgotten_with_the_open_trace(make_store):
    store = make_store(("a", BIG))
    opened = opened_trace(store)
    published(store, opened.version, item(), sent=b"s" * 16)
    assert asyncio.run(store.opened.expire(1000, 10)) == 1
    assert store.opened.sent(opened.open_id) == b""
