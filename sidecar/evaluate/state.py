"""What can be asked of a world, and said of a change in it."""

from processors.model.twin import Change
from sidecar.evaluate.observed import WorldView
from sidecar.expression.cel import compile_expression

STATE_VARIABLES = frozenset({"flags"})


def holds_in(text: str, world: WorldView) -> bool:
    """Whether CEL holds over a world. Raises ExpressionFailed."""
    expression = compile_expression(
        text, variables=STATE_VARIABLES, functions=frozenset(world.functions)
    )
    return expression.holds({"flags": dict(world.flags)}, world.functions)


def same_entity(wanted: str, told: str, twin: str = "") -> bool:
    """Whether an expectation's entity is the one of a change.

    Either may have its twin's name in front. A change has it where the name alone is not unique;
    ``twin`` is whose change it is where that is told apart.
    """
    of_wanted, _, name = wanted.rpartition(".")
    of_told, _, there = told.rpartition(".")
    of_told = of_told or twin
    return name == there and (of_wanted == of_told or not (of_wanted and of_told))


def verb(change: Change) -> str:
    """What happened to a row."""
    if change.before is None:
        return "was added"
    return "was deleted" if change.after is None else "was changed"
