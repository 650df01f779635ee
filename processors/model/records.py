"""Times, counts and verdicts as sources write them that report decisions or records for spans.

Rules
1. A record is written when the thing is over: it began ``duration_ms`` before.
2. Numbers and truth values are often texts; anything else under their keys is None.
3. Words of allowance and refusal are mapped, any other is ``unknown``: nothing infers ``allow``.
4. A refused call was not run (``denied``), whatever else its record says.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from processors.model.fragment import Reading, Told
from processors.model.names import Effect, StepStatus
from processors.model.span import LogRecord
from processors.model.step import StepDecision, StepError, Usage

_MS = 1_000_000
Attributes = Mapping[str, Any]


def whole(value: Any) -> int | None:
    """A count from a number or its text."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int and value >= 0 else None


def flag(value: Any) -> bool | None:
    """A truth value from true, "true" and their opposites."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def told(record: LogRecord, name: str, key: str, reading: Reading) -> Told:
    """The step a record tells of; ``key`` names it: equal for records of one and the same step."""
    took = whole(record.attributes.get("duration_ms")) or 0
    start_ns = max(record.time_ns - took * _MS, 0)
    return Told(id=key, name=name, start_ns=start_ns, end_ns=record.time_ns, reading=reading)


def usage(
    attributes: Attributes, keys: Mapping[str, Sequence[str]], *, apart: bool
) -> Usage | None:
    """The token counts under the keys; ``apart``: cached tokens are not counted in the input."""
    counts = {
        field: next((n for k in names if (n := whole(attributes.get(k))) is not None), None)
        for field, names in keys.items()
    }
    if counts.get("input") is None and counts.get("output") is None:
        return None
    if apart:
        cached = (counts.get("cache_read") or 0) + (counts.get("cache_write") or 0)
        counts["input"] = (counts.get("input") or 0) + cached
    return Usage(**counts, scope="own")


def outcome(
    success: bool | None, message: Any, decision: StepDecision | None
) -> tuple[StepStatus | None, StepError | None]:
    """The status of a call and its error."""
    if decision is not None and decision.effect == "deny":
        return "denied", None
    if success is False:
        return "error", StepError(message=message if isinstance(message, str) else None)
    return ("ok" if success else None), None


_EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(
        ("allow", "allowed", "accept", "accepted", "approve", "approved", "permit", "permitted"),
        "allow",
    ),
    **dict.fromkeys(
        ("approved_for_session", "approvedforsession", "auto_accept", "approve_always"), "allow"
    ),
    **dict.fromkeys(("modify", "allow_with_limits", "redact", "sanitize"), "allow_with_limits"),
    **dict.fromkeys(
        ("ask", "require_approval", "escalate", "review", "pending"), "require_approval"
    ),
    **dict.fromkeys(
        ("deny", "denied", "reject", "rejected", "block", "blocked", "refuse", "abort"), "deny"
    ),
}


def effect_word(written: str | None) -> Effect | Literal["unknown"]:
    """What an emitter's word for a decision says; ``unknown`` for any other word or none."""
    return _EFFECTS.get((written or "").strip().lower(), "unknown")
