"""Datasets are kept version by version: one that was made never changes, on every backend."""

import asyncio
import threading

import pytest
import trace_stores
from msgspec.structs import replace

from sidecar.store.datasets import DatasetChange, DatasetVersion, Erasure, KeptItem, Outliving
from sidecar.store.traces import Retention

pytestmark = pytest.mark.requirement("DAT-01")


def version(number, name="refunds", project="shop", items=0):
    return DatasetVersion(
        project=project,
        name=name,
        version=number,
        digest=f"sha256:{number}",
        items=items,
        created_at_ns=100 + number,
    )


def item(item_id, *, added_in=1, place=0, trace_id=None, captured=False, content=b"{}"):
    return KeptItem(
        item_id=item_id,
        place=place,
        digest=f"d-{item_id}-{added_in}",
        question=f"q-{item_id}",
        trace_id=trace_id,
        captured=captured,
        added_in=added_in,
        added_at_ns=100 + added_in,
        size_bytes=2,
        content=content,
    )


@pytest.fixture(params=trace_stores.BACKENDS)
def kept(request, tmp_path):
    made = trace_stores.made(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(kept):
    return kept.datasets()


def made(store, *added, **which):
    assert store.create_dataset(version(0, **which))
    assert store.change_dataset(
        DatasetChange(version=version(1, items=len(added), **which), added=added)
    )


def ids(store, number, name="refunds", project="shop"):
    return [one.item_id for one in store.dataset_items(project, name, number)]


def test_a_name_is_taken_once_in_a_project(store):
    assert store.create_dataset(version(0))
    assert not store.create_dataset(version(0))
    assert store.create_dataset(version(0, project="other"))
    made_so_far = [(one.project, one.name) for one in store.list_datasets()]
    assert made_so_far == [("other", "refunds"), ("shop", "refunds")]
    assert store.dataset_versions("shop", "refunds") == [version(0)]


def test_each_version_stays_as_it_was(store):
    first, second = item("a", place=0), item("b", place=1, trace_id="t" * 32, captured=True)
    made(store, first, second)
    edited = replace(item("a", added_in=2), digest="other", content=b'{"x":1}')
    third = item("c", added_in=2, place=2)
    change = DatasetChange(version=version(2, items=2), added=(edited, third), removed=("a", "b"))
    assert store.change_dataset(change)
    assert store.dataset_items("shop", "refunds", 1) == [first, second]
    assert store.dataset_items("shop", "refunds", 2) == [edited, third]
    assert ids(store, 0) == [] and ids(store, 9) == ["a", "c"]
    assert [one.version for one in store.dataset_versions("shop", "refunds")] == [0, 1, 2]
    [summary] = store.list_datasets("shop")
    assert (summary.version, summary.items, summary.erased) == (2, 2, 0)
    assert (summary.digest, summary.created_at_ns) == ("sha256:2", 102)


def test_a_version_is_made_upon_the_newest_alone(store):
    change = DatasetChange(version=version(1), added=(item("a"),))
    assert not store.change_dataset(change), "there is no such dataset"
    made(store, item("a"))
    assert not store.change_dataset(replace(change, added=(item("late"),)))
    assert not store.change_dataset(DatasetChange(version=version(3), added=(item("early"),)))
    assert ids(store, 1) == ["a"] and ids(store, 3) == ["a"]


def test_of_two_who_add_at_once_one_is_told_to_look_again(kept, store):
    made(store)
    stores, barrier, told = [kept.datasets() for _ in range(4)], threading.Barrier(4), []

    def add(own, name):
        change = DatasetChange(version=version(2, items=1), added=(item(name, added_in=2),))
        barrier.wait(timeout=10)
        told.append(own.change_dataset(change))

    threads = [
        threading.Thread(target=add, args=(own, f"i{number}")) for number, own in enumerate(stores)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(told) == [False, False, False, True]
    assert len(ids(store, 2)) == 1


def test_what_a_trace_said_can_be_found_and_erased_in_every_version(store):
    trace_id = "t" * 32
    made(store, item("a", trace_id=trace_id, captured=True), item("b", place=1))
    again = DatasetChange(
        version=version(2, items=1),
        added=(item("a", added_in=2, trace_id=trace_id, captured=True),),
        removed=("a", "b"),
    )
    assert store.change_dataset(again)
    assert store.holding("shop", trace_id) == [("refunds", "a")]
    assert store.holding("other", trace_id) == []
    erasure = Erasure(project="shop", trace_id=trace_id, limit=100)
    assert store.erase_items(replace(erasure, project="other")) == 0
    assert store.erase_items(replace(erasure, limit=1)) == 1
    assert store.erase_items(erasure) == 1 and store.erase_items(erasure) == 0
    assert store.holding("shop", trace_id) == []
    was = store.dataset_items("shop", "refunds", 1)
    assert [(one.content, one.digest) for one in was] == [(None, "d-a-1"), (b"{}", "d-b-1")]
    [summary] = store.list_datasets("shop")
    assert (summary.items, summary.erased) == (1, 1)


def test_what_is_too_old_goes_where_it_was_captured(store):
    made(store, item("a", captured=True), item("b", place=1))
    old = Erasure(project="shop", before_ns=101, limit=10)
    assert store.erase_items(old) == 0
    assert store.erase_items(replace(old, before_ns=102)) == 1
    found = store.dataset_items("shop", "refunds", 1)
    assert [one.content for one in found] == [None, b"{}"]


def test_one_item_is_erased_by_its_id(store):
    made(store, item("a"), item("b", place=1))
    assert store.erase_items(Erasure(project="shop", item_id="a", limit=9)) == 1
    assert [one.content for one in store.dataset_items("shop", "refunds", 1)] == [None, b"{}"]


def test_datasets_that_outlive_their_traces_are_told(store):
    made(store, item("a", trace_id="t" * 32, captured=True), item("b", place=1))
    assert store.outliving() == [Outliving(project="shop", name="refunds", items=1)]
    store.erase_items(Erasure(project="shop", trace_id="t" * 32, limit=9))
    assert store.outliving() == []


@pytest.mark.requirement("OPS-01")
def test_a_running_pipeline_erases_what_is_kept_too_long(kept, store):
    made(store, item("a", captured=True), item("b", place=1))
    made(store, item("c", captured=True), project="bank")
    pipeline = kept.open_traces()
    ages = {"items_ages_ns": {"shop": 10}, "items_otherwise_ns": None}
    for now_ns, left in ((111, b"{}"), (112, None)):
        asyncio.run(pipeline.prune(Retention(now_ns=now_ns, limit=9, **ages)))
        assert store.dataset_items("shop", "refunds", 1)[0].content == left
    assert store.dataset_items("shop", "refunds", 1)[1].content == b"{}"
    assert store.dataset_items("bank", "refunds", 1)[0].content == b"{}"


def test_lists_are_by_name_and_paged(store):
    for name in ("b", "a", "c"):
        made(store, item("x"), name=name)
    first = store.list_datasets("shop", limit=2)
    assert [one.name for one in first] == ["a", "b"]
    rest = store.list_datasets("shop", limit=2, after=("shop", "b"))
    assert [one.name for one in rest] == ["c"]


def test_what_no_store_can_hold_is_not_there(store):
    made(store, item("a"))
    for odd in ("\ud800", "nowhere"):
        assert store.dataset_versions(odd, "refunds") == []
        assert store.dataset_items("shop", odd, 1) == []
        assert store.holding("shop", odd) == []
        assert store.list_datasets(odd) == []
    assert ids(store, 2**70) == ["a"]
