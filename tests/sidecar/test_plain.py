"""Text for a terminal: what is hostile is escaped, what is not stays, JSON stays the same JSON."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from sidecar.plain import plain, plain_json, plain_lines, plain_markdown, plained

ANY = st.text(st.characters(codec=None))
HOSTILE = ["\x1b[2J", "\x9b31m", "a\nb", "a\rb", "\x85", "\u2028", "\u2029", "\u202e", "\u2066"]
HOSTILE += ["\u200f", "\x7f", "\0", "\u200b", "\ufeff", "\ud800", "\U000e0041"]


def moves(text):
    """Whether a terminal would do anything but show the characters."""
    return any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in text) or any(
        unicodedata.bidirectional(each) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "PDI")
        for each in text
    )


@given(ANY)
def test_no_text_moves_anything(text):
    assert not moves(plain(text))
    assert not moves(plain_lines(text).replace("\n", ""))
    assert plain_lines(text).count("\n") == text.count("\n")


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_is_hostile_is_shown_as_an_escape(text):
    assert "\\" in plain(text)
    assert not moves(plain(text))


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_what_is_shown_stays_as_it_is(text):
    assert plain(text) == text


@given(st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
def test_json_stays_the_same_and_holds_nothing_raw(value):
    shown = plain_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(shown) == value
    assert not moves(shown.replace("\n", ""))


class Pair(Struct, frozen=True):
    left: str
    right: tuple[object, ...]


def test_every_text_of_a_record_is_plain_and_its_type_stays():
    found = plained([Pair("a\n", ({"k\x1b": ["\u202e", 5, None]},))])
    assert found == [Pair("a\\n", ({"k\\x1b": ["\\u202e", 5, None]},))]


@pytest.mark.parametrize(
    "text",
    ["run.tape: input_changed at seq 3", "a - b", "12 events", "sha256:0a", "50%", "é 中文"],
)
def test_ordinary_text_stays_readable_in_markdown(text):
    assert plain_markdown(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("[a](b)", "![a](b)", "http://x", "mailto:a", "www.x", "@team", "#12", "`a`", "**a**"),
        *("_a_", "__a__", "a_ b_", "~~a~~", "<b>", "&lt;", "a|b", "- a", "+ a", "1. a", "12) a"),
        *("# a", "=\n", "$x$", ":smile:", "\\", "a\x1b[2J", "\u202ea"),
    ],
)
def test_nothing_is_markup_in_markdown(text):
    made = plain_markdown(text)
    assert made != text
    signs = r"[\[\]<>`*|~@$\\]|^[-+] |^\d+[.)]|://|mailto:|www\.|:\w+:|(?<!&)#"
    assert not re.search(signs, made)
    assert not re.search(r"(?<!\w)_|_(?!\w)", made)
