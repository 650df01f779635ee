"""What is stored comes back equal, and equal values have equal bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from sidecar.store.codec import Codec


class Held(Struct, frozen=True):
    value: Any
    name: str = ""


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)
codec = Codec(Held)


@given(plain)
def test_any_plain_value_comes_back_equal(value):
    assert codec.decode(codec.encode(Held(value))) == Held(value)


@given(st.dictionaries(st.text("abc"), st.integers(), min_size=2))
def test_the_order_of_keys_does_not_show(value):
    turned = dict(reversed(value.items()))
    assert codec.encode(Held(value)) == codec.encode(Held(turned))


@pytest.mark.parametrize("number", [2**63, -(2**63), 2**64 - 1, 2**64, -(2**70), 10**40])
def test_integers_of_any_size_are_exact(number):
    assert codec.decode(codec.encode(Held({"n": [number]}))).value == {"n": [number]}
