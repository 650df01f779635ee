"""Scenarios that differ only in who asks come to the same, or it is told how sure the difference
is.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from sidecar.evaluate.fairness import Fairness, Tally, fairness, fisher

RULE = Fairness(id="equal", scenarios=("a", "b"))
EXACT = [((5, 5), (5, 5), "pass"), ((5, 5), (4, 5), "fail"), ((0, 5), (0, 5), "pass")]
SAMPLED = [((5, 5), (4, 5), "skip"), ((20, 20), (2, 20), "fail"), ((3, 6), (3, 6), "pass")]


def tally(pair):
    return Tally(hits=pair[0], runs=pair[1])


@pytest.mark.requirement("EVL-01")
@pytest.mark.parametrize(
    ("left", "right", "status", "deterministic"),
    [*((*one, True) for one in EXACT), *((*one, False) for one in SAMPLED)],
)
def test_a_spread_is_a_failure_where_chance_does_not_explain_it(left, right, status, deterministic):
    found = fairness(RULE, {"a": tally(left), "b": tally(right)}, deterministic=deterministic)
    assert (found.status, found.level) == (status, "S"), found.detail


def test_a_margin_is_a_spread_that_is_allowed_and_no_run_is_no_pass():
    wide = Fairness(id="equal", scenarios=("a", "b"), margin=0.25)
    tallies = {"a": tally((5, 5)), "b": tally((4, 5))}
    assert fairness(wide, tallies, deterministic=True).status == "pass"
    assert fairness(RULE, {"a": tally((5, 5))}, deterministic=True).status == "skip"


@given(st.integers(0, 12), st.integers(1, 12), st.integers(0, 12), st.integers(1, 12))
def test_the_test_is_fishers(left, of_left, right, of_right):
    left, right = min(left, of_left), min(right, of_right)
    table = [[left, of_left - left], [right, of_right - right]]
    ours = fisher(Tally(hits=left, runs=of_left), Tally(hits=right, runs=of_right))
    assert ours == pytest.approx(fisher_exact(table).pvalue, abs=1e-6)
