"""Twins made wrong: the same service with a rule, an effect or its honesty left out."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import structs

from sidecar.analyse.mutants.model import Mutant, Shown
from sidecar.analyse.mutants.sites import Known
from sidecar.twins.declaration import Declaration, Fault, FaultKind, Tool, When
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Case
from sidecar.twins.twin import Twin

_FAULTS: Final[Mapping[str, FaultKind]] = {
    "lie_success": "lie_success",
    "duplicate_delivery": "duplicate_delivery",
    "refuse_always": "http_422",
}


def twin_mutants(known: Known, group: TwinGroup) -> Iterator[Mutant]:
    """Every mutant of the twins, with the cases that call the tool and meet what is left out."""
    called = {
        tool: tuple(case for case, run in known.runs.items() if _calls(run, tool))
        for tool in group.tools
    }
    for twin in group.twins.values():
        for tool in twin.declaration.tools:
            cases = called[tool.name]
            for number, rule in enumerate(tool.preconditions):
                met = tuple(
                    one for one in cases if _refused(known.runs[one], tool.name, rule.status)
                )
                yield _mutant("drop_precondition", tool, f"{number + 1}", met)
            for number in range(len(tool.effects)):
                yield _mutant("drop_effect", tool, f"{number + 1}", cases)
            if tool.has_effect:
                yield _mutant("lie_success", tool, "", cases)
                yield _mutant("duplicate_delivery", tool, "", cases)
            yield _mutant("refuse_always", tool, "", cases)


def mutated_group(group: TwinGroup, mutant: Mutant) -> TwinGroup:
    """The twins with one of them made wrong; themselves where a fault does it."""
    if mutant.operator in _FAULTS:
        return group
    twins = []
    for twin in group.twins.values():
        if any(tool.name == mutant.tool for tool in twin.declaration.tools):
            twins.append(Twin(_declaration(twin.declaration, mutant), twin.code))
        else:
            twins.append(twin)
    return TwinGroup(twins)


def mutated_case(case: Case, mutant: Mutant) -> Case:
    """The case, with the fault that a mutant is, after the scenario's own."""
    kind = _FAULTS.get(mutant.operator)
    if kind is None:
        return case
    fault = Fault(fault=kind, tool=mutant.tool, id="mutant", when=When(every_call=True))
    return structs.replace(case, faults=(*case.faults, fault))


def _declaration(declaration: Declaration, mutant: Mutant) -> Declaration:
    tools = tuple(
        _without(tool, mutant) if tool.name == mutant.tool else tool for tool in declaration.tools
    )
    return structs.replace(declaration, tools=tools)


def _without(tool: Tool, mutant: Mutant) -> Tool:
    place = int(mutant.place) - 1
    if mutant.operator == "drop_precondition":
        kept = (*tool.preconditions[:place], *tool.preconditions[place + 1 :])
        return structs.replace(tool, preconditions=kept)
    left = (*tool.effects[:place], *tool.effects[place + 1 :])
    return structs.replace(tool, effects=left)


def _mutant(operator: str, tool: Tool, place: str, cases: tuple[str, ...]) -> Mutant:
    return Mutant(operator=operator, target="twin", tool=tool.name, place=place, cases=cases)


def _refused(run: Shown, tool: str, status: int) -> bool:
    return any(one.tool == tool and one.status == status for one in run.heard)


def _calls(run: Shown, tool: str) -> bool:
    return any(one.tool == tool for one in run.heard)
