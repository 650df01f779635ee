"""Change, TwinEvent: what a twin recorded about itself while an agent called it.

Rules
1. The twin writes these, the agent cannot: they are evidence, as a receipt is.
2. ``at_ns`` is virtual time. ``changes`` are the rows that the call really changed, empty where
   none did.
3. A fired fault is an event of its own, before the event of the call it struck.
4. ``delivered`` is an effect that came apart from its answer (late, or once more), ``handled`` a
   message of a queue, ``error`` a fault of the twin's own: as a gap, it makes an episode void.
"""

from typing import Any, Literal

from msgspec import Struct

EventKind = Literal[
    "answered",
    "replayed",
    "refused",
    "fault_fired",
    "unanswered",
    "gap",
    "delivered",
    "handled",
    "error",
]
CALL_EVENTS: frozenset[EventKind] = frozenset(
    {"answered", "replayed", "refused", "unanswered", "gap", "error"}
)
"""The events that tell what became of one call: each call has exactly one of them."""


class Change(Struct, frozen=True, kw_only=True):
    """One row (or, for entity ``flags``, one flag) before and after; None where there was none."""

    entity: str
    key: str
    before: Any = None
    after: Any = None


class TwinEvent(Struct, frozen=True, kw_only=True):
    """One thing that happened in a twin.

    ``call_id`` is the gateway's id of the call (or the direct caller's), ``number`` counts the
    calls of that tool from 1. ``rule`` and ``fault`` name a fired fault; ``effect_key`` what a
    committed effect is called, for finding duplicates. ``status`` is None where no answer was
    given.
    """

    seq: int
    kind: EventKind
    twin: str
    tool: str
    at_ns: int
    number: int = 0
    call_id: str = ""
    key: str = ""
    arguments: dict[str, Any] = {}
    status: int | None = None
    changes: tuple[Change, ...] = ()
    effect_key: str | None = None
    rule: str | None = None
    fault: str | None = None
    detail: str = ""
