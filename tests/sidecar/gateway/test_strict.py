"""Strict JSON: what is read is what any reader reads; everything else is refused with its place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.canonical import canonical
from sidecar.gateway.strict import DEPTH_MAX, MEMBERS_MAX, NotStrict, read_json


@pytest.mark.row("E", "T58")
@pytest.mark.requirement("GW-05")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"a": 1, "a": 2}', 'key "a" stands twice in the object at the top'),
        (b'{"o": {"x~/": {"a": 1, "b": 2, "a": 3}}}', "twice in the object at /o/x~0~1"),
        (b'{"a": 1, "\\u0061": 2}', "twice"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b'{"a": NaN}', "NaN is not JSON at /a"),
        (b'{"a": [1, -Infinity]}', "-Infinity is not JSON at /a/1"),
        (b'{"a": "\\ud800"}', "lone surrogate at /a"),
        (b'{"\\ud800": 1}', "lone surrogate"),
        (b'{"a\\u0000": 1}', "NUL"),
        (b'{"a": 01}', "line 1 column 8"),
        (b'{"a": +1}', "line 1 column 7"),
        (b'{"a": .5}', "line 1 column 7"),
        (b'{"a": 1.}', "line 1 column 8"),
        (b'{"a": 0x1}', "line 1 column 8"),
        (b"{} {}", "Extra data at line 1 column 4"),
        (b"{}\x00", "Extra data"),
        (b'{"a": 1,}', "line 1 column"),
        (b"{'a': 1}", "line 1 column 2"),
        (b'{"a": "\n"}', "control character"),
        (b"", "line 1 column 1"),
        (b'{"a": 9007199254740992}', "beyond 2"),
        (b'{"a": -9007199254740992}', "beyond 2"),
        (b'{"a": 9007199254740993.0}', "no exact double (send it as text) at /a"),
        (b'{"a": 0.1000000000000000000001}', "no exact double"),
        (b'{"a": 1e400}', "no exact double"),
        (b'{"a": 1e-400}', "no exact double"),
        (b'{"a": ' + b"1" * 5000 + b"}", "beyond 2"),
        (b'{"a": 0.' + b"1" * 5000 + b"}", "no exact double"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "deeper than 64"),
        (b"[" * 200_000, "deeper than 64"),
        (b"[" + b",".join([b"1"] * (MEMBERS_MAX + 1)) + b"]", "more than 10000"),
    ],
)
def test_ambiguous_json_is_refused_saying_what_and_where(text, why):
    with pytest.raises(NotStrict) as caught:
        read_json(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"null", None),
        (b' {"a" : [1.50, -0, 12e2, 9007199254740991]}\n', {"a": [1.5, 0, 1200.0, 2**53 - 1]}),
        ('{"ключ": "\\ud83d\\ude00é"}'.encode(), {"ключ": "😀é"}),
        (b"[" * DEPTH_MAX + b"]" * DEPTH_MAX, None),
        (b"[" + b",".join([b"1"] * MEMBERS_MAX) + b"]", [1] * MEMBERS_MAX),
    ],
)
def test_unambiguous_json_is_read(text, value):
    found = read_json(text)
    assert value is None or found == value


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_what_is_read_has_the_canonical_form_of_what_was_written(value):
    try:
        text = json.dumps(value).encode()
        found = read_json(text)
    except NotStrict as error:
        assert "NUL" in str(error) or "surrogate" in str(error)
        return
    assert canonical(found) == canonical(value)


@given(
    st.binary(max_size=40) | st.text(alphabet='{}[]",:0123456789.eE+-\\ud\n truefalsn', max_size=60)
)
def test_what_is_read_is_what_the_lenient_reader_reads_too(data):
    raw = data if isinstance(data, bytes) else data.encode()
    try:
        found = read_json(raw)
    except NotStrict:
        return
    assert found == json.loads(raw)
