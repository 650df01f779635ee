"""What is masked, what is not, and the laws of masking."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from processors.redact.detectors import DETECTORS
from processors.redact.leaves import UNREADABLE, masked, masked_text
from processors.redact.masker import Masker, names_secret


def mask(text):
    return Masker().mask(text)


FOUND = [
    ("write to bob@example.com now", "write to [email] now"),
    ("ünïcode@bücher.example", "[email]"),
    ("'bob@example.com'", "'[email]'"),
    ("card 4242 4242 4242 4242, thanks", "card [card], thanks"),
    ("4242-4242-4242-4242 123", "[card] 123"),
    ("pay DE89 3704 0044 0532 0130 00 today", "pay [iban] today"),
    ("GB29NWBK60161331926819", "[iban]"),
    ("Authorization: Bearer abc.def-123456", "Authorization: [bearer]"),
    ("Basic dXNlcjpwYXNzd29yZA==", "[bearer]"),
    ("sk-proj-abcdefghijklmnop1234", "[api_key]"),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[api_key]"),
    ("sk_agent_0123456789abcdef_" + "x" * 43, "[api_key]"),
    ("AKIAIOSFODNN7EXAMPLE", "[aws_key]"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "[jwt]"),
    ("https://user:pass@host.example/x", "[credential]/x"),
    ("password=hunter22 ok", "[secret] ok"),
    ("the api key: 12345678", "the [secret]"),
    ("call +49 170 1234567 please", "call [phone] please"),
    ("(555) 123-4567", "[phone]"),
    ("ssn 078-05-1120", "ssn [ssn]"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx", "[private_key]\nx"),
    ("-----BEGIN PRIVATE KEY-----\nMIIcut", "[private_key]"),
    ("bob\\u0040example.com", "[email]"),
    ("\ud800 bob@example.com", "\ufffd [email]"),
]
KEPT = [
    "Your refund of 49.99 USD for order A-1001 has been issued.",
    "1795999754150257524",
    "2026-11-30T04:15:05Z and 10:30",
    "call_76946afb223d4e5007055392",
    "chatcmpl-cee4d2c4e9ac9d7f1acebdd3",
    "4242 4242 4242 4241",
    "DE00 3704 0044 0532 0130 02",
    "basic information about bearer bonds",
    "gpt-4o-mini-2024-07-18",
    "0af7651916cd43dd8448eb211c80319c",
    "total tokens: 1234",
    "",
]


@pytest.mark.requirement("RED-01")
@pytest.mark.parametrize(("text", "after"), FOUND)
def test_a_datum_is_masked_and_its_surroundings_stay(text, after):
    assert mask(text) == after


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_datum_stays(text):
    assert mask(text) == text


def test_no_detector_matches_a_mask():
    for detector in DETECTORS:
        assert mask(f"{detector.mask} {detector.mask}{detector.mask}") == (
            f"{detector.mask} {detector.mask}{detector.mask}"
        )


PIECES = st.one_of(
    st.text(max_size=12),
    st.sampled_from([text for text, _ in FOUND] + KEPT),
    st.sampled_from(
        ["@", ".", "+", "-", " ", "4242424242424242", "a@b.c", "[", "]", "Bearer ", ":"]
    ),
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.requirement("RED-02")
@given(TEXTS)
def test_masking_a_text_twice_changes_nothing_and_once_is_always_the_same(text):
    once = masked_text(text, Masker())
    assert masked_text(once, Masker()) == once
    assert masked_text(text, Masker()) == once


@pytest.mark.requirement("RED-02")
@given(VALUES)
def test_masking_a_value_twice_changes_nothing(value):
    once = masked(value, Masker())
    assert masked(once, Masker()) == once


@pytest.mark.requirement("RED-01")
@given(VALUES)
@example(["[["])
@example({"a": ' \n{"b'})
def test_json_in_a_text_stays_json_and_is_masked_by_its_leaves(value):
    text = json.dumps(value)
    if not isinstance(value, dict | list):
        return
    after = masked_text(text, Masker())
    assert json.loads(after) == masked(json.loads(text), Masker())


def test_untouched_json_stays_byte_for_byte():
    text = ' {"a" : 1.50,\n"b":"x"}'
    assert masked_text(text, Masker()) == text


def test_json_in_json_in_json_is_reached():
    secret = json.dumps({"b": json.dumps({"mail": "bob@example.com"})})
    after = masked({"a": secret}, Masker())
    assert json.loads(json.loads(after["a"])["b"]) == {"mail": "[email]"}


@pytest.mark.parametrize("text", ['{"card": "4242 4242 42', '[{"a": 1', '{"a": "b@c.de"} trailing'])
def test_json_that_cannot_be_read_goes_as_a_whole(text):
    assert masked_text(text, Masker()) == UNREADABLE


@pytest.mark.parametrize("text", ["[1] see the footnote", "{name} is missing", "[done]"])
def test_a_text_that_only_looks_like_json_is_a_text(text):
    assert masked_text(text, Masker()) == text


def test_a_member_that_came_twice_does_not_survive_in_the_text():
    after = masked_text('{"a": "bob@example.com", "a": "x"}', Masker())
    assert after == '{"a":"x"}'


def test_numbers_keys_and_keys_that_name_secrets():
    value = {
        "number": 4242424242424242,
        "count": 3,
        "bob@example.com": 1,
        "eve@example.com": 2,
        "apiKey": "short",
        "headers": {"X-Api-Key": "k", "Authorization": {"scheme": "x"}},
        "usage_tokens": 12,
        "password": None,
    }
    assert masked(value, Masker()) == {
        "number": "[card]",
        "count": 3,
        "[email]": 1,
        "[email]#2": 2,
        "apiKey": "[secret]",
        "headers": {"X-Api-Key": "[secret]", "Authorization": "[secret]"},
        "usage_tokens": 12,
        "password": None,
    }


@pytest.mark.parametrize("key", ["gen_ai.usage.input_tokens", "token_count", "pinned", "secretary"])
def test_a_harmless_key_names_no_secret(key):
    assert not names_secret(key)


def test_very_deep_data_is_not_searched_but_dropped():
    value = "bob@example.com"
    for _ in range(300):
        value = [value]
    assert "bob" not in json.dumps(masked(value, Masker()))
    assert masked_text("[" * 5000 + '"bob@example.com"' + "]" * 5000, Masker()) == UNREADABLE
