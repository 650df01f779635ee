"""Claims that an agent declares in events: span events and log records named ``agenttwin.claim``.

Rules
1. An event's ``agenttwin.claim.*`` are kept together under one attribute of the step, whose key
   ends in a digest of what was said: the same event delivered twice is one.
2. Any other ``agenttwin.*`` of it is left out: an emitter cannot speak for us.
3. Of one span at most ``_EVENTS_MAX`` events are read.
"""

import hashlib
from typing import Any, Final

from processors.model.fragment import Reading
from processors.model.names import CLAIM_EVENT, CLAIM_EVENT_PREFIX, CLAIM_PREFIX
from processors.model.span import Attributes, LogRecord, Span

_EVENTS_MAX: Final = 64


def of_events(span: Span) -> dict[str, Any]:
    """The claims in a span's events, as attributes."""
    named = [event for event in span.events if event.name == CLAIM_EVENT]
    found: dict[str, Any] = {}
    for event in named[:_EVENTS_MAX]:
        found.update(_attribute(event.attributes, event.time_ns))
    return found


def read_log(record: LogRecord) -> Reading | None:
    """A record that claims something, read for its span."""
    if record.event_name != CLAIM_EVENT:
        return None
    attributes = _attribute(record.attributes, record.time_ns or record.observed_ns)
    return Reading(dialect="agenttwin", attributes=attributes) if attributes else None


def _attribute(attributes: Attributes, time_ns: int) -> dict[str, Any]:
    said = {key: value for key, value in attributes.items() if key.startswith(CLAIM_PREFIX)}
    if not said:
        return {}
    digest = hashlib.sha256(repr((time_ns, sorted(said.items(), key=str))).encode()).hexdigest()
    return {f"{CLAIM_EVENT_PREFIX}{digest[:16]}": said}
