"""What the statistics obey, whatever they are given."""

import math
import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sidecar.gate.statistics import bounds, clusters, noise, novelty, paired, sequential, sizes

SHARE = st.floats(0.5, 0.999)


@st.composite
def counted(draw, most=400):
    runs = draw(st.integers(1, most))
    return draw(st.integers(0, runs)), runs


@given(counted(), SHARE)
def test_an_exact_bound_leaves_no_more_than_its_share_outside(seen, confidence):
    failures, runs = seen
    high, low = bounds.upper(failures, runs, confidence), bounds.lower(failures, runs, confidence)
    assert 0 <= low <= failures / runs <= high <= 1
    if failures < runs:
        assert stats.binom.cdf(failures, runs, high) == pytest.approx(1 - confidence, rel=1e-6)
    if failures:
        assert stats.binom.sf(failures - 1, runs, low) == pytest.approx(1 - confidence, rel=1e-6)


@given(st.floats(0.001, 0.5), st.integers(0, 6))
def test_the_runs_needed_are_the_fewest_that_show_it(rate, failures):
    runs = bounds.runs_needed(rate, failures)
    assert bounds.upper(failures, runs) <= rate * (1 + 1e-9)
    assert bounds.upper(failures, runs - 1) > rate


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, 1e-14])
def test_a_rate_that_no_number_of_runs_shows_is_refused(rate):
    with pytest.raises(ValueError, match="rate"):
        bounds.runs_needed(rate)


@given(counted())
def test_bounds_that_always_hold_are_wider_than_those_of_one_look(seen):
    failures, runs = seen
    always = sequential.anytime(failures, runs)
    assert always.upper >= bounds.upper(failures, runs) - 1e-9
    assert always.lower <= bounds.lower(failures, runs) + 1e-9


def test_bounds_that_always_hold_do_so_when_looked_at_after_every_run():
    dice, wrong = random.Random(3), 0
    crossings = {
        (failures, runs): sequential.anytime(failures, runs).upper < 0.1
        for runs in range(1, 81)
        for failures in range(min(runs, 8) + 1)
    }
    for _ in range(1_000):
        failures = 0
        for runs in range(1, 81):
            failures += dice.random() < 0.1
            if crossings.get((failures, runs), False):
                wrong += 1
                break
    assert wrong / 1_000 <= 0.05


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 200))
def test_bounds_of_a_difference_hold_it_and_turn_round_with_the_sides(worse, better, same):
    pairs = worse + better + same
    found = paired.difference(worse, better, pairs)
    if pairs:
        assert -1 <= found.lower <= (worse - better) / pairs + 1e-9
        assert (worse - better) / pairs - 1e-9 <= found.upper <= 1
    turned = paired.difference(better, worse, pairs)
    assert turned.lower == pytest.approx(-found.upper, abs=1e-6)
    assert turned.upper == pytest.approx(-found.lower, abs=1e-6)


@pytest.mark.parametrize(
    ("pairs", "rates"), [(30, (0.1, 0.05)), (60, (0.03, 0.03)), (30, (0, 0.1))]
)
def test_bounds_of_a_difference_leave_out_the_truth_no_more_often_than_they_say(pairs, rates):
    worse_rate, better_rate = rates
    outside = 0.0
    for worse in range(pairs + 1):
        for better in range(pairs - worse + 1):
            chance = stats.multinomial.pmf(
                [worse, better, pairs - worse - better],
                pairs,
                [worse_rate, better_rate, 1 - worse_rate - better_rate],
            )
            if chance > 1e-7:
                found = paired.difference(worse, better, pairs)
                outside += chance * (found.upper < worse_rate - better_rate - 1e-9)
    assert outside <= 0.075  # a score interval holds its level on average, not everywhere


@given(st.lists(st.floats(0, 1), max_size=30))
def test_adjusted_p_values_keep_their_order_and_holm_is_the_stricter(values):
    strict, lax = paired.holm(values), paired.benjamini_hochberg(values)
    assert all(one >= raw - 1e-12 for one, raw in zip(lax, values, strict=True))
    assert all(one >= other - 1e-12 for one, other in zip(strict, lax, strict=True))
    ranked = [strict[at] for at in sorted(range(len(values)), key=values.__getitem__)]
    assert ranked == sorted(ranked)


def test_runs_count_once_for_each_thing_drawn_and_a_strict_replay_draws_nothing():
    draws = [
        clusters.Draw(scenario=scenario, seed=1, sample=sample)
        for scenario in ("a", "b")
        for sample in ("1", "2", "2", None)
    ]
    assert clusters.effective_draws(draws) == 4
    assert clusters.design_effect(4, 0.38) == pytest.approx(2.14)


