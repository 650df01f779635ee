"""A JSON text comes back as it was written, from the value a tape keeps and its spelling."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.canonical import canonical
from sidecar.capture.bodies import answered, asked, written
from sidecar.capture.spelling import parsed, spelled
from sidecar.tape.redaction import Redactor
from sidecar.tape.value import decoded, encoded, read_payload

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
styles = st.sampled_from(
    [
        {},
        {"separators": (",", ":")},
        {"separators": (",", ":"), "ensure_ascii": False},
        {"indent": 2},
        {"indent": 4, "ensure_ascii": False},
    ]
)


def from_the_tape(value):
    return decoded(read_payload(canonical(encoded(value))))


@settings(deadline=None, max_examples=80)
@given(values, styles, st.sampled_from(["", "\n", " "]))
def test_what_an_encoder_wrote_comes_back_byte_for_byte(value, style, end):
    text = json.dumps({"top": value, "a": 1.0}, **style) + end
    body, hint = answered(text.encode())
    assert written(from_the_tape(body), from_the_tape(hint)) == text.encode()


@settings(deadline=None, max_examples=60)
@given(
    st.binary(max_size=40)
    | st.text(max_size=20).map(str.encode)
    | values.map(json.dumps).map(str.encode)
)
def test_any_body_comes_back_byte_for_byte(data):
    body, hint = answered(data)
    assert written(from_the_tape(body), from_the_tape(hint)) == data


@pytest.mark.parametrize(
    "text",
    [
        '{"b": 1, "a": 2}',
        '{"a":[{"z":1,"b":2},{"z":1,"b":2},{"b":3,"z":4}],"b":{}}',
        "[1.0, 1e5, 1E+2, -0.0, 0.1, 12345678901234567890, 1.50]",
        '{"a": "\\u00e9"}',
        '{\n  "b": [],\n  "a": [\n    1\n  ]\n}\n',
    ],
)
def test_it_is_a_value_with_a_spelling_and_not_a_text(text):
    value, spelling = parsed(text)
    assert spelling is not None
    assert value == json.loads(text)
    assert spelled(from_the_tape(value), spelling) == text


@pytest.mark.parametrize("text", ['{"a" : 1}', '{"a":"\\/"}', "[1 ,2]", '{"a":"\\u003c"}'])
def test_what_no_spelling_reproduces_is_kept_as_a_text_beside_the_value(text):
    body, hint = answered(text.encode())
    assert body == json.loads(text)
    assert hint == {"text": text}


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":2}', "[NaN]", "[1e999]", '["\\ud800"]', "[" * 95 + "]" * 95, '{"a":1}x']
)
def test_what_is_no_json_that_a_tape_holds_is_a_text(text):
    assert answered(text.encode()) == (text, {})


def test_a_value_that_was_redacted_since_is_written_in_the_same_spelling():
    body, hint = answered(b'{"user": "a", "password": "hunter22", "n": [1, 2.0]}')
    hidden = Redactor().value(encoded(body))
    assert written(hidden, hint) == b'{"user": "a", "password": "[secret]", "n": [1, 2.0]}'


def test_a_text_beside_a_value_is_redacted_too():
    _, hint = answered(b'{"password" : "hunter22"}')
    assert "hunter22" not in str(Redactor().value(encoded(hint)))


def test_requests_are_taken_apart():
    form = "application/x-www-form-urlencoded"
    assert asked(b"a=1&b=2&a=3", form) == {"form": {"a": ["1", "3"], "b": ["2"]}}
    assert asked(b'{"a": 1}', "") == {"a": 1}
    assert asked(b"\xff", "") == b"\xff"
    assert asked(b"", form) is None
    body = b'--X\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--X--\r\n'
    parts = {"multipart": [{"field": {"a": "1"}}]}
    assert asked(body, "multipart/form-data; boundary=X") == parts
    assert asked(body.replace(b"X", b"Y"), 'multipart/form-data; boundary="Y"') == parts
    assert asked(b"no parts", "multipart/form-data; boundary=X") == "no parts"
