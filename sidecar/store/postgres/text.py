"""What Postgres can keep as text: everything but the character NUL.

**Rules**
1. What cannot be kept was never kept: who looks for it finds nothing, without asking.
"""


def storable(*texts: str | None) -> bool:
    """Whether all of them could stand in a column."""
    return all(text is None or "\x00" not in text for text in texts)


def kept(text: str) -> str:
    """A text as it is kept; the audit chain holds it whole, escaped."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
