"""Plain telemetry: what an OTLP request holds, freed from protobuf.

Rules
1. Ids are lower-case hex: 32 digits for a trace, 16 for a span; an absent or all-zero id is None.
2. Times are integer nanoseconds since the Unix epoch; 0 means the emitter gave none.
3. Attribute values are JSON-like (str, int, float, bool, None, list, dict) and bytes become base64
   text in ``{"$b64": ...}``. Nothing here has been interpreted.
4. Records of telemetry hold no cycles, and there are very many: the garbage collector passes them
   over (``gc=False``; here, in ``step`` and in ``fragment``).
"""

from typing import Any

from msgspec import Struct

Attributes = dict[str, Any]


class Scope(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The instrumentation scope that wrote a span or log record."""

    name: str = ""
    version: str = ""
    attributes: Attributes = {}


class SpanEvent(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A timed event inside a span."""

    name: str
    time_ns: int = 0
    attributes: Attributes = {}


class SpanLink(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A pointer from one span to another, possibly of another trace."""

    trace_id: str
    span_id: str
    attributes: Attributes = {}


class Span(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One OTLP span. ``kind`` and ``status_code`` are the protocol's numbers (status 2 = ERROR).

    ``remote_parent``: the emitter says that the parent lives in another process (span flags).
    ``trace_state`` and ``flags`` are W3C's, kept for those the span is sent on to.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    kind: int = 0
    start_ns: int = 0
    end_ns: int = 0
    status_code: int = 0
    status_message: str = ""
    attributes: Attributes = {}
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    scope: Scope = Scope()
    resource: Attributes = {}
    dropped_attributes: int = 0
    remote_parent: bool = False
    trace_state: str = ""
    flags: int = 0


class LogRecord(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One OTLP log record; ``event_name`` is the record's own or its ``event.name`` attribute."""

    trace_id: str | None = None
    span_id: str | None = None
    time_ns: int = 0
    event_name: str = ""
    severity: int = 0
    severity_text: str = ""
    observed_ns: int = 0
    flags: int = 0
    body: Any = None
    attributes: Attributes = {}
    scope: Scope = Scope()
    resource: Attributes = {}


class Batch(Struct, frozen=True, kw_only=True):
    """The spans and log records of one or more requests, in order of arrival.

    ``rejected``: items of the requests that could not be read, or had no usable ids.
    """

    spans: tuple[Span, ...] = ()
    logs: tuple[LogRecord, ...] = ()
    rejected: int = 0
