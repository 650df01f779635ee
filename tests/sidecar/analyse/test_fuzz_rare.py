"""Rare failures: the estimate against models whose probability is known to the last digit."""

import math
import random
from itertools import product

import pytest
from msgspec import structs

from sidecar.analyse.fuzz.driver import agent
from sidecar.analyse.fuzz.rare import AS_DECLARED, Drawn, estimate, mixed
from sidecar.analyse.fuzz.rarely import Asked, rarities
from sidecar.errors import SidecarError
from sidecar.twins.files import load_suite

DECLARED = {"stalls": 0.01, "loses": 0.02, "idle": 0.3}


def play(fires):
    """An errand that gives up after three stalls of three tries, or when its answer is lost twice.

    How many draws there are depends on how they fell. ``fires(rule)`` is the next draw of a rule.
    """
    draws = []

    def ask(rule):
        draws.append((rule, fires(rule)))
        return draws[-1][1]

    stalled = 0
    while stalled < 3 and ask("stalls"):
        stalled += 1
        ask("idle")
    if stalled == 3:
        return Drawn(draws=tuple(draws), failure="stalled")
    if ask("loses") and ask("loses"):
        return Drawn(draws=tuple(draws), failure="lost")
    return Drawn(draws=tuple(draws))


def exact(wanted=None):
    """The probability of a failure, by every way the draws can fall."""
    total = 0.0
    for bits in product((False, True), repeat=8):
        left, weight = list(bits), 1.0

        def fires(rule, left=left):
            return left.pop(0)

        made = play(fires)
        used = len(made.draws)
        for rule, fired in made.draws:
            weight *= DECLARED[rule] if fired else 1 - DECLARED[rule]
        # Draws that were not asked for: each of their ways counts this run once.
        if made.failure is not None and wanted in (None, made.failure):
            total += weight / 2 ** (8 - used)
    return total


def simulated(seed):
    def simulate(probabilities, number):
        dice = random.Random(seed * 10**6 + number)
        return play(lambda rule: dice.random() < probabilities[rule])

    def chance(number):
        return random.Random(-seed * 10**6 - number - 1).random()

    return simulate, chance


def made(seed, episodes=400):
    simulate, chance = simulated(seed)
    return estimate(simulate, DECLARED, episodes=episodes, chance=chance)


@pytest.fixture(scope="module")
def many():
    return [made(seed) for seed in range(1, 81)]


@pytest.mark.requirement("FUZ-03")
def test_the_estimate_is_unbiased_and_its_interval_holds_as_often_as_it_says(many):
    truth = exact()
    assert truth == pytest.approx(0.01**3 + (1 - 0.01**3) * 0.02**2, rel=1e-12)
    mean = sum(one.probability for one in many) / len(many)
    spread = math.sqrt(sum((one.probability - mean) ** 2 for one in many) / (len(many) - 1))
    assert abs(mean - truth) < 4 * spread / math.sqrt(len(many))
    held = sum(one.lower <= truth <= one.upper for one in many)
    assert held >= 0.9 * len(many), held
    assert sum(one.method == "log-t" for one in many) >= 0.9 * len(many)
    # Every kind of failure has its own share, the rarer one too.
    stalled = [sum(f.probability for f in one.failures if f.name == "stalled") for one in many]
    own, wide = sum(stalled) / len(many), math.sqrt(sum(v * v for v in stalled)) / len(many)
    assert abs(own - exact("stalled")) < 4 * wide


