"""A tool's values come back equal and in their types, and their payload stays plain."""

import dataclasses
import enum
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sidecar.canonical import canonical
from sidecar.capture.seams.forms import described, reshaped, shaped
from sidecar.capture.seams.told import LOST
from sidecar.tape.value import decoded, encoded, read_payload

pytestmark = pytest.mark.requirement("TAP-02")


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Order:
    number: int
    price: float
    colour: Colour = Colour.RED


leaves = (
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False)
    | (some.text(some.characters(exclude_categories=["Cs"])) | some.binary(max_size=8))
    | some.decimals(allow_nan=False)
    | some.datetimes()
    | some.just(Colour.RED)
    | some.builds(Order, some.integers(0, 9), some.floats(0, 9))
)
values = some.recursive(
    leaves,
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.lists(inner, max_size=3).map(tuple)
        | some.dictionaries(some.text("a/~$", max_size=3), inner, max_size=3)
        | some.dictionaries(some.integers(0, 3), inner, max_size=2)
    ),
    max_leaves=8,
)


def through_a_tape(value):
    payload, forms = shaped(value)
    assert payload is not LOST
    kept = decoded(read_payload(canonical(encoded(payload))))
    return reshaped(kept, decoded(read_payload(canonical(encoded(forms)))))


@given(values)
def test_a_value_comes_back_equal_and_in_its_types(value):
    again = through_a_tape(value)
    assert repr(again) == repr(value)
    assert again == value


def test_a_payload_stays_plain():
    payload, forms = shaped({"orders": [Order(1, 25.0)], "at": (1, 2)})
    assert payload == {"orders": [{"number": 1, "price": 25.0, "colour": "red"}], "at": [1, 2]}
    assert forms == {
        "": ["orders", "at"],
        "/orders/0": f"object:{__name__}:Order",
        "/orders/0/price": "float",
        "/orders/0/colour": f"enum:{__name__}:Colour",
        "/at": "tuple",
    }


def test_what_has_no_form_is_lost_and_of_an_argument_its_class_is_told():
    assert shaped({"a": [object()]}) == (LOST, {})
    told = described({"a": object(), "b": Order(1, 2.5), "c": datetime(2026, 1, 1, tzinfo=UTC)})
    assert told["a"] == {"type": "object", "value": "builtins.object"}
    assert told["b"] == {"number": 1, "price": 2.5, "colour": "red"}
    assert told["c"]["type"] == "datetime"
    assert described(Decimal("1.5"))["value"] == "1.5"


def test_a_class_that_is_not_there_leaves_the_payload():
    assert reshaped({"a": 1}, {"": "object:no.such.module:Thing"}) == {"a": 1}
