"""Messages of OTLP as plain telemetry (``model.span``).

Rules
1. Ids become lower-case hex, times integers, bytes ``{"$b64": ...}``, an AnyValue with nothing set
   None.
2. A double that is not finite has no JSON value: its key stays with None.
3. ``json_format`` is never used (100 times slower than reading the messages' fields).
"""

from typing import Any

from processors.model.span import Attributes, LogRecord, Scope, Span, SpanEvent, SpanLink
from processors.value import bytes_value, finite

_REMOTE = 0x200  # SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK, opentelemetry/proto/trace/v1/trace.proto


def span_of(item: Any, scope: Scope, resource: Attributes) -> Span | None:
    """A span; None without usable ids."""
    trace_id, span_id = _id(item.trace_id, 16), _id(item.span_id, 8)
    if trace_id is None or span_id is None:
        return None
    status, flags = item.status, item.flags
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=_id(item.parent_span_id, 8),
        name=item.name,
        kind=item.kind,
        start_ns=item.start_time_unix_nano,
        end_ns=item.end_time_unix_nano,
        status_code=status.code,
        status_message=status.message,
        attributes=_attributes(item.attributes),
        events=tuple([_event(event) for event in item.events[:]]),
        links=tuple([link for link in map(_link, item.links[:]) if link is not None]),
        scope=scope,
        resource=resource,
        dropped_attributes=item.dropped_attributes_count,
        remote_parent=flags & _REMOTE != 0,
        trace_state=item.trace_state,
        flags=flags,
    )


def _event(item: Any) -> SpanEvent:
    return SpanEvent(
        name=item.name, time_ns=item.time_unix_nano, attributes=_attributes(item.attributes)
    )


def _link(item: Any) -> SpanLink | None:
    trace_id, span_id = _id(item.trace_id, 16), _id(item.span_id, 8)
    if trace_id is None or span_id is None:
        return None
    return SpanLink(trace_id=trace_id, span_id=span_id, attributes=_attributes(item.attributes))


def record_of(item: Any, scope: Scope, resource: Attributes) -> LogRecord:
    """A log record."""
    attributes = _attributes(item.attributes)
    return LogRecord(
        trace_id=_id(item.trace_id, 16),
        span_id=_id(item.span_id, 8),
        time_ns=item.time_unix_nano or item.observed_time_unix_nano,
        event_name=item.event_name or str(attributes.get("event.name") or ""),
        severity=item.severity_number,
        severity_text=item.severity_text,
        observed_ns=item.observed_time_unix_nano,
        flags=item.flags,
        body=_value(item.body),
        attributes=attributes,
        scope=scope,
        resource=resource,
    )


def attributes_of(items: Any) -> Attributes:
    """A repeated KeyValue as plain values."""
    return _attributes(items)


def scope_of(scope: Any) -> Scope:
    """An instrumentation scope."""
    return Scope(name=scope.name, version=scope.version, attributes=_attributes(scope.attributes))


def _attributes(items: Any) -> Attributes:
    # A slice is read at half the cost of an iteration, and the commonest kinds without a call:
    # WhichOneof costs more than both.
    found: Attributes = {}
    for item in items[:]:
        value = item.value
        found[item.key] = value.string_value or value.int_value or _rare(value)
    return found


def _value(value: Any) -> Any:
    return value.string_value or value.int_value or _rare(value)


def _rare(value: Any) -> Any:
    """A value of another kind, or an empty text, or zero."""
    match value.WhichOneof("value"):
        case "string_value":
            return ""
        case "int_value":
            return 0
        case "bool_value":
            return value.bool_value
        case "double_value":
            return finite(value.double_value)
        case "array_value":
            return [_value(item) for item in value.array_value.values]
        case "kvlist_value":
            return {item.key: _value(item.value) for item in value.kvlist_value.values}
        case "bytes_value":
            return bytes_value(value.bytes_value)
    return None


def _id(raw: bytes, length: int) -> str | None:
    return raw.hex() if len(raw) == length and raw.strip(b"\0") else None
