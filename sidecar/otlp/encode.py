"""Plain telemetry becomes OTLP protobuf: the way back from ``decode``.

Rules
1. ``decode(encode(x))`` is ``x`` for all that ``decode`` gives.
2. Items that share a resource and a scope (the same objects) share their group.
3. Concatenated requests are a request: protobuf merges repeated fields, so batches are joined
   without being read.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from processors.model.span import Attributes, LogRecord, Scope, Span

_INT64 = range(-(2**63), 2**63)
_UINT64_MAX = 2**64 - 1


def encode_spans(spans: Iterable[Span]) -> bytes:
    """The spans as an ExportTraceServiceRequest."""
    request = ExportTraceServiceRequest()
    groups: dict[tuple[int, int], Any] = {}
    resources: dict[int, Any] = {}
    for span in spans:
        place = (id(span.resource), id(span.scope))
        group = groups.get(place)
        if group is None:
            holder = resources.get(place[0])
            if holder is None:
                holder = resources[place[0]] = request.resource_spans.add()
                write_attributes(span.resource, holder.resource.attributes)
            group = groups[place] = holder.scope_spans.add()
            _scope(span.scope, group.scope)
        _span(span, group.spans.add())
    return bytes(request.SerializeToString())


def encode_logs(records: Iterable[LogRecord]) -> bytes:
    """The records as an ExportLogsServiceRequest."""
    request = ExportLogsServiceRequest()
    groups: dict[tuple[int, int], Any] = {}
    resources: dict[int, Any] = {}
    for record in records:
        place = (id(record.resource), id(record.scope))
        group = groups.get(place)
        if group is None:
            holder = resources.get(place[0])
            if holder is None:
                holder = resources[place[0]] = request.resource_logs.add()
                write_attributes(record.resource, holder.resource.attributes)
            group = groups[place] = holder.scope_logs.add()
            _scope(record.scope, group.scope)
        _record(record, group.log_records.add())
    return bytes(request.SerializeToString())


def write_attributes(attributes: Attributes, target: Any) -> None:
    """Plain attributes into a repeated KeyValue, behind what it holds."""
    for key, value in attributes.items():
        item = target.add(key=_text(key))
        _value(value, item.value)


def _span(span: Span, item: Any) -> None:
    item.trace_id = bytes.fromhex(span.trace_id)
    item.span_id = bytes.fromhex(span.span_id)
    if span.parent_span_id:
        item.parent_span_id = bytes.fromhex(span.parent_span_id)
    item.name = _text(span.name)
    item.kind = span.kind
    item.start_time_unix_nano = _time(span.start_ns)
    item.end_time_unix_nano = _time(span.end_ns)
    item.dropped_attributes_count = span.dropped_attributes
    item.flags = span.flags
    if span.trace_state:
        item.trace_state = _text(span.trace_state)
    if span.status_code or span.status_message:
        item.status.code = span.status_code
        item.status.message = _text(span.status_message)
    write_attributes(span.attributes, item.attributes)
    for event in span.events:
        made = item.events.add(name=_text(event.name), time_unix_nano=_time(event.time_ns))
        write_attributes(event.attributes, made.attributes)
    for link in span.links:
        made = item.links.add(
            trace_id=bytes.fromhex(link.trace_id), span_id=bytes.fromhex(link.span_id)
        )
        write_attributes(link.attributes, made.attributes)


def _record(record: LogRecord, item: Any) -> None:
    if record.trace_id:
        item.trace_id = bytes.fromhex(record.trace_id)
    if record.span_id:
        item.span_id = bytes.fromhex(record.span_id)
    item.time_unix_nano = _time(record.time_ns)
    item.event_name = _text(record.event_name)
    item.severity_number = record.severity
    item.severity_text = _text(record.severity_text)
    item.observed_time_unix_nano = _time(record.observed_ns)
    item.flags = record.flags
    if record.body is not None:
        _value(record.body, item.body)
    write_attributes(record.attributes, item.attributes)


def _scope(scope: Scope, target: Any) -> None:
    target.name, target.version = _text(scope.name), _text(scope.version)
    write_attributes(scope.attributes, target.attributes)


def _value(value: Any, target: Any) -> None:
    """One AnyValue; a value that has none (None) is left unset."""
    if isinstance(value, str):
        target.string_value = _text(value)
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        if value in _INT64:
            target.int_value = value
        else:
            target.string_value = str(value)
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, list | tuple):
        target.array_value.SetInParent()
        for item in value:
            _value(item, target.array_value.values.add())
    elif isinstance(value, dict):
        raw = _raw(value)
        if raw is not None:
            target.bytes_value = raw
        else:
            target.kvlist_value.SetInParent()
            write_attributes(
                {str(key): item for key, item in value.items()}, target.kvlist_value.values
            )


def _raw(value: dict[Any, Any]) -> bytes | None:
    """The bytes that ``{"$b64": …}`` stands for; None for any other object."""
    text = value.get("$b64")
    if len(value) != 1 or not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _text(text: str) -> str:
    """Text that has an encoding: a lone surrogate, which JSON can bring, becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _time(time_ns: int) -> int:
    return min(max(time_ns, 0), _UINT64_MAX)
