"""What a scenario expects of the world, held against what its twins claim to be faithful about.

Rules
1. Only expectations about rows and flags are looked at: what an agent says and calls is its own.
2. That nothing changes may be expected of anything; that it is so, of what is faithful alone.
"""

from collections.abc import Iterator

from sidecar.errors import Problem
from sidecar.evaluate.ending import EndState
from sidecar.evaluate.expectations import AnyExpectation, StateIs, StateUnchanged
from sidecar.evaluate.milestones import Mark, Milestones, Progress, Rubric
from sidecar.twins.claimed import properties_of
from sidecar.twins.group import TwinGroup
from sidecar.twins.world import NoSuchEntity

Named = Iterator[tuple[str, str]]


def unfaithful_problems(path: str, one: AnyExpectation, group: TwinGroup) -> Iterator[Problem]:
    """Where an expectation is about something that no twin claims to be faithful about."""
    for name, where in _named(path, one):
        try:
            why = group.why_unfaithful(name)
        except NoSuchEntity:
            continue  # told as that
        if why is not None:
            yield Problem(where, f"cannot be expected: {why}")


def _named(path: str, one: AnyExpectation) -> Named:
    """The properties an expectation is about, and where it says so."""
    if isinstance(one, StateIs):
        yield from _state(path, one)
    elif isinstance(one, StateUnchanged):
        yield from ((name, f"{path}.entities") for name in one.entities)
    elif isinstance(one, EndState):
        for entity, rows in one.changes.items():
            yield entity, f"{path}.changes.{entity}"
            for key, row in rows.items():
                for name in row if isinstance(row, dict) else ():
                    yield f"{entity}.{name}", f"{path}.changes.{entity}.{key}"
    elif isinstance(one, Milestones):
        yield from _marks(f"{path}.reach", one.reach)
        yield from _marks(f"{path}.avoid", one.avoid)
    elif isinstance(one, Progress | Rubric):
        yield from _marks(f"{path}.marks", one.marks)


def _marks(path: str, marks: tuple[Mark, ...]) -> Named:
    for index, mark in enumerate(marks):
        yield from _state(f"{path}.{index}", mark)


def _state(path: str, one: StateIs | Mark) -> Named:
    if one.entity and one.equals:
        yield from ((f"{one.entity}.{name}", f"{path}.equals.{name}") for name in one.equals)
    elif one.entity:
        yield one.entity, f"{path}.entity"
    if one.that:
        yield from ((name, f"{path}.that") for name in dict.fromkeys(properties_of(one.that)))
