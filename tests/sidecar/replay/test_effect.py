"""The effect of a change, with its interval."""

import pytest
from scipy.stats import binomtest

from sidecar.replay.rerun.effect import effect_of

pytestmark = pytest.mark.requirement("REP-03")


def runs(good, n):
    return [True] * good + [False] * (n - good)


@pytest.mark.parametrize(
    ("changed", "unchanged", "low", "high"),
    [
        # Newcombe (1998), table II, method 10.
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_the_interval_is_newcombes(changed, unchanged, low, high):
    found = effect_of(runs(*changed), runs(*unchanged), "it held")
    assert found.low == pytest.approx(low, abs=5e-4) and found.high == pytest.approx(high, abs=5e-4)
    rates = changed[0] / changed[1], unchanged[0] / unchanged[1]
    assert found.effect == pytest.approx(rates[0] - rates[1])
    assert (found.candidates_good, found.controls) == (changed[0], unchanged[1])


def test_against_nothing_it_is_wilsons():
    for good, n in ((0, 5), (2, 5), (5, 5), (1, 1)):
        wilson = binomtest(good, n).proportion_ci(method="wilson")
        none = binomtest(0, 5).proportion_ci(method="wilson")
        found = effect_of(runs(good, n), runs(0, 5), "")
        assert found.low == pytest.approx(
            good / n - ((good / n - wilson.low) ** 2 + none.high**2) ** 0.5
        )


def test_a_change_and_its_opposite_mirror_each_other():
    one = effect_of(runs(4, 5), runs(1, 7), "")
    other = effect_of(runs(1, 7), runs(4, 5), "")
    assert (one.effect, one.low, one.high) == pytest.approx(
        (-other.effect, -other.high, -other.low)
    )
