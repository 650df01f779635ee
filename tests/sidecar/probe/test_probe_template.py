"""URL templates: a value is encoded for its place, or refused where it could lead elsewhere."""

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.probe.template import TemplateInvalid, ValueRefused, read_template


def filled(text, **arguments):
    return read_template(text).fill({"arguments": arguments})


@pytest.mark.parametrize(
    ("text", "value", "result"),
    [
        ("/orders/{arguments.x}", "A-1001", "/orders/A-1001"),
        ("/orders/{arguments.x}", 7, "/orders/7"),
        ("/orders/{arguments.x}/refunds", "a b%", "/orders/a%20b%25/refunds"),
        ("/orders/{arguments.x}", "ü", "/orders/%C3%BC"),
        ("/o?id={arguments.x}&n=1", "a&b=c/d?#..", "/o?id=a%26b%3Dc%2Fd%3F%23..&n=1"),
        ("/o?open={arguments.x}", True, "/o?open=true"),
        ("/o?amount={arguments.x}", 49.99, "/o?amount=49.99"),
    ],
)
def test_a_value_is_encoded_for_its_place(text, value, result):
    assert filled(text, x=value) == result


@pytest.mark.parametrize(
    "value",
    ["a/b", "a?b", "a#b", "..", "a..b", "a\nb", "\x00", "", " ", ".", "a\\b", "\x85", "\ud800"],
)
def test_a_value_that_could_lead_elsewhere_is_refused_in_a_path(value):
    with pytest.raises(ValueRefused, match="url_value_refused"):
        filled("/orders/{arguments.x}", x=value)


@pytest.mark.parametrize(
    ("value", "code"), [(None, "missing"), ({"a": 1}, "not_scalar"), (["a"], "not_scalar")]
)
def test_only_single_values_fit(value, code):
    with pytest.raises(ValueRefused, match=code):
        filled("/orders/{arguments.x}", x=value)


def test_a_value_that_is_not_there_is_missing():
    with pytest.raises(ValueRefused, match="missing"):
        filled("/orders/{arguments.other.inner}", x=1)


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "/o/{x}",
        "/o/{arguments}",
        "/o/{env.HOME}",
        "/o/{arguments.a-b}",
        "/o/ b",
        "/o#f",
        "/../o",
        "/o/{",
        "/o/}",
        "/ö",
    ],
)
def test_a_bad_template_is_refused_at_load(text):
    with pytest.raises(TemplateInvalid):
        read_template(text)


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_value_changes_where_the_request_goes(inside, asked):
    template = read_template("/orders/{arguments.a}/refunds?key={arguments.b}&z=1")
    try:
        url = template.fill({"arguments": {"a": inside, "b": asked}})
    except ValueRefused:
        return
    assert url.isascii()
    parts = urlsplit(url)
    assert [unquote(part) for part in parts.path.split("/")] == ["", "orders", inside, "refunds"]
    assert parse_qs(parts.query, keep_blank_values=True) == {"key": [asked], "z": ["1"]}
    assert parts.fragment == ""
