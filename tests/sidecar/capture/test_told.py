"""What the ambient seams tell of values comes back equal, in its type, through any tape."""

import math
import os
import time
import uuid
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath, PureWindowsPath
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.canonical import canonical
from sidecar.capture.seams.told import Untold, read_back, told
from sidecar.tape.redaction import Redactor
from sidecar.tape.value import decoded, encoded, read_payload

pytestmark = pytest.mark.requirement("TAP-02")
texts = st.text(st.characters(), max_size=20)
zones = st.sampled_from(
    [
        None,
        UTC,
        timezone(timedelta(hours=-3)),
        timezone(timedelta(0), "here"),
        ZoneInfo("Asia/Tokyo"),
    ]
)
fixed = st.sampled_from([None, UTC, timezone(timedelta(hours=5), "there")])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    texts,
    st.binary(max_size=20),
    st.binary(max_size=9).map(bytearray),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.dates(),
    st.datetimes(timezones=zones),
    st.times(timezones=fixed),
    st.timedeltas(),
    st.uuids(),
)
hashable = st.one_of(st.integers(), texts, st.uuids(), st.dates())
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(hashable, inner, max_size=3),
        st.sets(hashable, max_size=3),
        st.frozensets(hashable, max_size=3),
    ),
    max_leaves=8,
)


def through_a_tape(value):
    return read_back(decoded(read_payload(canonical(encoded(told(value))))))


def same(one, two):
    assert type(one) is type(two)
    if isinstance(one, list | tuple):
        assert len(one) == len(two)
        for first, second in zip(one, two, strict=True):
            same(first, second)
    elif isinstance(one, dict):
        for first, second in zip(one.items(), two.items(), strict=True):
            same(first, second)
    else:
        assert one == two
        assert isinstance(one, set | frozenset) or repr(one) == repr(two)


@given(values)
def test_a_value_comes_back_equal_and_in_its_type(value):
    same(value, through_a_tape(value))


@given(st.integers(min_value=10**12, max_value=10**19 - 1))
def test_no_number_passes_for_a_card(number):
    plain = encoded(told(number))
    assert read_back(decoded(Redactor().value(plain))) == number


@given(
    st.sampled_from(["<f8", "<f4", ">i4", "|u1", "|b1", "<c16", "<U3", "|S4", "<M8[ns]"]), st.data()
)
def test_an_array_comes_back_bit_for_bit(kind, data):
    shape = data.draw(st.lists(st.integers(0, 3), max_size=3))
    size = math.prod(shape) * np.dtype(kind).itemsize
    raw = bytes(size) if kind[1] in "Ub" else data.draw(st.binary(min_size=size, max_size=size))
    array = np.frombuffer(bytearray(raw), dtype=kind).reshape(shape)
    back = through_a_tape(array)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, raw)


@pytest.mark.parametrize(
    "value",
    [
        *(float("inf"), -0.0, 25.0, 2.0**60, 5e-324, "a\ud800", (1, (2.0,))),
        uuid.UUID(int=1 << 100, is_safe=uuid.SafeUUID.safe),
        *(time.localtime(0), os.stat_result(range(10))),
        *(np.float32(0.1), np.int64(3), np.str_("x")),
        *(Path("a/b"), PurePosixPath("/x"), PureWindowsPath("C:/x")),
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    ],
    ids=repr,
)
def test_a_particular_value_comes_back(value):
    back = through_a_tape(value)
    assert (type(back), repr(back), back) == (type(value), repr(value), value)
    assert getattr(back, "fold", 0) == getattr(value, "fold", 0)
    assert getattr(back, "is_safe", None) == getattr(value, "is_safe", None)


def test_a_files_state_comes_back_to_the_nanosecond():
    state = os.stat(__file__)
    back = through_a_tape(state)
    named = [one for one in dir(state) if one.startswith("st_")]
    assert [getattr(back, one) for one in named] == [getattr(state, one) for one in named]


@pytest.mark.parametrize(
    "value",
    [object(), [object()], np.array([object()]), lambda: 0],
)
def test_what_has_no_form_is_said_to_have_none(value):
    with pytest.raises(Untold):
        told(value)
