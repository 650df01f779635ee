"""The JSON encoding of OTLP: lower-camel or original field names, hex ids, integers as strings.

Rules
1. One bad item never loses the others: it is counted in ``Batch.rejected``.
2. Numbers arrive as numbers or strings; enums as numbers or names; NaN and Infinity become None.
3. Lone surrogates become U+FFFD, so that all text has an encoding.
4. A value nested deeper than 100 becomes None and is counted: walkers recurse.

Source: opentelemetry-proto docs/specification.md, "JSON Protobuf Encoding".
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from processors.model.span import Attributes, Batch, LogRecord, Scope, Span, SpanEvent, SpanLink
from processors.value import finite, integer, too_deep
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.otlp.json_text import parse_json
from sidecar.otlp.limits import Cuts, Limits, fit_attributes, fit_record, fit_span

_HEX = re.compile(r"(?:[0-9a-f]{16}){1,2}")
_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUSES = {"OK": 1, "ERROR": 2}
_REMOTE = 0x200
_UINT32 = 0xFFFFFFFF
Node = dict[str, Any]


def decode_json(signal: str, payload: bytes, limits: Limits, cuts: Cuts) -> Batch:
    """The spans or log records of a request in JSON. Raises Undecodable and TooMany."""
    kept: list[Any] = []
    rejected = 0
    for item in items_json(signal, payload, limits, cuts):
        if item is None:
            rejected += 1
        else:
            kept.append(item)
    if signal == "traces":
        return Batch(spans=tuple(kept), rejected=rejected)
    return Batch(logs=tuple(kept), rejected=rejected)


def items_json(
    signal: str, payload: bytes, limits: Limits, cuts: Cuts
) -> Iterator[Span | LogRecord | None]:
    """The items of a request, one after the other; None for one that cannot be kept."""
    names, read = _SIGNALS[signal]
    long = len(payload) > min(limits.value_bytes_max, limits.item_bytes_max)
    for count, (item, scope, resource) in enumerate(_items(payload, names, limits, cuts), 1):
        if count > limits.items_max:
            raise TooMany(f"the request has more than {limits.items_max} items; send smaller ones")
        try:
            yield _fitted(read(item, scope, resource, cuts), long, limits, cuts)
        except (ValueError, TypeError, AttributeError, RecursionError):
            yield None


def _fitted(item: Span | LogRecord, long: bool, limits: Limits, cuts: Cuts) -> Span | LogRecord:
    """The item within the limits; looked at closely only where it could exceed them."""
    over = long or len(item.attributes) > limits.attributes_max
    if isinstance(item, LogRecord):
        return fit_record(item, limits, cuts) if over else item
    over = over or len(item.events) > limits.events_max or len(item.links) > limits.links_max
    return fit_span(item, limits, cuts) if over else item


def _items(
    payload: bytes, names: tuple[str, str, str], limits: Limits, cuts: Cuts
) -> Iterator[tuple[Any, Scope, Attributes]]:
    outer, middle, inner = names
    request = parse_json(payload, limits.nodes_max)
    groups = _get(request, outer)
    if not isinstance(request, dict) or (request and not isinstance(groups, list)):
        raise Undecodable(f"not an OTLP/JSON request: no list {outer!r} at the top")
    for group in _nodes(groups):
        resource = _safe_attributes(_node(group, "resource"), cuts)
        resource = fit_attributes(resource, limits, cuts)
        for part in _nodes(_get(group, middle)):
            scope = _scope(_node(part, "scope"), cuts)
            for item in _get(part, inner) or ():
                yield item, scope, resource


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


def _span(item: Node, scope: Scope, resource: Attributes, cuts: Cuts) -> Span:
    status, flags = _node(item, "status"), integer(_get(item, "flags")) or 0
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
        attributes=_attributes(item, cuts),
        events=tuple(_event(event, cuts) for event in _nodes(_get(item, "events"))),
        links=tuple(_links(item, cuts)),
        scope=scope,
        resource=resource,
        dropped_attributes=integer(_get(item, "droppedAttributesCount")) or 0,
        remote_parent=bool(flags & _REMOTE),
        trace_state=_text(_get(item, "traceState")),
        flags=flags & _UINT32,
    )


def _event(item: Node, cuts: Cuts) -> SpanEvent:
    return SpanEvent(
        name=_text(_get(item, "name")),
        time_ns=integer(_get(item, "timeUnixNano")) or 0,
        attributes=_safe_attributes(item, cuts),
    )


def _links(item: Node, cuts: Cuts) -> Iterator[SpanLink]:
    for link in _nodes(_get(item, "links")):
        trace_id, span_id = _id(_get(link, "traceId"), 32), _id(_get(link, "spanId"), 16)
        if trace_id is not None and span_id is not None:
            attributes = _safe_attributes(link, cuts)
            yield SpanLink(trace_id=trace_id, span_id=span_id, attributes=attributes)


def _record(item: Node, scope: Scope, resource: Attributes, cuts: Cuts) -> LogRecord:
    attributes = _attributes(item, cuts)
    times = (integer(_get(item, name)) for name in ("timeUnixNano", "observedTimeUnixNano"))
    return LogRecord(
        trace_id=_id(_get(item, "traceId"), 32),
        span_id=_id(_get(item, "spanId"), 16),
        time_ns=next((time for time in times if time), 0),
        event_name=_text(_get(item, "eventName")) or _text(attributes.get("event.name")),
        severity=integer(_get(item, "severityNumber")) or 0,
        severity_text=_text(_get(item, "severityText")),
        observed_ns=integer(_get(item, "observedTimeUnixNano")) or 0,
        flags=(integer(_get(item, "flags")) or 0) & _UINT32,
        body=_shallow(_get(item, "body"), cuts),
        attributes=attributes,
        scope=scope,
        resource=resource,
    )


def _scope(node: Node, cuts: Cuts) -> Scope:
    return Scope(
        name=_text(_get(node, "name")),
        version=_text(_get(node, "version")),
        attributes=_safe_attributes(node, cuts),
    )


def _safe_attributes(node: Node, cuts: Cuts) -> Attributes:
    """Attributes of a resource, scope, event or link: a bad one costs only itself."""
    try:
        return _attributes(node, cuts)
    except (ValueError, TypeError, AttributeError):
        return {}


def _attributes(node: Node, cuts: Cuts) -> Attributes:
    items = _nodes(_get(node, "attributes"))
    return {_text(item.get("key")): _shallow(item.get("value"), cuts) for item in items}


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


def _shallow(value: Any, cuts: Cuts) -> Any:
    """An AnyValue as a plain value; None, and counted, where it nests too deep to walk."""
    try:
        plain = _value(value)
        if not isinstance(plain, dict | list) or not too_deep(plain):
            return plain
    except RecursionError:
        pass
    cuts["unreadable_part"] += 1
    return None


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


_SIGNALS: Final[dict[str, tuple[tuple[str, str, str], Any]]] = {
    "traces": (("resourceSpans", "scopeSpans", "spans"), _span),
    "logs": (("resourceLogs", "scopeLogs", "logRecords"), _record),
}
