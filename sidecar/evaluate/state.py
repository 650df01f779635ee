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


def verb(change: Change) -> str:
    """What happened to a row."""
    if change.before is None:
        return "was added"
    return "was deleted" if change.after is None else "was changed"
