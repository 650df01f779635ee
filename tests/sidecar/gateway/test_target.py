"""Paths and queries: one canonical spelling, or refused."""

import re
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.gateway.target import (
    NotCanonicalTarget,
    canonical_path,
    read_pairs,
    segments,
    write_pairs,
)


@pytest.mark.requirement("GW-05")
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("/", "/"),
        ("/orders/42/refunds", "/orders/42/refunds"),
        ("/%6Frders/%34%32", "/orders/42"),
        ("/a/./b/../c", "/a/c"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/b/..", "/a/"),
        ("/a/.", "/a/"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/a:b@c,d=e!$&'()*+", "/a:b@c,d=e!$&'()*+"),
        ("/what%3fnow%23", "/what%3Fnow%23"),
        ("/100%25", "/100%25"),
        ("/...", "/..."),
    ],
)
def test_a_path_has_one_spelling(raw, expected):
    assert canonical_path(raw) == expected


@pytest.mark.row("E", "T57", "CVE-2019-9901")
@pytest.mark.parametrize(
    "raw",
    [
        *("", "orders", "//", "/a//b", "/a/..//b", "/..", "/a/../../b", "/%2e%2e/etc"),
        *(
            "/a%2Fb",
            "/a%2fb",
            "/a%5Cb",
            "/a\\b",
            "/a%00",
            "/a%0d%0aHost:x",
            "/a\tb",
            "/a b",
            "/a%7f",
        ),
        *("/a;jsessionid=1", "/a#b", "/a?b", "/a%", "/a%2", "/a%zz", "/a%u002f", "/é", "/a%ff"),
        *(
            "/a%c0%af",
            "/%252e%252e/a",
            "/a%252fb",
            "/a%25252fb",
            "/a%255cb",
            "/%25%32%65",
            "/%2%35",
        ),
        *('/a"b', "/a<b", "/a|b", "/a{b}", "/" + "a" * 5000),
    ],
)
def test_a_path_with_two_readings_is_refused(raw):
    with pytest.raises(NotCanonicalTarget):
        canonical_path(raw)


PATH_PIECES = st.sampled_from(
    [
        *(
            "a",
            "orders",
            "/",
            "/",
            ".",
            "..",
            "%2e",
            "%2E%2e",
            "%2f",
            "%5c",
            "\\",
            "%25",
            "%252e",
            "é",
        ),
        *(
            "%41",
            "%c3%a9",
            "%ff",
            ";",
            "?",
            "#",
            "//",
            "%00",
            "%",
            "2e",
            "~",
            "%7E",
            " ",
            "\t",
            "@",
            ":",
        ),
    ]
)


@given(st.lists(PATH_PIECES, max_size=8).map(lambda pieces: "/" + "".join(pieces)))
def test_a_canonical_path_is_stable_and_reads_the_same_however_often_it_is_decoded(raw):
    try:
        path = canonical_path(raw)
    except NotCanonicalTarget:
        return
    assert canonical_path(path) == path
    assert path.isascii() and not re.search(r"//|[\\;?#\s]", path)
    once, twice = unquote(path), unquote(unquote(path))
    for reading in (path, once, twice):
        assert ".." not in reading.split("/") and "." not in reading.split("/")
        assert reading.count("/") == path.count("/")
    assert "/" + "/".join(segments(path)) == once


@pytest.mark.parametrize(
    ("raw", "pairs", "written"),
    [
        ("", (), ""),
        ("a=1&b=two", (("a", "1"), ("b", "two")), "a=1&b=two"),
        ("a=1&a=2", (("a", "1"), ("a", "2")), "a=1&a=2"),
        ("a=&&b=%2B+%20", (("a", ""), ("b", "+  ")), "a=&b=%2B%20%20"),
        ("a=b=c;d", (("a", "b=c;d"),), "a=b%3Dc%3Bd"),
        ("%61=%C3%a9", (("a", "é"),), "a=%C3%A9"),
    ],
)
def test_a_query_is_ordered_pairs_in_one_spelling(raw, pairs, written):
    assert read_pairs(raw) == pairs
    assert write_pairs(pairs) == written


@pytest.mark.parametrize(
    "raw", ["flag", "a=%", "a=%zz", "a=%ff", "a=%00", "a=é", "a=1#b", "&".join(["a=1"] * 1001)]
)
def test_a_query_with_two_readings_is_refused(raw):
    with pytest.raises(NotCanonicalTarget):
        read_pairs(raw)


@given(st.text(alphabet='ab=&+%2B;?/ \\"é#\x00Ff', max_size=30))
def test_the_written_query_says_to_another_parser_what_was_read(raw):
    try:
        pairs = read_pairs(raw)
    except NotCanonicalTarget:
        return
    written = write_pairs(pairs)
    assert read_pairs(written) == pairs
    assert tuple(parse_qsl(written, keep_blank_values=True, strict_parsing=bool(written))) == pairs


@pytest.mark.requirement("GW-05")
@pytest.mark.row("E")
def test_a_form_that_some_readers_part_elsewhere_is_refused():
    """Its bytes are sent as they came: what ``;`` means there is the tool's to say."""
    assert read_pairs("a=1%3Bb=2", what="form") == (("a", "1;b=2"),)
    assert read_pairs("a=1;b=2") == (("a", "1;b=2"),)
    with pytest.raises(NotCanonicalTarget, match="escape it"):
        read_pairs("a=1;b=2", what="form")
