"""Sessions: records that tell of steps by themselves, without any span.

Rules
1. A record belongs to the session (conversation) it names; a service's session is one trace.
2. The id of that trace follows from service and session alone, so that every batch finds it.
3. Inside a trace (the emitter has a span open) a record belongs to that trace instead.
"""

import hashlib

from msgspec import Struct

from processors.model.fragment import Told


class Entry(Struct, frozen=True, kw_only=True):
    """What one record of a session tells of."""

    session: str
    told: tuple[Told, ...]


def session_trace_id(service: str | None, session: str) -> str:
    """The trace id (32 hex digits) of a service's session that has no trace."""
    return hashlib.sha256(f"session\0{service or ''}\0{session}".encode()).hexdigest()[:32]
