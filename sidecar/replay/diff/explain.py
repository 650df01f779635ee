"""What differs between two events, in words of a closed set, and where it may come from.

**Rules**
1. Content explains and never decides: where it was not kept the kind is the general one.
2. At most ``PLACES_MAX`` places are told; that there are more is said.
3. A suspect is an earlier event whose output holds the changed value; the last three a side, of
   the last ``LOOK_BACK`` events.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from sidecar.canonical import canonical
from sidecar.replay.diff.model import Change, Drift, Place
from sidecar.replay.diff.reading import Reading
from sidecar.tape.model import Event
from sidecar.tape.paths import pointer
from sidecar.tape.tape import MISSING, Tape

PLACES_MAX: Final = 20
LOOK_BACK: Final = 200
_SUSPECTS: Final = 3
_TELLING: Final = 4
_TOOLS: Final = ("tools", "functions", "tool_choice", "function_call", "parallel_tool_calls")
_PROMPTS: Final = ("messages", "prompt", "input", "system", "instructions", "contents")


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
    known = False
    for side, name in (("in", "input"), ("out", "output")):
        if name not in changed:
            continue
        before = reading.counted(sides[0], one, side)
        after = reading.counted(sides[1], other, side)
        if before is MISSING or after is MISSING:
            continue
        known = True
        for keys, left, right in islice(_walk(before, after, ()), PLACES_MAX + 1):
            found.append(
                Place(
                    side="in" if side == "in" else "out",
                    pointer=pointer(keys),
                    left=None if left is MISSING else left,
                    right=None if right is MISSING else right,
                    has_left=left is not MISSING,
                    has_right=right is not MISSING,
                )
            )
    return (tuple(found[:PLACES_MAX]) if known else None), len(found) > PLACES_MAX


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
        found |= _input(event, where)
    if "output" in changed:
        found |= _output(event, where)
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


def _input(event: Event, where: tuple[Place, ...] | None) -> set[Drift]:
    if event.kind == "state_patch":
        return {"STATE"}
    if event.kind != "llm_call":
        return {"ARGS"}
    tops = {
        one.pointer.split("/")[1] if one.pointer else "" for one in where or () if one.side == "in"
    }
    if not tops:
        return {"PROMPT"}
    found: set[Drift] = set()
    for top in tops:
        if top in _TOOLS:
            found.add("TOOLSET")
        else:
            found.add("PROMPT" if top in _PROMPTS or not top or top.isdecimal() else "PARAMS")
    return found


def _output(event: Event, where: tuple[Place, ...] | None) -> set[Drift]:
    if event.kind == "state_patch":
        return {"STATE"}
    if event.kind == "tool_result":
        return {"RESULT"}
    if event.kind == "error":
        return {"ERROR_KIND"}
    given = {one.pointer.split("/")[1] for one in where or () if one.side == "out" and one.pointer}
    if event.kind != "terminal" or not given & {"claimed", "verified"}:
        return {"OUTPUT"}
    return {"CLAIM"} if given <= {"claimed", "verified"} else {"CLAIM", "OUTPUT"}


def _walk(
    one: Any, other: Any, keys: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _walk(one.get(key, MISSING), other.get(key, MISSING), (*keys, key))
    elif isinstance(one, list) and isinstance(other, list):
        for place in range(max(len(one), len(other))):
            left = one[place] if place < len(one) else MISSING
            right = other[place] if place < len(other) else MISSING
            yield from _walk(left, right, (*keys, place))
    elif isinstance(one, bool) != isinstance(other, bool) or one != other:
        yield keys, one, other


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str | int | float) and len(text := str(value)) >= _TELLING:
        yield text
