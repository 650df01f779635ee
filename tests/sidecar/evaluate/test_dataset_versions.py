"""Versions of datasets as pure data: what changes, what never does, whatever is added when."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.errors import SidecarError
from sidecar.evaluate.datasets import version as versions
from sidecar.evaluate.datasets.item import Expected, Item, Source, item_digest, question_digest
from sidecar.evaluate.datasets.version import decode_item, extended, first_version, version_digest
from sidecar.evaluate.expectations import OutputContains

pytestmark = pytest.mark.requirement("DAT-01")


class Kept:
    """What a store keeps of one dataset, as lists."""

    def __init__(self):
        self.newest = first_version("shop", "refunds", 0)
        self.rows = []  # (item, removed in)
        self.ids = itertools.count()

    def at(self, number):
        found = [
            item
            for item, removed in self.rows
            if item.added_in <= number and (removed is None or removed > number)
        ]
        return sorted(found, key=lambda one: one.place)

    def add(self, *items, removed=()):
        found = extended(
            self.newest,
            self.at(self.newest.version),
            items,
            removed=removed,
            now_ns=self.newest.created_at_ns + 1,
            new_id=lambda: f"i{next(self.ids)}",
        )
        if found.change is not None:
            gone = set(found.change.removed)
            number = found.change.version.version
            self.rows = [
                (item, number if was is None and item.item_id in gone else was)
                for item, was in self.rows
            ]
            self.rows += [(item, None) for item in found.change.added]
            self.newest = found.change.version
        return found


def item(text, **more):
    return Item(input=text, expect=(OutputContains(text="x"),), **more)


def test_nothing_new_makes_no_version():
    kept = Kept()
    first = kept.add(item("a"), item("b"))
    again = kept.add(item("b"), item("a", tags=("t",)), item("a", title="another title"))
    assert first.added == ("i0", "i1") and kept.newest.version == 1
    assert again.change is None and again.duplicates == ("i1", "i0", "i0")
    assert kept.add().change is None


def test_the_same_trace_is_one_item_whatever_it_says_now():
    kept = Kept()
    source = Source(kind="trace", trace_id="t" * 32, revision=1)
    kept.add(item("a", source=source))
    late = Source(kind="trace", trace_id="t" * 32, revision=2)
    assert kept.add(item("another", source=late)).duplicates == ("i0",)


def test_an_edit_keeps_id_and_place_and_may_not_become_another_item():
    kept = Kept()
    kept.add(item("a"), item("b"), item("c"))
    found = kept.add(item("B", item_id="i1"))
    assert (found.edited, found.added, found.removed) == (("i1",), (), ())
    assert [one.item_id for one in kept.at(2)] == ["i0", "i1", "i2"]
    assert [decode_item(one).input for one in kept.at(2)] == ["a", "B", "c"]
    assert [decode_item(one).input for one in kept.at(1)] == ["a", "b", "c"]
    assert kept.add(item("c", item_id="i1")).duplicates == ("i2",)
    assert kept.add(item("b")).added == ("i3",), "nobody asks that any more"


def test_an_item_that_was_removed_can_come_again():
    kept = Kept()
    kept.add(item("a"))
    kept.add(removed=("i0",))
    assert kept.at(2) == [] and kept.newest.digest == first_version("x", "y", 9).digest
    assert kept.add(item("a")).added == ("i1",)
    with pytest.raises(SidecarError, match="no item 'i0'"):
        kept.add(removed=("i0",))


def test_two_items_of_one_id_are_refused():
    kept = Kept()
    with pytest.raises(SidecarError, match="two of the items have this id at x"):
        kept.add(item("a", item_id="x"), item("b", item_id="x"))
    kept.add(item("a", item_id="x"))
    with pytest.raises(SidecarError, match="two of the items"):
        kept.add(item("b", item_id="x"), item("c", item_id="x"))


def test_what_was_erased_may_be_asked_anew_but_its_trace_does_not_come_back():
    kept = Kept()
    source = Source(kind="trace", trace_id="t" * 32)
    kept.add(item("a"), item("b", source=source))
    kept.rows = [(replace(one, content=None), removed) for one, removed in kept.rows]
    assert kept.add(item("b", source=source)).duplicates == ("i1",)
    assert kept.add(item("a")).added == ("i2",)
    assert decode_item(kept.at(2)[0]) is None and kept.newest.items == 3


def test_what_is_no_question_does_not_count_in_it_and_all_counts_in_the_digest():
    plain = item("a")
    for more in (
        {"tags": ("t",)},
        {"split": "test"},
        {"title": "t"},
        {"expected": Expected(output="x")},
        {"source": Source(kind="tape", tape="sha256:0")},
        {"scenario": {"now": "2026-06-01T00:00:00Z"}},
    ):
        assert question_digest(item("a", **more)) == question_digest(plain)
        assert item_digest(item("a", **more)) != item_digest(plain)
    for more in ({"messages": ({"role": "user", "content": "x"},)}, {"scenario": {"flags": {}}}):
        assert question_digest(item("a", **more)) != question_digest(plain)
    assert item_digest(item("a", item_id="other")) == item_digest(plain)


def test_bounds_hold_for_an_item_and_for_all_of_them(monkeypatch):
    kept = Kept()
    monkeypatch.setattr(versions, "ITEMS_MAX", 2)
    with pytest.raises(SidecarError, match="at most 2 items, this would be 3"):
        kept.add(item("a"), item("b"), item("c"))
    kept.add(item("a"), item("b"))
    assert kept.add(item("c"), removed=("i3",)).change is not None, "one goes, one comes"
    monkeypatch.setattr(versions, "DATASET_BYTES_MAX", 10)
    with pytest.raises(SidecarError, match="bytes together"):
        kept.add(removed=("i4",))


@settings(deadline=None)
@given(st.data())
def test_no_later_version_changes_an_earlier_one(data):
    kept, seen = Kept(), {}
    for _ in range(data.draw(st.integers(1, 6))):
        there = [one.item_id for one in kept.at(kept.newest.version)]
        removed = data.draw(st.lists(st.sampled_from(there), unique=True)) if there else []
        left = [one for one in there if one not in removed]
        words = st.sampled_from("abcdefgh")
        fresh = [item(one) for one in data.draw(st.lists(words, max_size=4))]
        edits = [
            item(data.draw(words), item_id=one, tags=("edited",))
            for one in (data.draw(st.lists(st.sampled_from(left), unique=True)) if left else [])
        ]
        kept.add(*fresh, *edits, removed=removed)
        now = kept.at(kept.newest.version)
        assert kept.newest.digest == version_digest(now) and kept.newest.items == len(now)
        assert len({one.question for one in now}) == len(now), "nothing is asked twice"
        assert len({one.item_id for one in now}) == len({one.place for one in now}) == len(now)
        seen[kept.newest.version] = now
    assert all(kept.at(number) == was for number, was in seen.items())
