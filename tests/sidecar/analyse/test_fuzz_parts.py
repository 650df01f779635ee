"""The parts of the fuzzer by themselves: arrays, dice, curve, shrinking, archive."""

from collections import Counter
from itertools import combinations
from random import Random

import covertable
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.analyse.fuzz.archive import Archive
from sidecar.analyse.fuzz.base import Base
from sidecar.analyse.fuzz.campaign import Plan, campaign
from sidecar.analyse.fuzz.curve import Discovery, chao1, unseen_mass
from sidecar.analyse.fuzz.dice import Dice
from sidecar.analyse.fuzz.draft import draft
from sidecar.analyse.fuzz.mutations import Faulted, FlagSet, Switched
from sidecar.analyse.fuzz.operators import NONE, covering, pool
from sidecar.analyse.fuzz.shrink import shrink
from sidecar.analyse.together.moves import GeneratorAgent
from sidecar.twins.company import Switch
from sidecar.twins.declaration import Fault, When

pytestmark = pytest.mark.requirement("FUZ-01")

MODEL = {str(place): list(range(size)) for place, size in enumerate((11, 8, 5, 3, 4, 4, 3, 3))}


def test_the_array_of_eight_parameters_has_88_rows_two_way():
    assert len(covertable.make(MODEL, strength=2)) == 88


@pytest.mark.full
def test_the_array_of_eight_parameters_has_at_most_480_rows_three_way():
    assert len(covertable.make(MODEL, strength=3)) <= 480


def test_every_pair_of_operators_that_may_stand_together_does(forklifts):
    plan = forklifts.plan("ordered", episodes=1)
    made = campaign(plan)
    base = made._bases["outbound"]
    known = pool(base)
    rows = covering(known, base, strength=2, salt="0")
    assert 0 < len(rows) < 160
    faults = {row["fault"] for row in rows} - {NONE}
    calls = base.calls
    for row in rows:
        assert row["fault"] == NONE or row["call"] <= calls[row["tool"]]
    layers = [name for name in rows[0] if name not in ("fault", "tool", "call")]
    for one, other in combinations(layers, 2):
        values = {(row[one], row[other]) for row in rows}
        assert len(values) == len({a for a, _ in values}) * len({b for _, b in values})
    assert faults == {
        one.fault.fault
        for some in known.values()
        for one in some
        if isinstance(one, Faulted) and not one.timing
    }


@settings(max_examples=25)
@given(st.integers(), st.text(max_size=8), st.integers(1, 50))
def test_dice_are_a_function_of_seed_and_name(seed, name, bound):
    one, other = Dice(seed, name), Dice(seed, name)
    assert [one.below(bound) for _ in range(5)] == [other.below(bound) for _ in range(5)]
    assert sorted(one.shuffled(range(bound))) == list(range(bound))


@pytest.mark.row("R61")
@settings(max_examples=25)
@given(st.integers(), st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 99)), max_size=20))
def test_no_draw_depends_on_what_was_drawn_before_it_under_another_name(seed, draws):
    together = {name: Dice(seed, name) for name in "abc"}
    drawn = [(name, together[name].below(bound)) for name, bound in draws]
    for name in "abc":
        alone = Dice(seed, name)
        mine = [bound for other, bound in draws if other == name]
        assert [value for other, value in drawn if other == name] == [
            alone.below(bound) for bound in mine
        ]


def gene(number):
    return FlagSet(operator="flag", flag=str(number), value=True)


@settings(deadline=None)
@given(st.sets(st.integers(0, 11), max_size=4), st.integers(4, 12))
def test_a_shrunk_genome_has_what_is_needed_and_nothing_else(needed, size):
    genome = tuple(gene(number) for number in range(size))
    needed = {number for number in needed if number < size}

    def fails(smaller):
        return needed <= {int(one.flag) for one in smaller}

    shrunk = shrink(genome, fails)
    assert {int(one.flag) for one in shrunk.genome} == needed
    assert shrunk.whole
    assert shrunk.replays <= 200


def test_shrinking_stops_at_its_cap_with_the_best_so_far():
    genome = tuple(gene(number) for number in range(64))
    kept = {3, 17, 40, 63}
    shrunk = shrink(
        genome, lambda smaller: kept <= {int(one.flag) for one in smaller}, replays_max=20
    )
    assert (shrunk.whole, shrunk.replays) == (False, 20)
    assert len(shrunk.genome) < 64


def test_several_switches_are_tried_as_one_and_a_rule_as_its_first_call():
    switches = [
        Switched(operator="switch", switch=Switch(after=after, run=run))
        for after, run in ((1, "b"), (2, "a"), (5, "b"))
    ]
    rule = Fault(fault="timeout_before", tool="t", when=When(probability=0.5))

    def fails(genome):
        afters = [one.switch.after for one in genome if isinstance(one, Switched)]
        return any(isinstance(one, Faulted) for one in genome) and afters in ([1, 2, 5], [3])

    fault = Faulted(operator="fault", fault=rule)
    shrunk = shrink((fault, *switches), fails)
    assert [one.told() for one in shrunk.genome] == [
        "fault: timeout_before of t at call 1",
        "switch to b after 3 calls",
    ]


def test_unseen_mass_is_that_of_uniform_draws_alone():
    curve = Discovery()
    for signature, uniform in (("a", True), ("a", True), ("b", False), (None, True), ("c", True)):
        curve.add(signature, uniform=uniform)
    point = curve.point(7)
    assert (point.signatures, point.draws, point.unseen) == (3, 4, 0.25)
    assert Discovery().point(0).unseen is None


def test_good_and_turing_come_within_a_tenth_of_the_true_mass():
    """60 signatures of falling frequency, n = 1,000, mean of 200 worlds (replay.md, 7)."""
    shares = [0.9**rank for rank in range(60)]
    told = true = 0.0
    for world in range(200):
        counts = Counter(Random(world).choices(range(60), shares, k=1000))
        told += unseen_mass(counts, 1000)
        true += sum(share for rank, share in enumerate(shares) if rank not in counts) / sum(shares)
    assert abs(told - true) / true < 0.1


def test_chao_is_never_below_what_was_seen():
    assert chao1(Counter(a=3, b=3)) == 2
    assert chao1(Counter(a=1, b=1, c=2)) == 3.5


def test_an_elite_is_what_brought_most_that_was_new():
    archive = Archive()
    cell = ("none", "t", "")
    assert archive.add(cell, "s", (gene(1), gene(2)), frozenset("ab")) == 2
    assert archive.add(cell, "s", (gene(3),), frozenset("cd")) == 2
    assert archive.add(cell, "s", (), frozenset("a")) == 0
    assert archive.next().genome == (gene(3),)
    assert Archive().next() is None


def test_any_mutation_of_a_pool_makes_a_scenario_that_loads(hall):
    def agent(request):
        from sidecar.analyse.together.moves import Asked

        yield Asked(tool="get_stock", arguments={"item": "X"})
        return request["input"]["guest"]

    made = campaign(Plan(suite=hall.suite, group=hall.group, agent=lambda: GeneratorAgent(agent)))
    base = made._bases["anna"]
    assert isinstance(base, Base)
    from msgspec import structs

    from sidecar.twins.scenario import suite_problems

    for some in pool(base).values():
        for one in some:
            mutated = one.apply(draft(hall.suite.scenarios[0], hall.group)).written()
            suite = structs.replace(hall.suite, scenarios=(mutated,))
            assert suite_problems(suite, hall.group) == [], one
