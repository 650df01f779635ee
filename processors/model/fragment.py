"""Fragment: what one span or log record says, in our words, from ``normalise`` to ``assemble``.

Rules
1. A Reading is what one dialect found; None means "does not say". A Fragment is the union of
   readings.
2. A Fragment of a log record has the ids of its span and only fills what the span's own leaves
   open.
3. Nothing here depends on another span: what needs two spans is a join and belongs to ``assemble``.
4. What a span or record tells of that has no span of its own is ``Told``: it becomes a fragment
   below the teller.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from processors.model.names import ContentState, StepKind, StepStatus
from processors.model.span import SpanLink
from processors.model.step import Agent, Message, Model, StepDecision, StepError, Tool, Usage
from processors.model.trace import Service

_T = TypeVar("_T", bound=Struct)
_NOTHING = (None, ())

RANK_NOISE = 1
RANK_DECISION = 2
RANK_HANDOFF = 3
RANK_OPERATION = 4
RANK_DISCRIMINATOR = 5
RANK_TOOL = 6
RANK_MODEL = 7
RANK_AGENT = 8
RANK_NONE = 9


class Reading(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one dialect finds on one span or log record.

    ``rank`` is the strength of the evidence for ``kind``, 1 the strongest (the order of detection).
    ``tool_content`` and ``model_content`` states are under their field names in ``content_state``.
    """

    dialect: str
    kind: StepKind | None = None
    rank: int = RANK_NONE
    subtype: str | None = None
    agent: Agent | None = None
    model: Model | None = None
    usage: Usage | None = None
    messages_in: tuple[Message, ...] | None = None
    messages_out: tuple[Message, ...] | None = None
    output: Any = None
    tool: Tool | None = None
    conversation_id: str | None = None
    status: StepStatus | None = None
    error: StepError | None = None
    decision: StepDecision | None = None
    told: "tuple[Told, ...]" = ()
    content_state: dict[str, ContentState] = {}
    attributes: dict[str, Any] = {}


class Told(Struct, frozen=True, kw_only=True, gc=False):
    """A step that a span or record tells of; ``id`` names it among those of the same teller."""

    id: str
    name: str
    start_ns: int
    end_ns: int
    reading: Reading


class Fragment(Struct, frozen=True, kw_only=True, gc=False):
    """One span or log record: its place in the trace, and the union of its readings.

    ``told_by``: the span id of who tells of it (empty for a record outside any span) where the
    step has no span of its own; ``span_id`` is then ours.
    """

    trace_id: str
    span_id: str
    source: Literal["span", "log"]
    parent_span_id: str | None = None
    remote_parent: bool = False
    name: str = ""
    scope: str = ""
    start_ns: int = 0
    end_ns: int = 0
    service: Service = Service()
    links: tuple[SpanLink, ...] = ()
    told_by: str | None = None
    reading: Reading


def filled(records: Iterable[_T | None]) -> _T | None:
    """The first record, its empty fields filled from the later ones."""
    result: _T | None = None
    for record in records:
        if record is None or record is result:
            continue
        if result is None:
            result = record
            continue
        gaps = {
            field: value
            for field in record.__struct_fields__
            if getattr(result, field) in _NOTHING
            and (value := getattr(record, field)) not in _NOTHING
        }
        if gaps:
            result = msgspec.structs.replace(result, **gaps)
    return result


def union(readings: Iterable[Reading]) -> Reading:
    """Readings of one and the same thing as one: the first that says a field wins. At least one."""
    known = list(readings)
    merged = filled(known)
    assert merged is not None
    if len(known) == 1:
        return merged
    return msgspec.structs.replace(
        merged,
        agent=filled(reading.agent for reading in known),
        model=filled(reading.model for reading in known),
        usage=filled(reading.usage for reading in known),
        tool=filled(reading.tool for reading in known),
        error=filled(reading.error for reading in known),
        content_state={k: v for r in reversed(known) for k, v in r.content_state.items()},
        attributes={k: v for r in reversed(known) for k, v in r.attributes.items()},
    )
