"""What an answer means, and how long to wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.export.retry import (
    Failed,
    Pauses,
    Refused,
    grpc_answer,
    http_answer,
    retry_after_ns,
)

SECOND = 10**9
RETRYABLE = {1: "CANCELLED", 4: "DEADLINE_EXCEEDED", 10: "ABORTED", 11: "OUT_OF_RANGE"}
RETRYABLE |= {14: "UNAVAILABLE", 15: "DATA_LOSS"}


@pytest.mark.parametrize("code", range(1, 17))
def test_grpc_codes_are_retryable_as_the_protocol_says(code):
    answer = grpc_answer(code, "x", None)
    assert isinstance(answer, Failed) == (code in RETRYABLE)


def test_resource_exhausted_is_retryable_only_with_retry_info():
    assert isinstance(grpc_answer(8, "x", None), Refused)
    assert grpc_answer(8, "x", 3 * SECOND) == Failed(message="x", asked_ns=3 * SECOND)


@pytest.mark.parametrize(
    "status", [301, 400, 401, 403, 404, 408, 413, 429, 500, 501, 502, 503, 504]
)
def test_http_statuses_are_retryable_as_the_protocol_says(status):
    answer = http_answer(status, "x", None, 0)
    assert isinstance(answer, Failed) == (status in {429, 502, 503, 504})


def test_only_what_may_be_about_one_item_is_halved():
    assert http_answer(413, "x", None, 0).divisible and grpc_answer(3, "x", None).divisible
    assert not http_answer(401, "x", None, 0).divisible
    assert not grpc_answer(16, "x", None).divisible


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("7", 7 * SECOND),
        (" 0 ", 0),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50 * SECOND),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0),
        ("soon", None),
        ("-3", None),
        ("٣", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text, delay):
    assert retry_after_ns(text, now_ns=10 * SECOND) == delay


@given(
    st.integers(1, 10_000),
    st.none() | st.integers(0, 10**15),
    st.floats(0, 1, exclude_max=True),
)
def test_a_pause_is_never_shorter_than_asked_nor_longer_than_its_bounds(attempts, asked, dice):
    pauses = Pauses(initial_ns=SECOND, max_ns=30 * SECOND)
    pause = pauses.after(attempts, asked, dice)
    floor = min(asked or 0, 3600 * SECOND)
    assert floor <= pause <= floor + min(30 * SECOND, SECOND * 2 ** (attempts - 1))


def test_pauses_double_and_are_spread_over_their_whole_range():
    pauses = Pauses(initial_ns=SECOND, max_ns=30 * SECOND)
    assert [pauses.after(n, None, 0.999999) // SECOND for n in range(1, 8)] == [
        *(0, 1, 3, 7, 15, 29, 29)
    ]
    assert pauses.after(5, None, 0.0) == 0
