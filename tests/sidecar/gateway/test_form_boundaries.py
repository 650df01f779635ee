"""Boundaries that some readers see and others do not: a form that has any is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.gateway.multipart import Multipart, NotMultipart, boundary_of

HEAD = b'Content-Disposition: form-data; name="%s"\r\n\r\n'
HIDDEN = b"--b\r\n" + HEAD % b"hidden" + b"1"


def form(value):
    return b"--b\r\n" + HEAD % b"note" + value + b"\r\n--b--\r\n"


def read(data, size):
    reader = Multipart(b"b")
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
    return reader.end()


@pytest.mark.requirement("GW-05")
@pytest.mark.row("E", "CVE-2026-111750")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize(
    "value", [b"x\n" + HIDDEN, b"x\r" + HIDDEN, b"x" + HIDDEN, HIDDEN, b"\n" + HIDDEN, b"x--b--"]
)
def test_a_boundary_within_a_part_is_refused_whatever_stands_before_it(value, size):
    """After a bare LF, or at the very beginning, lenient readers begin another part."""
    with pytest.raises(NotMultipart, match="holds its boundary"):
        read(form(value), size)


@pytest.mark.requirement("GW-05")
@pytest.mark.row("E")
@given(value=st.text("-b\r\n x", max_size=12), size=st.integers(1, 9))
def test_what_is_taken_holds_no_boundary_and_is_one_part(value, size):
    data = value.encode()
    try:
        (part,) = read(form(data), size)
    except NotMultipart:
        assert b"--b" in data or b"\r\n-" in data or data.endswith(b"\r"), data
        return
    assert part.text == value and b"--b" not in data


@pytest.mark.requirement("GW-05")
@pytest.mark.row("E")
@pytest.mark.parametrize(
    "boundary", ["a(b)", "a,b", "a/b", "a:b", "a=b", "a?b", "a b", '"a', "a@b"]
)
def test_a_boundary_that_needs_quotes_has_them(boundary):
    with pytest.raises(NotMultipart):
        boundary_of(f"multipart/form-data; boundary={boundary}")
    if not set(boundary) & set(' "@'):
        quoted = f'multipart/form-data; boundary="{boundary}"'
        assert boundary_of(quoted) == boundary.encode()
