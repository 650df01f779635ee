"""RFC 8785: the published vectors, and what must be refused."""

import json
import struct

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from sidecar import canonical as module
from sidecar.canonical import NotCanonical, canonical, digest, digest_of_many, sha256

# RFC 8785 §3.2.2 and §3.2.3: the worked example and the sorting example.
EXAMPLE = (
    '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
    '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",'
    '"literals":[null,true,false]}'
)
EXAMPLE_BYTES = bytes.fromhex(
    "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e"
    "756d62657273223a5b3333333333333333332e333333333333332c31652b33302c"
    "342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac245c"
    "75303030665c6e4127425c225c5c5c5c5c222f227d"
)
SORTING = (
    '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh",'
    '"1":"One","\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control",'
    '"\\u00f6":"Latin Small Letter O With Diaeresis"}'
)
SORTED_VALUES = [
    *("Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis", "Euro Sign"),
    *("Emoji: Grinning Face", "Hebrew Letter Dalet With Dagesh"),
]
# RFC 8785 appendix B: IEEE 754 bits and their text.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


def test_the_worked_example_of_the_rfc():
    assert canonical(json.loads(EXAMPLE)) == EXAMPLE_BYTES


def test_keys_are_sorted_by_utf16_code_units():
    assert list(json.loads(canonical(json.loads(SORTING))).values()) == SORTED_VALUES


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_of_appendix_b(bits, text):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number).decode() == text


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**53, -(2**53), {1: 2}, "\ud800", {"\ud800": 1}]
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(NotCanonical):
        canonical(value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


def as_ieee754(text):
    """RFC 8785 numbers are doubles; Python's reader makes a whole double beyond 2**53 an int."""
    number = int(text)
    return number if abs(number) < 2**53 else float(text)


@given(JSON)
def test_reading_and_writing_again_changes_nothing(value):
    text = canonical(value)
    assert canonical(json.loads(text, parse_int=as_ieee754)) == text


@given(st.dictionaries(st.text(max_size=6), st.integers(0, 9), max_size=6))
def test_the_order_of_keys_does_not_matter(value):
    backwards = dict(reversed(value.items()))
    assert digest(value, domain="d/1") == digest(backwards, domain="d/1")


def test_digests_are_kept_apart_by_their_domain():
    assert digest({}, domain="a/1") == sha256(b"a/1\n{}")
    assert digest({}, domain="a/1") != digest({}, domain="b/1")


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_a_digest_made_a_part_at_a_time_is_that_of_the_whole(value):
    for one in (value, {"\ue000": [], "\U0001f600": [value, []], "a": value, "b": [], "c": ()}):
        wanted = digest(one, domain="d/1")
        lazy = {name: iter(of) if isinstance(of, list) else of for name, of in one.items()}
        assert digest_of_many(one, domain="d/1") == digest_of_many(lazy, domain="d/1") == wanted


@pytest.mark.parametrize("wrong", [{1: "x"}, {"x": [float("nan")]}, {"\ud800": 1}])
def test_a_record_that_has_no_canonical_form_has_none_in_parts(wrong):
    with pytest.raises(NotCanonical):
        digest_of_many(wrong, domain="d/1")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
)


FRACTIONS = (
    st.floats(1e-5, 1e16)
    | st.integers(1, 10**17).map(lambda number: number / 10**7)
    | st.sampled_from([1e-4, 9.999999e-5, 1e15, 999999999999999.9, 0.1, 123456.789e3])
)


@pytest.mark.parametrize("encoder", ["installed", "light"])
@given(st.lists(FRACTIONS | FRACTIONS.map(lambda number: -number) | PLAIN, max_size=4))
def test_fractions_are_spelt_one_way_by_every_encoder(encoder, value):
    fast = module._FAST if encoder == "installed" else module._encoded
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FAST", fast)
        try:
            wanted = rfc8785.dumps(value)
        except (rfc8785.CanonicalizationError, UnicodeEncodeError):
            with pytest.raises(NotCanonical):
                canonical(value)
        else:
            assert canonical(value) == wanted


@pytest.mark.parametrize("value", [{1: 2}, {True: 1}, [{None: 1}], {"a": {2.5: 1}}])
def test_keys_that_are_no_text_are_refused_without_orjson_too(monkeypatch, value):
    monkeypatch.setattr(module, "_FAST", module._encoded)
    with pytest.raises(NotCanonical):
        canonical(value)


@given(PLAIN)
def test_the_fast_way_and_the_slow_way_are_one(value):
    try:
        wanted = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        with pytest.raises(NotCanonical):
            canonical(value)
    else:
        assert canonical(value) == wanted


def test_what_the_fast_library_would_take_and_rfc_8785_does_not_is_refused():
    class Text(str):
        """A str, but not one by type."""

    assert canonical({"a": Text("b")}) == b'{"a":"b"}'
    for value in ({1: "a"}, {"a": object()}, {"a": "\ud800"}, {"a": float("nan")}, {"a": 2**53}):
        with pytest.raises(NotCanonical):
            canonical(value)