def test_runs_are_worth_between_one_a_scenario_and_all_of_them():
    assert clusters.effective_runs([[1, 1, 1], [0, 0, 0], [1, 1, 1]]) == pytest.approx(3)
    assert clusters.effective_runs([[1], [0], [1]]) == pytest.approx(3)
    assert clusters.effective_runs([[1, 1], [1, 1]]) == 2
    alternating = clusters.effective_runs([[1, 0, 1, 0]] * 5)
    assert alternating == 20


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_a_bootstrap_over_scenarios_is_the_same_for_the_same_seed(seed):
    values = {"a": [1.0, 1.0], "b": [0.0], "c": [1.0, 0.0, 0.0]}
    found = clusters.bootstrap(values, seed=seed, resamples=50)
    assert found == clusters.bootstrap(values, seed=seed, resamples=50)
    assert 0 <= found.lower <= found.upper <= 1


def test_clustered_errors_widen_with_runs_that_move_together():
    values = {str(number): [float(number % 2)] * 4 for number in range(40)}
    found = clusters.bootstrap(values, seed=1)
    half = (found.upper - found.lower) / 2
    assert half == pytest.approx(1.96 * clusters.clustered_error(list(values.values())), rel=0.15)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1),
       st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1))  # fmt: skip
def test_distances_are_none_to_oneself_even_and_at_most_one(one, other):
    for distance in (noise.total_variation, noise.jensen_shannon):
        assert distance(one, one) == pytest.approx(0, abs=1e-12)
        assert distance(one, other) == pytest.approx(distance(other, one))
        assert 0 <= distance(one, other) <= 1 + 1e-12


def test_a_distance_of_the_same_agent_lies_within_its_floor_and_a_dropped_tool_above_it():
    dice = random.Random(5)

    def run(drop=False):
        tools = [dice.choice(["get", "find", "pay", "say"]) for _ in range(6)]
        return [tool for tool in tools if not (drop and tool == "find")]

    same = {str(case): ([run(), run()], [run(), run()]) for case in range(40)}
    seen, least = noise.floor(same, size=1, seed=1)
    assert 0 < seen <= least
    other = {str(case): ([run(), run()], [run(True), run(True)]) for case in range(40)}
    seen, least = noise.floor(other, size=1, seed=1)
    assert seen > 2 * least


def plain_floor(cases, size, seed, shuffles=20):
    """The floor as it is defined: every run's n-grams, all labels dealt anew at once."""
    runs = [
        (case, side, noise.grams(run, size))
        for case, name in enumerate(sorted(cases))
        for side in (0, 1)
        for run in cases[name][side]
    ]
    dice = np.random.default_rng(seed)

    def apart(sides):
        counted = Counter(), Counter()
        for (_, _, run), side in zip(runs, sides, strict=True):
            counted[side].update(run)
        return noise.total_variation(*counted)

    sides, groups = [side for _, side, _ in runs], [case for case, _, _ in runs]
    found = []
    for _ in range(shuffles):
        order = np.lexsort((dice.random(len(runs)), groups))
        found.append(apart([sides[at] for at in order]))
    return apart(sides), float(np.quantile(found, 0.95))


ACTS = st.lists(st.sampled_from("abc"), max_size=4)


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from("xyz"), st.tuples(*[st.lists(ACTS, max_size=5)] * 2)),
    st.integers(1, 2),
    st.integers(0, 9),
    st.integers(1, 30),
)
def test_a_floor_is_the_same_however_many_runs_are_shuffled_together(cases, size, seed, together):
    found = noise.floor(cases, size=size, seed=seed, shuffles=20, together=together)
    assert found == pytest.approx(plain_floor(cases, size, seed), abs=1e-12)
    assert found == noise.floor(cases, size=size, seed=seed, shuffles=20)


def test_a_floor_of_ten_thousand_runs_takes_memory_for_the_ways_they_went():
    def peak(runs):
        side = [("get", "pay")] * (runs // 2)
        tracemalloc.start()
        noise.floor({"x": (side, side)}, size=2, seed=1, shuffles=1)
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert (peak(10_000) - peak(1_000)) / 9_000 < 100  # a run's n-grams alone are some 400


def test_nothing_seen_twice_leaves_all_unseen_and_no_runs_show_nothing():
    found = novelty.novelty([1, 1, 1], 100)
    assert (found.unseen, found.total) == (0.03, 6)
    assert novelty.novelty([], 0).unseen == 1


def test_the_pairs_for_a_rise_grow_with_the_pairs_that_differ_and_shrink_with_the_rise():
    def asked(worse, rise):
        return sizes.pairs_needed(worse, worse, 200, rise=rise, margin=0.02, alpha=0.05, power=0.95)

    assert asked(5, 0.1) < asked(40, 0.1) < asked(40, 0.05)
    assert sizes.pairs_to_clear(0, 0, 50, margin=0.02, alpha=0.05, power=0.95) > 50


def test_a_sequential_test_decides_both_ways():
    test = sequential.Sprt(good=0.001, bad=0.01)
    assert test.decide(0, 325) is None and test.decide(0, 326) == "good"
    assert test.decide(3, 60) == "bad" and math.isfinite(test.expected_runs(0.001))
