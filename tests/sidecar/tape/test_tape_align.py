"""Alignment: a longest common subsequence, mirrored by a swap, bounded whatever is repeated."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.tape.align import EXACT_MAX, aligned

KEYS = st.lists(st.sampled_from("abc"), max_size=9)


def longest(one, other):
    """The length by the textbook's table."""
    row = [0] * (len(other) + 1)
    for key in one:
        before, row = row, [0]
        for place, each in enumerate(other):
            row.append(before[place] + 1 if key == each else max(before[place + 1], row[-1]))
    return row[-1]


@pytest.mark.requirement("DIF-01")
@given(KEYS, KEYS)
def test_the_alignment_is_a_longest_one_and_a_swap_mirrors_it(one, other):
    pairs = aligned(one, other, (one, other))
    assert len(pairs) == longest(one, other)
    assert all(one[n] == other[m] for n, m in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    assert aligned(other, one, (other, one)) == [(m, n) for n, m in pairs]


@pytest.mark.requirement("DIF-01")
def test_frequent_keys_are_not_dropped():
    """difflib's autojunk finds a ratio of nearly nothing here."""
    one = [f"tool{n % 6}" for n in range(300)]
    other = [*one[:50], "x", *one[50:150], *one[151:250], "y", *one[251:]]
    assert 2 * len(aligned(one, other, (one, other))) / (len(one) + len(other)) > 0.98


@pytest.mark.requirement("DIF-01")
def test_long_lists_are_anchored_where_keys_stand_once():
    fine = [str(n) for n in range(3 * EXACT_MAX)]
    shifted = [*[f"new{n}" for n in range(EXACT_MAX)], *fine[10:]]
    one, other = ["call"] * len(fine), ["call"] * len(shifted)
    pairs = aligned(one, other, (fine, shifted))
    assert {(n, n - 10 + EXACT_MAX) for n in range(10, len(fine))} <= set(pairs)
    assert len(pairs) == len(fine)
