"""An answer that holds too much is refused before it is decoded, or before it is judged."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.probe.extent import VALUES_MAX, TooMuch, count, marks, read_json
from sidecar.probe.messages import LINES_MAX, read_answer, resource_of

MIB = 1024**2
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_what_is_read_is_what_was_said_and_has_no_more_values_than_marks(value):
    text = json.dumps(value)
    assert read_json(text) == value
    assert count(value) <= marks(text) + 1


@pytest.mark.parametrize("text", ["", "no", "[1", "{", "[" * 10_000, "<p>" + "," * MIB])
def test_what_is_no_json_is_none(text):
    assert read_json(text) is None


def test_values_are_bounded_to_the_last():
    assert read_json(json.dumps([0] * (VALUES_MAX - 1))) == [0] * (VALUES_MAX - 1)
    with pytest.raises(TooMuch):
        read_json(json.dumps([0] * VALUES_MAX))


def test_commas_of_a_text_are_not_values():
    assert read_json(json.dumps(["," * 2 * VALUES_MAX])) == ["," * 2 * VALUES_MAX]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("[" + "[]," * (8 * MIB // 3) + "1]", "application/json"),
        ('{"a":' * (8 * MIB // 5), "application/json"),
        ("\n" * 8 * MIB, "text/event-stream"),
        ("data:[],\n\n" * (8 * MIB // 10), "text/event-stream"),
        ("x\n" * (LINES_MAX + 1), "text/event-stream"),
    ],
    ids=["lists", "objects", "lines", "events", "just too many"],
)
def test_eight_mebibytes_of_nothing_are_refused_without_holding_up_anybody(body, kind):
    before = time.thread_time()
    with pytest.raises(TooMuch):
        read_answer(body.encode(), kind, 1)
    assert time.thread_time() - before < 0.1


def test_what_hides_in_a_resources_text_is_bounded_too():
    text = "[" + "[]," * 100_000 + "1]"
    with pytest.raises(TooMuch):
        resource_of({"contents": [{"text": text}]}, 200)
