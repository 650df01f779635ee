"""What may be asked of a store: what no store can have kept is not there, and is no error.

Rules
1. A number beyond 64 bits is compared as the last one within them.
2. A text that is no Unicode (half a surrogate pair) names nothing that was ever stored.
"""

_LEAST, _LARGEST = -(2**63), 2**63 - 1


def bounded(number: int | None) -> int | None:
    """A number as a column can be compared with it."""
    return None if number is None else min(max(number, _LEAST), _LARGEST)


def encodable(*texts: str | None) -> bool:
    """Whether all of them could stand in a store."""
    return all(text is None or text.isascii() or _encodes(text) for text in texts)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
