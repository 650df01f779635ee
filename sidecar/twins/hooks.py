"""What a fired fault does to an answer: before the call is looked at, after its effects, and on
the wire.

Rules
1. A hook is a function of the rule and the answer; what it does to the world is ``episode``'s.
2. ``before`` faults leave no effect and no key; ``after`` faults leave both; the wire changes bytes
   and time alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from sidecar.twins.corruption import corrupted
from sidecar.twins.reply import Failure, Reply, silence
from sidecar.twins.rules import Fault

WIRE = frozenset(
    {
        *("malformed_json", "truncated", "missing_field", "renamed_field", "wrong_type"),
        *("replaced_answer", "injected_content"),
    }
)
AFTER = frozenset({"timeout_after", "http_500_after", "lie_failure"})
CRASH = "crash_between_effect_and_receipt"
STANDING = frozenset({"http_503", "permission_revoked", CRASH})
_SILENT: Mapping[str, Failure] = {
    "timeout_before": "timeout",
    "timeout_after": "timeout",
    "hang": "hang",
    "dropped_connection": "dropped",
    CRASH: "dropped",
}
_STATUS: Mapping[str, tuple[int, str]] = {
    "http_403": (403, "permission_denied"),
    "http_422": (422, "not_retryable"),
    "http_429": (429, "429"),
    "http_500_before": (500, "500"),
    "http_503": (503, "503"),
    "permission_revoked": (403, "permission_denied"),
}


def before(fault: Fault) -> Reply | None:
    """The answer of a fault that strikes before anything happens; None for one that does not."""
    if fault.fault == "timeout_before" or (
        fault.fault in ("hang", "dropped_connection") and fault.phase == "before"
    ):
        return silence(_SILENT[fault.fault])
    found = _STATUS.get(fault.fault)
    if found is None:
        return None
    status, code = found
    headers = (("Retry-After", str(fault.retry_after)),) if status in (429, 503) else ()
    return Reply(status=status, value={"error": code}, has_body=True, headers=headers)


def after(fault: Fault | None, reply: Reply) -> Reply:
    """The answer of a call whose effects have happened."""
    if fault is None:
        return reply
    if fault.fault in ("http_500_after", "lie_failure"):
        return failed()
    if strikes_after(fault):
        return silence(_SILENT[fault.fault])
    return reply


def strikes_after(fault: Fault) -> bool:
    """Whether a fault takes the answer of a call whose effects have happened."""
    if fault.fault in ("hang", "dropped_connection"):
        return fault.phase == "after"
    return fault.fault in AFTER or fault.fault == CRASH


def failed() -> Reply:
    """The answer of a service that says it failed."""
    return Reply(status=500, value={"error": "500"}, has_body=True)


def on_the_wire(fault: Fault, reply: Reply, drawn: float) -> Reply | None:
    """The answer as a wire fault lets it out; None where it finds nothing to strike."""
    if not reply.has_body or reply.status is None:
        return None
    found = corrupted(fault, reply.value, reply.body(), drawn)
    if found is None:
        return None
    struck = structs.replace(reply, value=found.value, raw=found.raw)
    return structs.replace(struck, failure="truncated") if found.cut else struck


def noisy(
    value: Any,
    path: tuple[str, ...],
    places: int | None,
    error: Callable[[str], float],
    at: str = "",
) -> Any:
    """The answer with the numbers at ``path`` off by ``error(place)``; lists are walked whole."""
    if isinstance(value, list):
        return [
            noisy(item, path, places, error, f"{at}/{index}") for index, item in enumerate(value)
        ]
    if not path:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        measured = value + error(at)
        if places == 0:
            return round(measured)  # a whole number is written as one
        return measured if places is None else round(measured, places)
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    name, rest = path[0], path[1:]
    return {**value, name: noisy(value[name], rest, places, error, f"{at}/{name}")}
