"""What a server says reaches the driver whole and rightly made, or not at all."""

import itertools
import struct

import pytest
from hostile_postgres_rig import WELCOME, message, row
from hypothesis import given
from hypothesis import strategies as st

from sidecar.probe.sql.frames import (
    ANSWER_BYTES_MAX,
    COLUMNS_MAX,
    CONNECTION_BYTES_MAX,
    ROWS_MAX,
    FrameRefused,
    Frames,
)


def described(*names):
    columns = b"".join(name + b"\0" + bytes(18) for name in names)
    return message(b"T", struct.pack("!h", len(names)) + columns)


SESSION = (
    message(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0")
    + WELCOME
    + message(b"N", b"SNOTICE\0Mbe well\0\0")
    + message(b"1")
    + message(b"t", struct.pack("!hi", 1, 25))
    + described(b"order_id", b"")
    + message(b"2")
    + row(b"A-1", b"")
    + message(b"D", struct.pack("!hii", 2, -1, -1))
    + message(b"s")
    + message(b"C", b"SELECT 2\0")
    + message(b"E", b"SERROR\0C42601\0Mno\0\0")
    + message(b"Z", b"E")
)


def fed(*pieces, answering=False):
    frames = Frames()
    if answering:
        frames.answer()
    return b"".join(frames.feed(piece) for piece in pieces)


def refusal(*pieces, answering=False):
    with pytest.raises(FrameRefused) as caught:
        fed(*pieces, answering=answering)
    return caught.value.code


@given(st.lists(st.integers(0, len(SESSION)), max_size=20))
def test_a_session_comes_through_as_it_is_however_it_is_cut(cuts):
    places = [0, *sorted(cuts), len(SESSION)]
    pieces = [SESSION[start:end] for start, end in itertools.pairwise(places)]
    assert fed(*pieces) == SESSION


@given(st.integers(0, len(SESSION)))
def test_a_message_that_is_not_whole_is_held_back(size):
    assert SESSION.startswith(passed := fed(SESSION[:size]))
    assert fed(passed) == passed  # messages that stand for themselves


@given(st.binary(max_size=300))
def test_bytes_are_whole_messages_or_refused(data):
    frames = Frames()
    try:
        passed = frames.feed(WELCOME + data)
    except FrameRefused as error:
        assert error.code in ("answer_malformed", "answer_too_large", "too_many_columns")
    else:
        assert (WELCOME + data).startswith(passed)


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"x",
        b"G",  # a copy
        b"A",  # a notification, which nobody asked for
        b"D\0\0\0\3",
        b"D\xff\xff\xff\xff",
        message(b"1", b"more"),
        message(b"R", b"\0"),
        message(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256"),
        message(b"K", b"\0\0\0\1"),
        message(b"Z", b"X"),
        message(b"Z"),
        message(b"S", b"name\0value"),
        message(b"S", b"a\0b\0c\0"),
        message(b"C", b"SELECT 1"),
        message(b"E", b"Mno end"),
        message(b"N"),
        message(b"t", struct.pack("!hi", 2, 25)),
        message(b"t", struct.pack("!h", -1)),
        message(b"T", struct.pack("!h", 1)),
        message(b"T", struct.pack("!h", -1)),
        message(b"T", struct.pack("!h", 1) + b"name\0" + bytes(17)),
        message(b"T", struct.pack("!h", 1) + b"name\0" + bytes(19)),
        message(b"D", b"\0"),
        message(b"D", struct.pack("!h", -1)),
        message(b"D", struct.pack("!h", 1)),
        message(b"D", struct.pack("!hi", 1, -2)),
        message(b"D", struct.pack("!hi", 1, 1)),
        message(b"D", struct.pack("!hi", 1, 2**31 - 1) + b"x"),
        message(b"D", struct.pack("!hi", 1, 1) + b"xx"),
    ],
)
def test_what_contradicts_itself_is_refused(data):
    assert refusal(WELCOME + data) == "answer_malformed"


def test_a_length_beyond_the_bound_is_refused_before_anything_of_it_comes():
    assert refusal(b"D" + struct.pack("!i", ANSWER_BYTES_MAX + 1)) == "answer_too_large"
    assert fed(b"D" + struct.pack("!i", ANSWER_BYTES_MAX)) == b""


def test_rows_columns_and_bytes_are_bounded():
    one = row(b"1")
    assert fed(one * ROWS_MAX, answering=True) == one * ROWS_MAX
    assert refusal(one * (ROWS_MAX + 1), answering=True) == "too_many_rows"
    wide = row(*[b""] * COLUMNS_MAX)
    assert fed(wide) == wide
    assert refusal(row(*[b""] * (COLUMNS_MAX + 1))) == "too_many_columns"
    assert refusal(described(*[b"c"] * (COLUMNS_MAX + 1))) == "too_many_columns"
    large = row(bytes(ANSWER_BYTES_MAX // 4))
    assert refusal(*[large] * 4, answering=True) == "answer_too_large"


def test_all_bytes_of_a_connection_are_bounded():
    notice = message(b"N", b"M" + b"x" * 65000 + b"\0\0")
    times = CONNECTION_BYTES_MAX // len(notice)
    fed(*[notice] * times)
    assert refusal(*[notice] * (times + 1)) == "answer_too_large"


def test_rows_before_the_answer_are_not_the_answers():
    frames = Frames()
    frames.feed(row(b"1") * ROWS_MAX)
    frames.answer()
    frames.feed(row(b"1") * ROWS_MAX)
