"""OTLP metrics: read from either encoding, counted in data points.

Rules
1. Metrics are passed on, not interpreted: what is read is the protocol's own message.
2. One bad metric never loses the others: its data points are counted as lost and the rest is kept.
3. Metrics are few beside spans, so ``json_format``, slow and complete, reads the JSON encoding.

Source: opentelemetry-proto docs/specification.md, "JSON Protobuf Encoding": ids are hex.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from msgspec import Struct
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from processors.model.span import Attributes
from sidecar.otlp.encode import write_attributes
from sidecar.otlp.errors import Undecodable
from sidecar.otlp.json_text import parse_json
from sidecar.otlp.limits import NO_MAX
from sidecar.otlp.plain import attributes_of
from sidecar.otlp.repair import count_messages, repair
from sidecar.otlp.wire import WHOLE_BYTES
from sidecar.store.journal import Encoding

KINDS: Final = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")
_HEX_IDS: Final = ("traceId", "spanId", "trace_id", "span_id")


class Metrics(Struct, frozen=True):
    """A request read; ``lost``: data points or parts that were given up."""

    request: Any
    lost: int


class Edits(Struct, frozen=True, kw_only=True):
    """How metrics are changed: attributes of resources, and of all else; names; descriptions.

    ``resource`` gives None for a resource whose metrics are to be left out.
    """

    resource: Callable[[Attributes], Attributes | None]
    attributes: Callable[[Attributes], Attributes]
    name: Callable[[str], str]
    text: Callable[[str], str]


def read_metrics(encoding: Encoding, payload: bytes, nodes_max: int = NO_MAX) -> Metrics:
    """An uncompressed ExportMetricsServiceRequest. Raises Undecodable when it is none.

    Raises TooMany when it has more parts than one may have.
    """
    if encoding == "json":
        return _from_json(payload, nodes_max)
    if len(payload) > WHOLE_BYTES:
        count_messages(payload, ExportMetricsServiceRequest.DESCRIPTOR, nodes_max)
    try:
        return Metrics(ExportMetricsServiceRequest.FromString(payload), 0)
    except DecodeError as error:
        fixed, lost = repair(payload, ExportMetricsServiceRequest.DESCRIPTOR)
        if fixed is not None:
            try:
                return Metrics(ExportMetricsServiceRequest.FromString(fixed), lost)
            except DecodeError:
                pass  # refused below, with the first reason
        raise Undecodable(f"not an OTLP ExportMetricsServiceRequest: {error}") from error


def points(metric: Any) -> Any:
    """A metric's data points; none where no kind is set."""
    kind = metric.WhichOneof("data")
    return getattr(metric, kind).data_points if kind else ()


def count_points(request: Any) -> int:
    """How many data points a request holds."""
    return sum(
        len(points(metric))
        for resource_metrics in request.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
    )


def edit(request: Any, edits: Edits) -> int:
    """Change a request in place; the number of data points that were left out."""
    before = count_points(request)
    kept = [group for group in request.resource_metrics if _edit_group(group, edits)]
    if len(kept) < len(request.resource_metrics):
        copies = [type(group).FromString(group.SerializeToString()) for group in kept]
        del request.resource_metrics[:]
        request.resource_metrics.extend(copies)
    return before - count_points(request)


def _edit_group(group: Any, edits: Edits) -> bool:
    resource = edits.resource(attributes_of(group.resource.attributes))
    if resource is None:
        return False
    _replace(group.resource.attributes, resource)
    for part in group.scope_metrics:
        part.scope.name = edits.name(part.scope.name)
        part.scope.version = edits.name(part.scope.version)
        _edit(part.scope.attributes, edits)
        for metric in part.metrics:
            _edit_metric(metric, edits)
    return True


def _edit_metric(metric: Any, edits: Edits) -> None:
    metric.name, metric.unit = edits.name(metric.name), edits.name(metric.unit)
    metric.description = edits.text(metric.description)
    _edit(metric.metadata, edits)
    for point in points(metric):
        _edit(point.attributes, edits)
        for exemplar in getattr(point, "exemplars", ()):
            _edit(exemplar.filtered_attributes, edits)


def _edit(attributes: Any, edits: Edits) -> None:
    if len(attributes):
        _replace(attributes, edits.attributes(attributes_of(attributes)))


def _replace(attributes: Any, plain: Attributes) -> None:
    del attributes[:]
    write_attributes(plain, attributes)


def _from_json(payload: bytes, nodes_max: int) -> Metrics:
    plain = parse_json(payload, nodes_max)
    groups = _get(plain, "resourceMetrics")
    if not isinstance(plain, dict) or (plain and not isinstance(groups, list)):
        raise Undecodable("not an OTLP/JSON request: no list 'resourceMetrics' at the top")
    request, lost = ExportMetricsServiceRequest(), 0
    for group in _objects(groups):
        target = request.resource_metrics.add()
        _parse({"resource": _get(group, "resource") or {}}, target)
        for part in _objects(_get(group, "scopeMetrics")):
            scope = target.scope_metrics.add()
            _parse({"scope": _get(part, "scope") or {}}, scope)
            for metric in _objects(_get(part, "metrics")):
                if not _parse(metric, scope.metrics.add()):
                    del scope.metrics[-1]
                    lost += max(1, _points_claimed(metric))
    return Metrics(request, lost)


def _parse(plain: Any, message: Any) -> bool:
    try:
        json_format.ParseDict(_with_ids(plain), message, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError):
        message.Clear()
        return False
    return True


def _with_ids(plain: Any) -> Any:
    """The value with hex ids as the base64 that ``json_format`` reads. Raises ValueError."""
    if isinstance(plain, list):
        return [_with_ids(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    return {
        key: _base64(value) if key in _HEX_IDS and isinstance(value, str) else _with_ids(value)
        for key, value in plain.items()
    }


def _base64(text: str) -> str:
    try:
        return base64.b64encode(binascii.unhexlify(text)).decode()
    except binascii.Error as error:
        raise ValueError(f"an id is not hex: {error}") from error


def _points_claimed(metric: Any) -> int:
    found = [_get(_get(metric, kind), "dataPoints") for kind in KINDS]
    return sum(len(item) for item in found if isinstance(item, list))


def _get(node: Any, name: str) -> Any:
    return node.get(name) if isinstance(node, dict) else None


def _objects(nodes: Any) -> list[Any]:
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
