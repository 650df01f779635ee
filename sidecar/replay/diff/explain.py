"""What differs between two events, in words of a closed set, and where it may come from.

**Rules**
1. Content explains and never decides: where it was not kept the kind is the general one.
2. At most ``PLACES_MAX`` places are told; that there are more is said.
3. A suspect is an earlier event whose output holds the changed value; the last three a side, of
   the last ``LOOK_BACK`` events.
"""

from collections.abc import Iterator
from typing import Any, Final

from sidecar.canonical import canonical
from sidecar.replay.diff.model import Change
from sidecar.replay.diff.reading import Reading
from sidecar.tape.drift import PLACES_MAX, Drift, Place, input_drift, output_drift, places_of
from sidecar.tape.model import Event
from sidecar.tape.tape import MISSING, Tape

LOOK_BACK: Final = 200
_SUSPECTS: Final = 3
_TELLING: Final = 4


def changes(reading: Reading, one: Event, other: Event) -> tuple[str, ...]:
    """Which of ``input``, ``status`` and ``output`` differ."""
    found = []
    if reading.given(one) != reading.given(other):
        found.append("input")
    if reading.status(one) != reading.status(other):
        found.append("status")
    if reading.gave(one) != reading.gave(other):
        found.append("output")
    return tuple(found)


def kind_of(changed: tuple[str, ...]) -> Change:
    """The first of what differs; ``same`` where nothing does."""
    if "input" in changed:
        return "input_changed"
    if "status" in changed:
        return "status_changed"
    return "output_changed" if "output" in changed else "same"


def places(
    reading: Reading, sides: tuple[Tape, Tape], one: Event, other: Event, changed: tuple[str, ...]
) -> tuple[tuple[Place, ...] | None, bool]:
    """Where the payloads differ, and whether there are more places; None without content."""
    found: list[Place] = []
    known = more = False
    for side, name in (("in", "input"), ("out", "output")):
        if name not in changed:
            continue
        before = reading.counted(sides[0], one, side)
        after = reading.counted(sides[1], other, side)
        if before is MISSING or after is MISSING:
            continue
        known = True
        where, cut = places_of("in" if side == "in" else "out", before, after)
        found += where
        more = more or cut
    return (tuple(found[:PLACES_MAX]) if known else None), more or len(found) > PLACES_MAX


def drift_of(
    event: Event, change: Change, changed: tuple[str, ...], where: tuple[Place, ...] | None
) -> tuple[Drift, ...]:
    """The drift kinds of a divergence."""
    if change == "reordered":
        return ("ORDER",)
    if change == "insert":
        return ("EXTRA_CALL",)
    if change == "delete":
        return ("MISSING_CALL",)
    if change == "replaced":
        return ("EXTRA_CALL", "MISSING_CALL")
    found: set[Drift] = set()
    if "status" in changed:
        found.add("ERROR_KIND")
    if "input" in changed:
        found |= input_drift(event.kind, _pointers(where, "in"))
    if "output" in changed:
        found |= output_drift(event.kind, _pointers(where, "out"))
    return tuple(sorted(found))


def suspects(tape: Tape, event: Event, where: tuple[Place, ...] | None, side: str) -> list[int]:
    """Earlier events whose output holds a value that changed in the input."""
    wanted = [
        canonical(text)[1:-1]  # as it stands in a text of JSON
        for one in where or ()
        if one.side == "in"
        for text in _texts(one.left if side == "left" else one.right)
    ]
    found: list[int] = []
    for seq in range(event.seq - 1, max(event.seq - 1 - LOOK_BACK, -1), -1):
        data = tape.payload_bytes(tape.events[seq], "out") if wanted else None
        if data is not None and any(text in data for text in wanted):
            found.append(seq)
            if len(found) == _SUSPECTS:
                break
    return found


def _pointers(where: tuple[Place, ...] | None, side: str) -> list[str]:
    return [one.pointer for one in where or () if one.side == side]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str | int | float) and len(text := str(value)) >= _TELLING:
        yield text
