"""What differs between two payloads, where, and what kind of drift that is.

**Rules**
1. A drift is one of a closed set of words; a volatile difference is noise and none of them.
2. Content explains and never decides: where it was not kept the kind is the general one.
3. At most ``PLACES_MAX`` places are told; that there are more is said.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, Literal

from msgspec import Struct

from sidecar.tape.model import Kind
from sidecar.tape.paths import pointer
from sidecar.tape.tape import MISSING

PLACES_MAX: Final = 20
# Members of the requests of chat completions, responses, messages, embeddings, generateContent.
_TOOLS: Final = (
    *("tools", "functions", "tool_choice", "function_call", "parallel_tool_calls"),
    *("tool_config", "toolConfig", "mcp_servers"),
)
_PROMPTS: Final = (
    *("messages", "prompt", "input", "system", "instructions", "contents", "suffix"),
    *("system_instruction", "systemInstruction", "previous_response_id", "conversation"),
)

Drift = Literal[
    "PROMPT",
    "PARAMS",
    "TOOLSET",
    "ARGS",
    "ORDER",
    "EXTRA_CALL",
    "MISSING_CALL",
    "RESULT",
    "ERROR_KIND",
    "OUTPUT",
    "STATE",
    "CLAIM",
    "FINGERPRINT",
    "LATENCY",
]
Side = Literal["in", "out"]


class Place(Struct, frozen=True, kw_only=True):
    """One place at which two payloads differ; a value that is not there is None and not ``has``."""

    side: Side
    pointer: str
    left: Any
    right: Any
    has_left: bool
    has_right: bool


def places_of(side: Side, left: Any, right: Any) -> tuple[tuple[Place, ...], bool]:
    """Where two encoded payloads differ, and whether at more places."""
    found = [
        Place(
            side=side,
            pointer=pointer(keys),
            left=None if one is MISSING else one,
            right=None if other is MISSING else other,
            has_left=one is not MISSING,
            has_right=other is not MISSING,
        )
        for keys, one, other in islice(_walk(left, right, ()), PLACES_MAX + 1)
    ]
    return tuple(found[:PLACES_MAX]), len(found) > PLACES_MAX


def input_drift(kind: Kind, pointers: Iterable[str]) -> set[Drift]:
    """The drift of an input that differs at ``pointers`` (none where content was not kept)."""
    if kind == "state_patch":
        return {"STATE"}
    if kind != "llm_call":
        return {"ARGS"}
    tops = {_top(one) for one in pointers}
    if not tops:
        return {"PROMPT"}
    return {_of_request(top) for top in tops}


def output_drift(kind: Kind, pointers: Iterable[str]) -> set[Drift]:
    """The drift of an output that differs at ``pointers``."""
    if kind == "state_patch":
        return {"STATE"}
    if kind == "tool_result":
        return {"RESULT"}
    if kind == "error":
        return {"ERROR_KIND"}
    given = {_top(one) for one in pointers if one}
    if kind != "terminal" or not given & {"claimed", "verified"}:
        return {"OUTPUT"}
    return {"CLAIM"} if given <= {"claimed", "verified"} else {"CLAIM", "OUTPUT"}


def _top(text: str) -> str:
    return text.split("/")[1] if text else ""


def _of_request(top: str) -> Drift:
    if top in _TOOLS:
        return "TOOLSET"
    return "PROMPT" if top in _PROMPTS or not top or top.isdecimal() else "PARAMS"


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
