"""Distances of distributions beside a library's, and what their laws say."""

import math
from collections import Counter

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import jensenshannon

from sidecar.analyse.fidelity.distance import jensen_shannon, quantile, timing, total_variation

pytestmark = pytest.mark.requirement("TWN-05")

COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1).map(Counter)
TIMES = st.lists(st.integers(1_000, 10**11), min_size=2, max_size=40)
MS = 1_000_000


@given(COUNTS, COUNTS)
def test_jensen_shannon_is_the_square_of_scipys_distance_and_bounds_hold(left, right):
    names = sorted({*left, *right})
    p, q = ([some[one] / some.total() for one in names] for some in (left, right))
    found = jensen_shannon(left, right)
    assert found == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-9)
    distance = total_variation(left, right)
    assert distance == pytest.approx(0.5 * float(numpy.abs(numpy.subtract(p, q)).sum()))
    # Lin 1991, theorem 3: JS is at most TV; Pinsker from below.
    assert distance**2 / (2 * math.log(2)) - 1e-9 <= found <= distance + 1e-9


@given(COUNTS, COUNTS, COUNTS, st.integers(1, 9))
def test_total_variation_is_a_metric_of_shares(one, two, three, times):
    more = Counter({name: times * count for name, count in one.items()})
    assert total_variation(one, more) == pytest.approx(0)
    assert total_variation(one, two) == pytest.approx(total_variation(two, one))
    assert total_variation(one, three) <= (
        total_variation(one, two) + total_variation(two, three) + 1e-12
    )


def test_nothing_beside_something_is_as_far_as_can_be():
    assert (total_variation({}, {"a": 1}), jensen_shannon({"a": 1}, {})) == (1.0, 1.0)
    assert (total_variation({}, {}), jensen_shannon({}, {})) == (0.0, 0.0)


@given(TIMES, TIMES)
def test_durations_are_compared_as_a_library_compares_their_logarithms(recorded, twin):
    found = timing(recorded, twin)
    logs = [[math.log(one / MS) for one in some] for some in (recorded, twin)]
    assert found.ks == pytest.approx(stats.ks_2samp(*logs, method="asymp").statistic)
    size = len(recorded) * len(twin) / (len(recorded) + len(twin))
    assert found.p == pytest.approx(stats.kstwobign.sf(found.ks * size**0.5), abs=1e-9)
    assert found.wasserstein == pytest.approx(stats.wasserstein_distance(*logs), abs=1e-9)
    assert found.recorded_p99_ms == pytest.approx(float(numpy.quantile(recorded, 0.99)) / MS)
    assert (found.n_recorded, found.n_twin) == (len(recorded), len(twin))


def test_ten_against_three_hundred_milliseconds_are_told_apart():
    found = timing([10 * MS] * 50, [300 * MS] * 50)
    assert (found.ks, found.ratio_p50, found.ratio_p99) == (1.0, 30.0, 30.0)
    assert found.wasserstein == pytest.approx(math.log(30)) and found.p < 1e-9
    same = timing([10 * MS, 20 * MS] * 25, [10 * MS, 20 * MS] * 25)
    assert (same.ks, same.wasserstein, same.p) == (0.0, 0.0, 1.0)


def test_without_durations_there_is_no_comparison():
    assert timing([], [1]) is None and timing([1], []) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_quantiles_are_numpys(values, share):
    assert quantile(sorted(values), share) == pytest.approx(
        float(numpy.quantile(values, share)), abs=1e-6
    )
