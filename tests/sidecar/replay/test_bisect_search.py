"""The bisection itself, on orders and oracles made up here: whom it names, and at what price."""

import math
import random
import time

import pytest
from bisect_rig import ask, chain, drive, graph, monotone, unsteady
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.replay.bisect.model import Asked, Conclusion, Run
from sidecar.replay.bisect.order import POINTS_MAX, Order, Product, points_of, set_of
from sidecar.replay.bisect.rate import alike, interval, repeats_for
from sidecar.replay.bisect.step import given_up, next_step

pytestmark = pytest.mark.requirement("BIS-01")
SEEDS = st.integers(0, 10**6)


@given(SEEDS, st.integers(3, 40), st.data())
def test_a_steady_testable_behaviour_is_traced_to_the_point_that_introduced_it(seed, count, data):
    order = graph(count, seed)
    culprit = data.draw(st.integers(1, len(order) - 1))
    if not order.above(culprit) >> (len(order) - 1) & 1:
        return
    found, runs = drive(order, ask(order), monotone(order, culprit))
    assert (found.outcome, found.culprit) == ("found", culprit)
    assert found.last_good == order.parents[culprit]
    assert found.contradictions == ()
    searched = [run for run in runs if run.purpose == "search"]
    assert len({run.point for run in searched}) == len(searched)


