"""Names that mean something of their own: of expressions over a world, and of twins."""

FLAGS = "flags"
RECORDED = "recorded"
"""The twin that answers from a recording: it has no state to be judged by."""
FUNCTIONS = frozenset(
    {
        *("row", "rows", "count", "sum", "waiting"),
        *("add", "subtract", "compare", "text"),
        *("next_id", "rand"),
    }
)
