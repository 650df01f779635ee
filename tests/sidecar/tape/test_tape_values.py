"""Payloads have one spelling each, and come back as they were."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tape_rig import LEAVES, TEXTS

from sidecar.canonical import NotCanonical
from sidecar.tape.value import address, decoded, encoded, matches, payload, read_payload

ANY = st.recursive(
    LEAVES | st.binary(max_size=8) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS | st.sampled_from(["$b64", "$int", "$obj"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def alike(left, right):
    """Equal, and of kinds that JSON tells apart: True is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(alike, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


@pytest.mark.requirement("TAP-01")
@given(ANY)
def test_a_value_comes_back_as_it_was(value):
    assert alike(decoded(read_payload(payload(encoded(value)))), value)


@given(ANY, ANY)
def test_two_values_share_a_digest_only_if_they_are_equal(left, right):
    assert payload(encoded(left)) != payload(encoded(right)) or alike(left, right)


@pytest.mark.row("R37")
def test_one_number_has_one_spelling():
    assert address(payload(encoded(25))) == address(payload(encoded(25.0)))
    assert payload(encoded(-0.0)) == b"0"
    assert payload(encoded(1e-7)) == b"1e-7"


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, {1: 2}, {1, 2}, object(), "\ud800", {"\udfff": 1}, {"x": b"\xff", 3.5: 1}],
)
def test_what_has_no_spelling_is_refused(value):
    with pytest.raises(NotCanonical):
        payload(encoded(value))


def test_an_integer_of_too_many_digits_is_refused():
    with pytest.raises(NotCanonical):
        encoded(10**5000)


def test_a_value_too_deep_is_refused():
    value = []
    for _ in range(200):
        value = [value]
    with pytest.raises(NotCanonical):
        encoded(value)


def test_an_imported_digest_is_an_alias():
    digest = "b2b:" + "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"
    assert matches(digest, b"")
    assert not matches(digest, b"x")
    assert not matches("md5:" + "0" * 32, b"")
