"""Parse, coerce, compare and walk JSON-like values. The dialects share what stands here.

Rules
1. Nothing here knows a dialect; a rule that needs an attribute's name belongs to the dialect's file.
2. A value that cannot be coerced is None with a state, never an exception and never a guess.
"""

import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)")
_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}


def duration_ns(text: str) -> int:
    """Nanoseconds of a duration such as ``30s``, ``1.5h`` or ``1h30m``. Raises ValueError."""
    position, total = 0, 0.0
    for match in _DURATION.finditer(text):
        if match.start() != position:
            break
        total += float(match[1]) * _UNIT_NS[match[2]]
        position = match.end()
    if not text or position != len(text):
        raise ValueError(f"{text!r} is not a duration; write e.g. 500ms, 30s, 10m, 24h or 30d")
    return int(total)
