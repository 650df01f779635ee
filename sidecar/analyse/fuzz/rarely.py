"""Rare failures of scenarios: episodes with their faults made likelier, and each draw counted.

**Rules**
1. What is estimated is a scenario as it is written: its faults, and those of its twins, at the
   probabilities they declare. A probability of 0 or 1 is no draw.
2. An episode's seed is a function of the campaign's, the scenario and the episode's number.
3. A fault's draw is the engine's own (``twins/faults``): nothing of the engine is replaced.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from processors.model.twin import CALL_EVENTS, TwinEvent
from sidecar.analyse.fuzz.dice import Dice
from sidecar.analyse.fuzz.judged import Bench, MakeAgent
from sidecar.analyse.fuzz.rare import Drawn, Estimate, Probabilities, estimate
from sidecar.analyse.together.run import Limits
from sidecar.errors import SidecarError
from sidecar.twins.declaration import Fault
from sidecar.twins.faults import draw, may_strike, named
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Scenario, Suite
from sidecar.twins.twin import Twin


class Rarity(Struct, frozen=True, kw_only=True):
    """A scenario and how likely it fails."""

    scenario: str
    estimate: Estimate


class Asked(Struct, frozen=True, kw_only=True):
    """What to estimate: every scenario with a chance in it, ``episodes`` each."""

    suite: Suite
    group: TwinGroup
    agent: MakeAgent
    episodes: int
    seed: int = 0
    limits: Limits = Limits()


def rarities(asked: Asked) -> Iterator[Rarity]:
    """The scenarios, one after the other. Raises SidecarError where none has a chance in it."""
    found = False
    for scenario in asked.suite.scenarios:
        rules = _rules(scenario, asked.group)
        if rules:
            found = True
            yield _rarity(asked, scenario, rules)
    if not found:
        raise SidecarError(
            "no fault of a scenario or twin has a probability, so nothing is rare",
            where="--rare",
            do="Declare how likely faults are: when: {probability: 0.001}.",
        )


def _rarity(asked: Asked, scenario: Scenario, rules: Mapping[str, Fault]) -> Rarity:
    declared = {name: _probability(rule) for name, rule in rules.items()}
    benches: dict[tuple[float, ...], Bench] = {}

    def simulate(probabilities: Probabilities, number: int) -> Drawn:
        key = tuple(probabilities.values())
        if key not in benches:
            group = _tilted_group(asked.group, probabilities)
            benches[key] = Bench(asked.suite, group, asked.limits)
        seed = Dice(asked.seed, f"rare|{scenario.id}|{number}").below(2**32)
        made = structs.replace(
            scenario, faults=_tilted(named(scenario.faults), probabilities), seed=seed
        )
        ran = benches[key].run(made, asked.agent)
        return Drawn(
            draws=tuple(_draws(ran.run.events, rules, probabilities, seed)),
            failure=None if ran.failed is None else ran.failed.signature.rule,
            void=bool(ran.void),
        )

    def chance(number: int) -> float:
        return Dice(asked.seed, f"part|{scenario.id}|{number}").chance()

    return Rarity(
        scenario=scenario.id,
        estimate=estimate(simulate, declared, episodes=asked.episodes, chance=chance),
    )


def _draws(
    events: tuple[TwinEvent, ...], rules: Mapping[str, Fault], made: Probabilities, seed: int
) -> Iterator[tuple[str, bool]]:
    """Every draw that a call of the run could ask for, with whether it fires."""
    for event in events:
        if event.kind in CALL_EVENTS and event.number:
            for name, rule in rules.items():
                if may_strike(rule, event.tool, event.number):
                    yield name, draw(seed, name, event.tool, event.number) < made[name]


def _rules(scenario: Scenario, group: TwinGroup) -> dict[str, Fault]:
    """The rules with a chance in them, by the names under which they draw."""
    every = [
        *named(scenario.faults),
        *(
            rule
            for twin in group.twins.values()
            for rule in named(twin.declaration.faults, prefix=f"{twin.name}/")
        ),
    ]
    return {one.id: one for one in every if 0 < _probability(one) < 1}


def _probability(rule: Fault) -> float:
    return 1.0 if rule.when.probability is None else rule.when.probability


def _tilted(faults: tuple[Fault, ...], made: Probabilities) -> tuple[Fault, ...]:
    return tuple(
        structs.replace(one, when=structs.replace(one.when, probability=made[one.id]))
        if one.id in made
        else one
        for one in faults
    )


def _tilted_group(group: TwinGroup, made: Probabilities) -> TwinGroup:
    twins = []
    for twin in group.twins.values():
        faults = _tilted(named(twin.declaration.faults, prefix=f"{twin.name}/"), made)
        declaration = structs.replace(twin.declaration, faults=faults)
        twins.append(Twin(declaration, twin.code) if faults else twin)
    return TwinGroup(twins)
