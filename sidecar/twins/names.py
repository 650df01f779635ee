"""Names that expressions over a world may use."""

FLAGS = "flags"
FUNCTIONS = frozenset(
    {
        *("row", "rows", "count", "sum", "waiting"),
        *("add", "subtract", "compare", "text"),
        *("next_id", "rand"),
    }
)
