"""Who takes all the places it may holds up nobody else."""

from contextlib import ExitStack

import pytest

from sidecar.control.places import PLACES, PLACES_EACH, Full, Places


@pytest.mark.requirement("CTL-01")
def test_one_principal_takes_no_more_than_its_share_and_places_come_back():
    places = Places()
    with ExitStack() as stack:
        for _ in range(PLACES_EACH):
            stack.enter_context(places.taken("key:greedy"))
        assert not places.are_free("key:greedy") and places.are_free("key:other")
        with pytest.raises(Full), places.taken("key:greedy"):
            pass
        with places.taken("key:other"):
            pass
    assert places.are_free("key:greedy")


def test_all_places_together_are_bounded():
    places = Places()
    with ExitStack() as stack:
        for number in range(PLACES):
            stack.enter_context(places.taken(f"key:{number}"))
        with pytest.raises(Full), places.taken("key:late"):
            pass
    assert places.are_free("key:late")
