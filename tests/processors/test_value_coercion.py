"""Values are coerced by the table, and equal values have equal canonical texts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors import value

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4)
    ),
    max_leaves=6,
)
CONTAINERS = JSON.filter(lambda item: isinstance(item, dict | list))


@given(CONTAINERS)
def test_json_in_a_string_is_what_it_says(item):
    assert value.parse(json.dumps(item)) == (item, "captured")


@given(CONTAINERS)
def test_json_in_a_string_in_a_string_is_what_it_says(item):
    assert value.parse(json.dumps(json.dumps(item))) == (item, "captured")


@given(st.dictionaries(st.text("abc", min_size=1), st.none() | st.booleans(), min_size=1))
def test_a_python_literal_is_recovered_and_flagged(item):
    if json.dumps(item) != repr(item):
        assert value.parse(repr(item)) == (item, "repr")


@given(st.dictionaries(st.text("abcdef", min_size=3), st.text(min_size=5), min_size=2), st.data())
def test_cut_json_is_truncated_and_kept_as_text(item, data):
    whole = json.dumps(item)
    cut = whole[: data.draw(st.integers(2, len(whole) - 2))]
    found, state = value.parse(cut)
    assert found == cut
    assert state in ("truncated", "invalid_json")


@given(st.text())
def test_parse_never_raises_and_keeps_what_it_cannot_read(text):
    found, state = value.parse(text)
    if state in ("truncated", "invalid_json", "empty"):
        assert found == text


@given(JSON)
def test_canonical_ignores_the_order_of_keys(item):
    def reversed_keys(node):
        if isinstance(node, dict):
            return {key: reversed_keys(node[key]) for key in reversed(node)}
        return [reversed_keys(part) for part in node] if isinstance(node, list) else node

    assert value.canonical(item) == value.canonical(reversed_keys(item))


@given(st.integers(-(2**52), 2**52))
def test_a_whole_float_is_its_integer(number):
    assert value.canonical({"a": number}) == value.canonical({"a": float(number)})
    assert value.integer(float(number)) == value.integer(str(number)) == number


@pytest.mark.parametrize(("left", "right"), [(1, True), (0, False), ("a", "b"), (1.5, 1), ([], {})])
def test_unequal_values_have_unequal_texts(left, right):
    assert value.canonical([left]) != value.canonical([right])


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_split_long_is_whole(number):
    high, low = number >> 32, number & 0xFFFFFFFF
    assert value.integer({"low": low, "high": high}) == number


@pytest.mark.parametrize("odd", [True, 1.5, "x", "", None, float("nan"), [], {"low": 1}])
def test_what_is_no_whole_number_is_none(odd):
    assert value.integer(odd) is None


@pytest.mark.parametrize("none", ["", " ", "null", "None", "unknown", "<not specified>", "N/A", 7])
def test_what_stands_for_no_name_is_none(none):
    assert value.name(none) is None


@pytest.mark.parametrize("hidden", ["__REDACTED__", "<REDACTED>", '"[REDACTED]"'])
def test_hidden_content_is_redacted_and_never_data(hidden):
    assert value.parse(hidden) == (None, "redacted")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ('{"a": "b', "truncated"),
        ("[1, 2...[TRUNCATED: original length 90]", "truncated"),
        ('{"a": NaN}', "invalid_json"),
        ("", "empty"),
        ("42", "captured"),
        ('{"a": "\\ud800"}', "captured"),
    ],
)
def test_content_says_its_state(text, state):
    assert value.parse(text)[1] == state


def test_a_lone_surrogate_becomes_a_character_that_can_be_encoded():
    found, _ = value.parse('{"a": "\\ud800"}')
    assert found == {"a": "\ufffd"}
    assert json.dumps(found, ensure_ascii=False).encode()


@given(st.sets(st.integers(0, 999_999_999), max_size=8))
def test_flattened_lists_come_back_in_order_of_their_numbers(numbers):
    flat = {f"m.{number}.x": number for number in numbers}
    assert [item["x"] for item in value.slots(flat, "m.")] == sorted(numbers)


def test_flattened_lists_allocate_nothing_by_number_and_are_capped():
    assert value.slots({"m.999999999.x": 1}, "m.") == [{"x": 1}]
    huge = {f"m.{number}.x": number for number in (2**63 - 1, 5, 2**31)}
    assert [item["x"] for item in value.slots(huge, "m.")] == [5, 2**31, 2**63 - 1]
    assert len(value.slots({f"m.{n}.x": n for n in range(10_050)}, "m.")) == 10_000


@pytest.mark.parametrize(
    ("item", "schema"),
    [
        ({"type": "object", "properties": {"a": {}}}, True),
        ({"order_id": {"type": "string"}}, True),
        ({"order_id": "A-1"}, False),
        ({}, False),
    ],
)
def test_a_schema_is_told_from_arguments(item, schema):
    assert value.looks_like_schema(item) is schema


@pytest.mark.parametrize("opener", ["[", '{"a":', "("])
def test_nesting_without_bound_stays_text_and_everything_that_walks_survives(opener):
    closer = {"[": "]", '{"a":': "}", "(": ")"}[opener]
    for depth in (90, 101, 900, 100_000):
        text = opener * depth + "1" + closer * depth
        found, state = value.parse(text)
        assert isinstance(value.canonical(found), str)
        assert state in ("captured", "repr") or found == text
