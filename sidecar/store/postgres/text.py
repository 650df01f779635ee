"""What Postgres can keep: as text all but the character NUL and half a surrogate pair.

**Rules**
1. What cannot be kept was never kept: who looks for it finds nothing, without asking.
"""


def storable(*texts: str | None) -> bool:
    """Whether all of them could stand in a column."""
    return all(text is None or kept(text) == text for text in texts)


def kept(text: str) -> str:
    """A text as it is kept; the audit chain holds it whole, escaped."""
    whole = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return whole if whole.isascii() else whole.encode(errors="replace").decode()