@pytest.mark.requirement("FUZ-03")
def test_it_tells_more_than_as_many_episodes_as_declared(many):
    # 400 episodes as declared would meet 0.2 failures.
    assert sorted(one.plain for one in many)[len(many) // 2] > 10 * 400
    assert all(one.episodes + one.pilot == 400 for one in many)
    tilts = {one.rule: one for one in many[0].tilts}
    assert tilts["loses"].drawn > 5 * tilts["loses"].declared


@pytest.mark.requirement("FUZ-03")
def test_the_same_seed_gives_the_same_estimate():
    assert made(5) == made(5) and made(5) != made(6)


@pytest.mark.requirement("FUZ-03")
def test_no_weight_is_above_the_bound_and_equal_likelihoods_weigh_one():
    declared, tilted = {"a": 0.001}, {"a": 0.5}
    parts = ((AS_DECLARED, declared), (1 - AS_DECLARED, tilted))
    for fired in product((False, True), repeat=12):
        assert 0 < mixed([("a", one) for one in fired], declared, parts) <= 1 / AS_DECLARED
    assert mixed([("a", True), ("a", False)], declared, ((1, declared),)) == pytest.approx(1)
    # Over all ways to fall, weights times what they were drawn with come to one.
    total = sum(
        mixed([("a", one), ("a", other)], declared, parts)
        * (AS_DECLARED * _of(declared, one, other) + (1 - AS_DECLARED) * _of(tilted, one, other))
        for one in (False, True)
        for other in (False, True)
    )
    assert total == pytest.approx(1)


def _of(probabilities, *fired):
    p = probabilities["a"]
    return math.prod(p if one else 1 - p for one in fired)


@pytest.mark.requirement("FUZ-03")
def test_where_nothing_or_little_fails_the_interval_is_a_bound():
    simulate, chance = simulated(1)

    def never(probabilities, number):
        return structs.replace(simulate(probabilities, number), failure=None)

    none = estimate(never, DECLARED, episodes=1000, chance=chance)
    assert (none.probability, none.lower, none.method) == (0, 0, "bound")
    # Three in n, as ever, times the largest weight.
    assert none.upper == pytest.approx(3.69 / none.episodes / AS_DECLARED, rel=0.01)

    def void(probabilities, number):
        return structs.replace(simulate(probabilities, number), void=True)

    lost = estimate(void, DECLARED, episodes=300, chance=chance)
    assert lost.probability == 0 and lost.void == pytest.approx(1, abs=0.5)


TWIN = """\
twin: bank
faults: [{fault: slow, tool: pay, delay: 1s, when: {probability: 0.5}}]
entities: {payments: {key: id, rows: []}}
tools:
  - name: pay
    match: {method: POST, path: /payments}
    class: write
    idempotency: false
    let: {id: 'next_id("P")'}
    effects: [{op: insert, entity: payments, values: {id: id}}]
    response: {body: {id: id}}
"""
SUITE = """\
suite: pays
twins: [twin.yaml]
scenarios:
  - id: twice
    input: pay
    faults: [{fault: timeout_before, tool: pay, when: {probability: 0.01}}]
    expect: [{type: state, that: 'count("payments", {}) == 1'}]
  - {id: certain, input: pay, expect: [{type: toolCalled, tool: pay}]}
"""


def patient(request, call):
    """Pays, and tries once more where no answer came."""
    if call("pay", {}).status is None:
        call("pay", {})
    return "Done."


@pytest.fixture
def bank(tmp_path):
    (tmp_path / "twin.yaml").write_text(TWIN)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return load_suite(tmp_path / "suite.yaml")


@pytest.mark.requirement("FUZ-03")
def test_a_failure_of_a_real_twin_is_as_rare_as_its_faults_say(bank):
    asked = Asked(
        suite=bank.suite,
        group=bank.group,
        agent=agent(f"py:{__name__}:patient", option="--agent"),
        episodes=400,
        seed=2,
    )
    found = {one.scenario: one.estimate for one in rarities(asked)}
    twice = found["twice"]
    # Both calls time out: 0.01 squared. The twin's own fault delays, and fails nothing.
    assert twice.lower <= 1e-4 <= twice.upper < 4e-4 and twice.method == "log-t"
    assert [one.name for one in twice.failures] == ["contradiction:claimed_success_state_failed"]
    assert {one.rule for one in twice.tilts} == {"timeout_before:pay", "bank/slow:pay"}
    assert found["certain"].probability == 0
    assert {one.scenario: one.estimate for one in rarities(asked)} == found


@pytest.mark.requirement("FUZ-03")
def test_without_a_chance_nothing_is_rare(bank):
    suite = structs.replace(bank.suite, scenarios=bank.suite.scenarios[1:])
    twins = bank.group.twins["bank"]
    plain = type(bank.group)([type(twins)(structs.replace(twins.declaration, faults=()))])
    asked = Asked(suite=suite, group=plain, agent=lambda: None, episodes=10)
    with pytest.raises(SidecarError, match="nothing is rare"):
        list(rarities(asked))
