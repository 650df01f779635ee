"""The JSON encoding of OTLP: lower-camel or original field names, hex ids, integers as strings.

Rules
1. One bad item never loses the others: it is counted in ``Batch.rejected``.
2. Numbers arrive as numbers or strings; enums as numbers or names; NaN and Infinity become None.
3. Lone surrogates become U+FFFD, so that all text has an encoding.
4. An item with a value nested deeper than 100 is a bad item: walkers recurse.

Source: opentelemetry-proto docs/specification.md, "JSON Protobuf Encoding".
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from processors.model.span import Attributes, Batch, LogRecord, Scope, Span, SpanEvent, SpanLink
from processors.value import clean, finite, integer, too_deep
from sidecar.otlp.errors import Undecodable

_HEX = re.compile(r"(?:[0-9a-f]{16}){1,2}")
_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUSES = {"OK": 1, "ERROR": 2}
_REMOTE = 0x200
Node = dict[str, Any]


def decode_traces_json(payload: bytes) -> Batch:
    """The spans of an ExportTraceServiceRequest in JSON. Raises Undecodable."""
    spans: list[Span] = []
    rejected = 0
    for item, scope, resource in _items(payload, "resourceSpans", "scopeSpans", "spans"):
        try:
            spans.append(_span(item, scope, resource))
        except (ValueError, TypeError, AttributeError, RecursionError):
            rejected += 1
    return Batch(spans=tuple(spans), rejected=rejected)


def decode_logs_json(payload: bytes) -> Batch:
    """The log records of an ExportLogsServiceRequest in JSON. Raises Undecodable."""
    logs: list[LogRecord] = []
    rejected = 0
    for item, scope, resource in _items(payload, "resourceLogs", "scopeLogs", "logRecords"):
        try:
            logs.append(_record(item, scope, resource))
        except (ValueError, TypeError, AttributeError, RecursionError):
            rejected += 1
    return Batch(logs=tuple(logs), rejected=rejected)


def _items(
    payload: bytes, outer: str, middle: str, inner: str
) -> Iterator[tuple[Any, Scope, Attributes]]:
    request = _parse(payload)
    groups = _get(request, outer)
    if not isinstance(request, dict) or (request and not isinstance(groups, list)):
        raise Undecodable(f"not an OTLP/JSON request: no list {outer!r} at the top")
    for group in _nodes(groups):
        resource = _safe_attributes(_node(group, "resource"))
        for part in _nodes(_get(group, middle)):
            scope = _scope(_node(part, "scope"))
            for item in _get(part, inner) or ():
                yield item, scope, resource


def _parse(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        pass  # the lenient parser below takes lone surrogates, NaN and doubles out of range
    try:
        return clean(json.loads(payload.decode("utf-8", "replace")))
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"not JSON: {error}") from error


def _get(node: Any, name: str) -> Any:
    """A field by its lower-camel name, else by its original snake-case one."""
    if not isinstance(node, dict):
        return None
    found = node.get(name)
    if found is None:
        found = node.get(re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name))
    return found


def _nodes(value: Any) -> list[Node]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _node(node: Node, name: str) -> Node:
    found = _get(node, name)
    return found if isinstance(found, dict) else {}


def _span(item: Node, scope: Scope, resource: Attributes) -> Span:
    status = _node(item, "status")
    return Span(
        trace_id=_required_id(_get(item, "traceId"), 32),
        span_id=_required_id(_get(item, "spanId"), 16),
        parent_span_id=_id(_get(item, "parentSpanId"), 16),
        name=_text(_get(item, "name")),
        kind=_enum(_get(item, "kind"), _KINDS),
        start_ns=integer(_get(item, "startTimeUnixNano")) or 0,
        end_ns=integer(_get(item, "endTimeUnixNano")) or 0,
        status_code=_enum(_get(status, "code"), _STATUSES),
        status_message=_text(_get(status, "message")),
        attributes=_attributes(item),
        events=tuple(_event(event) for event in _nodes(_get(item, "events"))),
        links=tuple(link for link in map(_link, _nodes(_get(item, "links"))) if link is not None),
        scope=scope,
        resource=resource,
        dropped_attributes=integer(_get(item, "droppedAttributesCount")) or 0,
        remote_parent=bool((integer(_get(item, "flags")) or 0) & _REMOTE),
    )


def _event(item: Node) -> SpanEvent:
    return SpanEvent(
        name=_text(_get(item, "name")),
        time_ns=integer(_get(item, "timeUnixNano")) or 0,
        attributes=_safe_attributes(item),
    )


def _link(item: Node) -> SpanLink | None:
    trace_id, span_id = _id(_get(item, "traceId"), 32), _id(_get(item, "spanId"), 16)
    if trace_id is None or span_id is None:
        return None
    return SpanLink(trace_id=trace_id, span_id=span_id, attributes=_safe_attributes(item))


def _record(item: Node, scope: Scope, resource: Attributes) -> LogRecord:
    attributes = _attributes(item)
    times = (integer(_get(item, name)) for name in ("timeUnixNano", "observedTimeUnixNano"))
    return LogRecord(
        trace_id=_id(_get(item, "traceId"), 32),
        span_id=_id(_get(item, "spanId"), 16),
        time_ns=next((time for time in times if time), 0),
        event_name=_text(_get(item, "eventName")) or _text(attributes.get("event.name")),
        severity=integer(_get(item, "severityNumber")) or 0,
        body=_shallow(_value(_get(item, "body"))),
        attributes=attributes,
        scope=scope,
        resource=resource,
    )


def _scope(node: Node) -> Scope:
    return Scope(
        name=_text(_get(node, "name")),
        version=_text(_get(node, "version")),
        attributes=_safe_attributes(node),
    )


def _safe_attributes(node: Node) -> Attributes:
    """Attributes of a resource, scope, event or link: a bad one costs only itself."""
    try:
        return _attributes(node)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _attributes(node: Node) -> Attributes:
    items = _nodes(_get(node, "attributes"))
    found = {_text(item.get("key")): _value(item.get("value")) for item in items}
    _shallow(found)
    return found


def _value(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return None
    kind, held = next(iter(value.items()))
    match kind:
        case "stringValue" | "string_value":
            return _text(held)
        case "intValue" | "int_value":
            return integer(held)
        case "boolValue" | "bool_value":
            return held is True or held == "true"
        case "doubleValue" | "double_value":
            return finite(held)
        case "bytesValue" | "bytes_value":
            return {"$b64": _text(held)}
        case "arrayValue" | "array_value":
            return [_value(item) for item in _node(value, kind).get("values") or ()]
        case "kvlistValue" | "kvlist_value":
            return {
                _text(item.get("key")): _value(item.get("value"))
                for item in _nodes(_node(value, kind).get("values"))
            }
    return None


def _shallow(value: Any) -> Any:
    if too_deep(value):
        raise ValueError("a value nests deeper than 100")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _enum(value: Any, names: dict[str, int]) -> int:
    if isinstance(value, str) and not value.isdigit():
        return names.get(value.rpartition("_")[2].upper(), 0)
    return integer(value) or 0


def _id(value: Any, length: int) -> str | None:
    text = value.lower() if isinstance(value, str) else ""
    usable = len(text) == length and _HEX.fullmatch(text) and text.strip("0")
    return text if usable else None


def _required_id(value: Any, length: int) -> str:
    found = _id(value, length)
    if found is None:
        raise ValueError(f"no id of {length} hex digits: {value!r}")
    return found