@given(SEEDS, st.integers(3, 30), st.data())
def test_with_untestable_points_the_suspects_hold_the_culprit_and_no_innocent_is_named(
    seed, count, data
):
    order = graph(count, seed)
    tip = len(order) - 1
    culprit = data.draw(st.integers(1, tip))
    skipped = data.draw(st.sets(st.integers(1, max(1, tip - 1)), max_size=count // 2)) - {tip}
    found, _ = drive(order, ask(order), monotone(order, culprit, skipped))
    if found.outcome == "found":
        assert found.culprit == culprit
    else:
        assert found.reason == "untestable"
        assert culprit in found.suspects
        # All of them but the last are what could not be tested.
        assert len(set(found.suspects) - skipped) == 1
    assert set(found.skipped) <= skipped


@given(SEEDS, st.integers(2, 25), st.data())
def test_of_several_points_that_introduced_it_one_is_named(seed, count, data):
    order = graph(count, seed)
    tip = len(order) - 1
    several = data.draw(st.sets(st.integers(1, tip), min_size=1, max_size=4)) | {tip}
    above = 0
    for one in several:
        above |= order.above(one)
    found, _ = drive(order, ask(order), lambda point: "bad" if above >> point & 1 else "good")
    assert found.outcome == "found"
    assert above >> found.culprit & 1
    assert not any(above >> one & 1 for one in found.last_good)


@pytest.mark.parametrize("count", [2, 3, 64, 65, 1000])
def test_the_number_of_runs_is_near_the_logarithm(count):
    for culprit in {1, count // 3 or 1, count - 1}:
        order = chain(count)
        _, runs = drive(order, ask(order), monotone(order, culprit))
        searched = sum(run.purpose == "search" for run in runs)
        assert searched <= math.ceil(math.log2(max(1, count - 1)))


@pytest.mark.parametrize("width", [10, 100])
def test_a_block_of_untestable_points_is_left_by_doubled_steps(width):
    order = chain(1001)
    block = range(500 - width // 2, 500 + width // 2)
    found, runs = drive(order, ask(order), monotone(order, 100, block))
    assert found.culprit == 100
    assert sum(run.verdict == "skip" for run in runs) <= math.log2(width) + 1


def test_where_only_the_end_can_be_tested_all_are_suspects():
    order = chain(20)
    found, _ = drive(order, ask(order), monotone(order, 7, range(1, 19)))
    assert (found.outcome, found.reason) == ("inconclusive", "untestable")
    assert found.suspects == tuple(range(1, 20))
    assert found.skipped == tuple(range(1, 19))


@pytest.mark.parametrize(
    ("verdicts", "reason"),
    [
        ({19: "good"}, "not_reproduced"),
        ({19: "skip"}, "bad_end_untestable"),
        ({0: "bad"}, "good_end_bad"),
        ({0: "skip"}, "good_end_untestable"),
    ],
)
def test_no_search_begins_between_ends_that_do_not_hold(verdicts, reason):
    order = chain(20)
    honest = monotone(order, 7)
    found, runs = drive(order, ask(order), lambda point: verdicts.get(point) or honest(point))
    assert (found.outcome, found.reason, found.culprit) == ("inconclusive", reason, None)
    assert {run.purpose for run in runs} == {"end"}


@pytest.mark.parametrize("changed", ["culprit", "parent"])
@pytest.mark.row("R55")
def test_an_oracle_that_says_otherwise_the_second_time_names_nobody(changed):
    order, seen = chain(64), set()
    honest, place = monotone(order, 40), 40 if changed == "culprit" else 39

    def oracle(point):
        if point == place and point in seen:
            return {"bad": "good", "good": "bad"}[honest(point)]
        seen.add(point)
        return honest(point)

    found, _ = drive(order, ask(order), oracle)
    assert (found.outcome, found.reason) == ("inconclusive", "flaky")


def test_a_bad_parent_that_a_good_point_had_spoken_for_is_followed_down():
    # 1 introduces it, 2 repairs it, 4 merges the unrepaired branch: 0-1-2-4, 1-3-4.
    order = Order([[], [0], [1], [1], [2, 3], [4], [5]])
    bad = {1, 3, 4, 5, 6}
    found, _ = drive(order, ask(order), lambda point: "bad" if point in bad else "good")
    assert (found.outcome, found.culprit) == ("found", 1)
    assert 2 in found.contradictions


def test_random_points_tell_of_a_history_that_is_not_monotone():
    order = chain(200)
    wrong = {*range(20, 60)}  # there for a while, gone again, then introduced for good
    told = 0
    for seed in range(20):
        found, _ = drive(
            order,
            ask(order, seed=seed, monotone=6),
            lambda point: "bad" if point >= 150 or point in wrong else "good",
        )
        assert found.culprit in (20, 150)
        told += bool(found.contradictions)
    assert told >= 10


def test_a_bad_ancestor_of_the_good_end_makes_the_search_inconclusive():
    # The branch 0-1-2-3 left the good end's history at 0, which has the behaviour.
    order = Order([[], [0], [0], [2], [3]])
    asked = Asked(goods=(1,), bad=4, floor=set_of([0, 1]))
    found, _ = drive(order, asked, lambda point: "good" if point == 1 else "bad")
    assert (found.outcome, found.reason) == ("inconclusive", "not_monotone")


@pytest.mark.parametrize("method", ["repeats", pytest.param("bayes", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("rate", "right"),
    [(0.5, 97), *(pytest.param(d, 97, marks=pytest.mark.full) for d in (0.3, 0.8))],
)
def test_at_a_rate_the_culprit_of_64_is_named_in_nearly_all_trials(method, rate, right):
    named, made = 0, 0
    for seed in range(100):
        dice = random.Random(seed)
        order = chain(65)
        culprit = dice.randrange(1, 65)
        asked = ask(order, method=method, seed=seed)
        found, runs = drive(order, asked, unsteady(order, culprit, dice, rate))
        named += found.culprit == culprit
        made += len(runs)
    assert named >= right
    assert made / 100 < {0.3: 160, 0.5: 100, 0.8: 60}[rate]


def test_spurious_failures_are_reckoned_with():
    named = 0
    for seed in range(15):
        dice = random.Random(seed)
        order = graph(64, seed)
        tip = len(order) - 1
        culprit = dice.choice(list(points_of(order.below(tip)))[1:])
        oracle = unsteady(order, culprit, dice, 0.7, 0.02)
        found, _ = drive(order, ask(order, method="bayes", seed=seed), oracle)
        named += found.culprit == culprit
    assert named >= 14


def test_suspects_that_nothing_parts_are_told_together_by_the_posterior():
    order, dice = chain(30), random.Random(1)
    steady = unsteady(order, 12, dice, 0.6)
    found, _ = drive(
        order,
        ask(order, method="bayes"),
        lambda point: "skip" if point in (11, 12, 13) else steady(point),
    )
    assert (found.outcome, found.reason) == ("inconclusive", "untestable")
    assert found.suspects == (11, 12, 13, 14)
    assert sum(chance for _, chance in found.posterior) > 0.95


@pytest.mark.parametrize("method", ["repeats", "bayes"])
def test_ends_that_chance_could_tell_apart_are_no_ends(method):
    order, dice = chain(10), random.Random(5)
    asked = ask(order, method=method)
    found, _ = drive(order, asked, lambda point: "bad" if dice.random() < 0.3 else "good")
    assert found.outcome == "inconclusive"
    assert found.reason in ("ends_alike", "good_end_bad")


def test_a_behaviour_that_never_shows_is_not_reproduced():
    order = chain(10)
    found, runs = drive(order, ask(order, method="bayes"), lambda _: "good")
    assert (found.reason, len(runs)) == ("not_reproduced", 20)


@pytest.mark.parametrize(("bad", "repeats"), [(10, 7), (6, 13), (16, 3), (20, 2), (18, 2), (1, 90)])
def test_repeats_follow_from_the_measured_rate(bad, repeats):
    assert repeats_for(bad, 20) == repeats
    low, high = interval(bad, 20)
    assert 0 <= low < bad / 20 <= high <= 1


def test_fishers_test_tells_rates_apart_only_where_chance_would_not():
    assert alike(6, 20, 0, 7)
    assert not alike(6, 20, 0, 13)
    assert alike(20, 20, 20, 20)
    assert not alike(20, 20, 0, 2)


@given(SEEDS, st.integers(2, 30))
def test_sets_and_masses_of_a_graph_are_those_of_its_paths(seed, count):
    order = graph(count, seed)
    dice = random.Random(seed)
    weights = [dice.random() for _ in range(len(order))]
    below = [set() for _ in range(len(order))]
    for point, parents in enumerate(order.parents):
        below[point] = {point}.union(*(below[one] for one in parents))
        assert set(points_of(order.below(point))) == below[point]
    for point in range(len(order)):
        above = {one for one in range(len(order)) if point in below[one]}
        assert set(points_of(order.above(point))) == above
    masses = order.masses([(1 << one, weight) for one, weight in enumerate(weights)])
    for point in range(len(order)):
        assert masses[point] == pytest.approx(sum(weights[one] for one in below[point]))


@pytest.mark.requirement("BIS-02")
@settings(max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), SEEDS)
def test_in_a_product_of_axes_the_least_combination_is_named(sizes, seed):
    product = Product([chain(size) for size in sizes])
    order, dice = product.order, random.Random(seed)
    assert [product.point(product.coordinates(one)) for one in range(len(order))] == [
        *range(len(order))
    ]
    wanted = [dice.randrange(size) for size in sizes]
    if not any(wanted):
        return

    def oracle(point):
        at = product.coordinates(point)
        return "bad" if all(a >= b for a, b in zip(at, wanted, strict=True)) else "good"

    found, _ = drive(order, ask(order), oracle)
    assert product.coordinates(found.culprit) == tuple(wanted)


@pytest.mark.requirement("BIS-02")
def test_a_product_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="combinations"):
        Product([chain(1000), chain(POINTS_MAX // 1000 + 1)])


def test_ten_thousand_commits_are_searched_quickly():
    for order in (chain(10_000), graph(10_000, 1)):
        culprit = len(order) // 2
        while not order.above(culprit) >> (len(order) - 1) & 1:
            culprit += 1
        begun = time.process_time()
        found, runs = drive(order, ask(order), monotone(order, culprit))
        assert found.culprit == culprit
        assert len(runs) <= 2 + math.ceil(math.log2(10_000)) + 2 + 3 + 3
        assert time.process_time() - begun < 3


def test_what_comes_next_follows_from_the_runs_alone():
    order = graph(60, 3)
    asked = ask(order, seed=4)
    found, runs = drive(order, asked, monotone(order, len(order) - 1))
    for number in range(len(runs)):
        step = next_step(order, asked, runs[:number])
        run = runs[number]
        assert (step.point, step.purpose, step.of) == (run.point, run.purpose, run.of)
    assert next_step(order, asked, runs) == found


@pytest.mark.parametrize("method", ["exact", "bayes"])
def test_given_up_the_suspects_are_those_that_are_left(method):
    order = chain(64)
    asked = ask(order, method=method, runs_max=30)
    found, runs = drive(order, asked, monotone(order, 40))
    if method == "exact":
        assert found.outcome == "found"
        runs = runs[:5]
        found = given_up(order, asked, runs, "aborted")
    assert found.outcome == "inconclusive"
    assert found.reason == ("aborted" if method == "exact" else "runs_max")
    assert 40 in found.suspects
    assert len(found.suspects) < 63
    assert given_up(order, asked, runs[:1], "aborted").suspects == ()


def test_a_conclusion_is_reached_though_nothing_can_be_searched():
    order = chain(2)
    found, runs = drive(order, ask(order), monotone(order, 1))
    assert isinstance(found, Conclusion)
    assert (found.culprit, found.last_good) == (1, (0,))
    assert [run.purpose for run in runs] == ["end", "end", "verify", "verify"]
    assert all(isinstance(run, Run) for run in runs)
