"""Every operator by its layer, and the covering array over them.

Rules
1. A pool holds every mutation that fits a base, by layer and operator, made once.
2. A swarm is a random half of the operators: what is left out lets the others show longer
   (Groce et al., ISSTA 2012).
3. A covering array holds every t-way combination of operators at least once; a call of a fault is
   combined only where the run makes that call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import covertable

from sidecar.analyse.fuzz import goal, state, surroundings
from sidecar.analyse.fuzz.base import Base
from sidecar.analyse.fuzz.dice import Dice
from sidecar.analyse.fuzz.mutations import AnyMutation, Faulted, Genome, Joined
from sidecar.analyse.fuzz.persona import personas

Pool = dict[str, tuple[AnyMutation, ...]]
Operator = Callable[[Base], Iterator[AnyMutation]]
NONE = "none"
_FAULT, _TOOL, _CALL = "fault", "tool", "call"


def joined(base: Base) -> Iterator[AnyMutation]:
    """Each of the suite's other errands at the same time, where the worlds do not disagree."""
    own = base.draft.tables
    for peer, tables in base.peers:
        touched = {name.rpartition(".")[2] for name in peer.state} | set(peer.state)
        rows = {name: table for name, table in tables.items() if name in touched}
        agree = all(
            own.get(name, {}).get(key, row) == row or name not in base.draft.scenario.state
            for name, table in rows.items()
            for key, row in table.items()
        )
        if agree and not peer.clear and not peer.agents and peer.flags == base.draft.scenario.flags:
            yield Joined(operator="beside", other=peer, name=peer.id, tables=rows)


OPERATORS: tuple[Operator, ...] = (
    *state.OPERATORS,
    *goal.OPERATORS,
    personas,
    *(surroundings.faults, surroundings.delays, surroundings.starts, surroundings.injections),
    *(surroundings.seeds, surroundings.forgetting, joined),
)


def pool(base: Base) -> Pool:
    """Every mutation by ``layer/operator``."""
    found: dict[str, list[AnyMutation]] = {}
    for operator in OPERATORS:
        for one in operator(base):
            found.setdefault(f"{one.layer}/{one.operator}", []).append(one)
    return {name: tuple(some) for name, some in found.items()}


def swarm(names: Sequence[str], dice: Dice) -> tuple[str, ...]:
    """A random half of the operators, at least one."""
    chosen = tuple(name for name in names if dice.chance() < 0.5)
    return chosen or (dice.pick(names),)


def drawn(known: Pool, names: Sequence[str], dice: Dice) -> AnyMutation:
    """A layer, an operator of it and a mutation of that, each uniformly."""
    layers: dict[str, list[str]] = {}
    for name in names:
        layers.setdefault(name.partition("/")[0], []).append(name)
    layer = dice.pick(sorted(layers))
    return dice.pick(known[dice.pick(layers[layer])])


def covering(known: Pool, base: Base, *, strength: int, salt: str) -> list[dict[str, Any]]:
    """The rows of the covering array: an operator (or none) for each layer, and the fault's place.

    Rows by ``layer``; the layer of tool results is taken apart in fault, tool and call.
    """
    factors: dict[str, list[Any]] = {}
    for name in known:
        layer, _, operator = name.partition("/")
        if layer != "tool_result":
            factors.setdefault(layer, [NONE]).append(operator)
    faults = [one for some in known.values() for one in some if isinstance(one, Faulted)]
    kinds = [one for one in faults if not one.timing]
    if kinds:
        factors[_FAULT] = [NONE, *dict.fromkeys(one.fault.fault for one in kinds)]
        factors[_TOOL] = list(dict.fromkeys(one.fault.tool for one in kinds))
        factors[_CALL] = list(dict.fromkeys(one.fault.when.call_number or 0 for one in kinds))
    if len(factors) < strength:
        return [{name: value} for name, values in factors.items() for value in values]
    rows: list[dict[str, Any]] = covertable.make(
        factors, strength=strength, salt=salt, constraints=_constraints(factors, base.calls)
    )
    return rows


def of_row(row: Mapping[str, Any], known: Pool, dice: Dice) -> Genome:
    """The genome of a row: of each operator a mutation."""
    chosen: list[AnyMutation] = []
    for layer in sorted(row):
        if layer not in (_FAULT, _TOOL, _CALL) and row[layer] != NONE:
            chosen.append(dice.pick(known[f"{layer}/{row[layer]}"]))
    if row.get(_FAULT, NONE) != NONE and _TOOL in row:
        wanted = (row[_FAULT], row[_TOOL], row[_CALL] or None)
        chosen += [
            one
            for some in known.values()
            for one in some
            if isinstance(one, Faulted)
            and (one.fault.fault, one.fault.tool, one.fault.when.call_number) == wanted
        ][:1]
    return tuple(chosen)


def _constraints(
    factors: Mapping[str, Sequence[Any]], calls: Mapping[str, int]
) -> list[dict[str, Any]]:
    """No tool or call without a fault, and no call that the run does not make."""
    if _FAULT not in factors:
        return []
    first = {name: factors[name][0] for name in (_TOOL, _CALL)}

    def there(row: Mapping[str, Any]) -> bool:
        if row[_FAULT] == NONE:
            return all(row[name] == value for name, value in first.items())
        return int(row[_CALL]) <= calls.get(row[_TOOL], 0)

    return [{"operator": "fn", "requires": [_FAULT, _TOOL, _CALL], "evaluate": there}]
