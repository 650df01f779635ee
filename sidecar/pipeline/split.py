"""Which open trace an item belongs to.

Rules
1. A span, and a log record inside a trace, belong to their trace id.
2. A log record outside any trace belongs to its service's conversation or session, where it names
   one; else to its service. What tells of no agent's steps lies together by the minute it is of,
   so that a service's ordinary log is no trace that grows for ever.
3. A key that is no trace id starts with ``log:``, so that the two never meet. The rest is a digest:
   keys are stored as they are, and names of services and conversations are not redacted yet.
"""

import hashlib
from typing import Any

from processors.model.span import Batch, LogRecord, Span
from processors.normalise.detect import normalise

_TOGETHER_NS = 60_000_000_000
_CONVERSATIONS = (
    "gen_ai.conversation.id",
    "session.id",
    "conversation.id",
    "gen_ai.session.id",
    "thread.id",
)


def split(batch: Batch) -> dict[str, Batch]:
    """The batch by key of open trace; order inside a key is kept."""
    spans: dict[str, list[Span]] = {}
    logs: dict[str, list[LogRecord]] = {}
    for span in batch.spans:
        spans.setdefault(span.trace_id, []).append(span)
    for record in batch.logs:
        logs.setdefault(_key(record), []).append(record)
    return {
        key: Batch(spans=tuple(spans.get(key, ())), logs=tuple(logs.get(key, ())))
        for key in {**spans, **logs}
    }


def _key(record: LogRecord) -> str:
    if record.trace_id is not None:
        return record.trace_id
    service = _text(record.resource.get("service.name"))
    for name in _CONVERSATIONS:
        conversation = _text(record.attributes.get(name)) or _text(record.resource.get(name))
        if conversation:
            return _named(service, conversation)
    whole = _named(service) if service else "log:"
    return whole if _tells(record) else f"{whole}:{record.time_ns // _TOGETHER_NS}"


def _tells(record: LogRecord) -> bool:
    """Whether the record alone tells of an agent's steps."""
    try:
        return bool(normalise(Batch(logs=(record,))))
    except Exception:
        return True  # whatever it is, the assembly meets it too and reports it


def _named(*names: str) -> str:
    parts = "".join(f"{len(name)}:{name}" for name in names)
    return f"log:{hashlib.sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
