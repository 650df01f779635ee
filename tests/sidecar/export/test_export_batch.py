"""Waiting items become requests: by signal, within bytes, in order, each once."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.export.batch import Wanted, halves, planned
from sidecar.store.outbox import Tally, Waiting

ALL = Wanted(signals=frozenset({"traces", "logs", "metrics"}), projects=frozenset(), bytes_max=100)


def waiting(seq, signal="traces", size=10, project="p", items=1):
    payload = None if size is None else bytes([seq % 256]) * size
    return Waiting(seq=seq, project=project, signal=signal, items=items, payload=payload)


items = st.lists(
    st.tuples(
        st.sampled_from(["traces", "logs", "metrics"]),
        st.none() | st.integers(0, 150),
        st.sampled_from("pq"),
    ),
    max_size=30,
)


@given(items, st.sets(st.integers(0, 30)))
def test_every_wanted_item_is_in_one_request_and_no_other_is(given_items, done):
    found = [waiting(n, signal, size, p) for n, (signal, size, p) in enumerate(given_items)]
    wanted = Wanted(signals=frozenset({"traces", "logs"}), projects=frozenset("p"), bytes_max=100)
    plan = planned(found, wanted, done)
    sent = [part.seq for request in plan.requests for part in request.parts]
    expected = {
        item.seq
        for item in found
        if item.seq not in done and wanted.wants(item) and item.payload is not None
    }
    assert sorted(sent) == sorted(expected)
    for request in plan.requests:
        assert {part.signal for part in request.parts} == {request.signal}
        assert list(request.seqs) and [p.seq for p in request.parts] == sorted(request.seqs)
        assert len(request.payload) <= 100 or len(request.parts) == 1


def test_a_broken_seal_is_counted_and_stops_nothing():
    plan = planned([waiting(1), waiting(2, size=None, items=7), waiting(3)], ALL, set())
    assert [request.seqs for request in plan.requests] == [{1, 3}]
    assert plan.tallies == (Tally(signal="traces", fate="damaged", items=7),)


@given(st.integers(1, 40))
def test_halves_hold_what_the_whole_held(count):
    (request,) = planned([waiting(n, size=0) for n in range(count)], ALL, set()).requests
    parts = halves(request)
    assert bool(parts) == (count > 1)
    if parts:
        assert [p for half in parts for p in half.parts] == list(request.parts)
        assert all(half.parts for half in parts)
