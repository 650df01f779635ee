"""An OTLP request, protobuf or JSON, becomes plain telemetry (``model.span.Batch``).

Rules
1. One bad item never loses the others: it is counted in ``Batch.rejected`` and the rest is kept.
2. Ids become lower-case hex, times integers, bytes ``{"$b64": ...}``, an AnyValue with nothing set
   None.
3. A double that is not finite has no JSON value: its key stays with None.
4. ``json_format`` is never used (100 times slower than reading the messages' fields).

``repair`` rewrites protobuf that a strict parser refuses; ``decode_json`` reads the JSON encoding.
"""

from typing import Any, Literal

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from processors.model.span import Attributes, Batch, LogRecord, Scope, Span, SpanEvent, SpanLink
from processors.value import bytes_value, finite
from sidecar.otlp.decode_json import decode_logs_json, decode_traces_json
from sidecar.otlp.errors import Undecodable
from sidecar.otlp.repair import repair

Signal = Literal["traces", "logs"]
Encoding = Literal["protobuf", "json"]
_REMOTE = 0x200  # SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK, opentelemetry/proto/trace/v1/trace.proto

__all__ = ["Encoding", "Signal", "Undecodable", "decode"]


def decode(signal: Signal, encoding: Encoding, payload: bytes) -> Batch:
    """The spans or log records of one Export*ServiceRequest.

    ``payload`` is the uncompressed body. Raises Undecodable when it is no such request at all.
    """
    if encoding == "json":
        return decode_traces_json(payload) if signal == "traces" else decode_logs_json(payload)
    if signal == "traces":
        traces, lost = _message(ExportTraceServiceRequest, payload)
        return _traces(traces, lost)
    logs, lost = _message(ExportLogsServiceRequest, payload)
    return _logs(logs, lost)


def _message(kind: Any, payload: bytes) -> tuple[Any, int]:
    """The parsed message and how many parts of it were given up."""
    try:
        return kind.FromString(payload), 0
    except DecodeError as error:
        fixed, lost = repair(payload, kind.DESCRIPTOR)
        if fixed is None:
            raise Undecodable(f"not an OTLP {kind.__name__}: {error}") from error
        try:
            return kind.FromString(fixed), lost
        except DecodeError:
            raise Undecodable(f"not an OTLP {kind.__name__}: {error}") from error


def _traces(request: Any, rejected: int) -> Batch:
    spans: list[Span] = []
    for resource_spans in request.resource_spans:
        resource = _attributes(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            scope = _scope(scope_spans.scope)
            for item in scope_spans.spans:
                span = _span(item, scope, resource)
                if span is None:
                    rejected += 1
                else:
                    spans.append(span)
    return Batch(spans=tuple(spans), rejected=rejected)


def _logs(request: Any, rejected: int) -> Batch:
    logs = [
        _record(item, scope, resource)
        for resource_logs in request.resource_logs
        for resource in (_attributes(resource_logs.resource.attributes),)
        for scope_logs in resource_logs.scope_logs
        for scope in (_scope(scope_logs.scope),)
        for item in scope_logs.log_records
    ]
    return Batch(logs=tuple(logs), rejected=rejected)


def _span(item: Any, scope: Scope, resource: Attributes) -> Span | None:
    trace_id, span_id = _id(item.trace_id, 16), _id(item.span_id, 8)
    if trace_id is None or span_id is None:
        return None
    status = item.status
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
        events=tuple(_event(event) for event in item.events),
        links=tuple(link for link in map(_link, item.links) if link is not None),
        scope=scope,
        resource=resource,
        dropped_attributes=item.dropped_attributes_count,
        remote_parent=bool(item.flags & _REMOTE),
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


def _record(item: Any, scope: Scope, resource: Attributes) -> LogRecord:
    attributes = _attributes(item.attributes)
    return LogRecord(
        trace_id=_id(item.trace_id, 16),
        span_id=_id(item.span_id, 8),
        time_ns=item.time_unix_nano or item.observed_time_unix_nano,
        event_name=item.event_name or str(attributes.get("event.name") or ""),
        severity=item.severity_number,
        body=_value(item.body),
        attributes=attributes,
        scope=scope,
        resource=resource,
    )


def attributes_of(items: Any) -> Attributes:
    """A repeated KeyValue as plain values."""
    return _attributes(items)


def _scope(scope: Any) -> Scope:
    return Scope(name=scope.name, version=scope.version, attributes=_attributes(scope.attributes))


def _attributes(items: Any) -> Attributes:
    return {item.key: _value(item.value) for item in items}


def _value(value: Any) -> Any:
    text = value.string_value  # the commonest kinds first: WhichOneof costs more than both
    if text:
        return text
    number = value.int_value
    if number:
        return number
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
    return raw.hex() if len(raw) == length and any(raw) else None
