"""Whether an OTLP request decodes, and how many of its items cannot be kept.

Rules
1. What passes here decodes in the pipeline: nothing acknowledged is found undecodable later.
2. A bad item never sinks its batch: it is counted, and told to the sender as partial success.
3. The common case, sound protobuf, costs one parse and a look at the ids; nothing is converted.
"""

from typing import Any

from google.protobuf.message import DecodeError
from msgspec import Struct
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.otlp.decode import decode
from sidecar.otlp.errors import Undecodable
from sidecar.otlp.metrics import count_points, read_metrics
from sidecar.store.journal import Encoding, Signal

_NO_TRACE_ID = bytes(16)
_NO_SPAN_ID = bytes(8)


class Checked(Struct, frozen=True):
    """What a request holds: items kept, and items ``rejected`` for want of usable ids or bytes."""

    accepted: int
    rejected: int


def check(signal: Signal, encoding: Encoding, payload: bytes) -> Checked:
    """Counts of an uncompressed Export*ServiceRequest. Raises Undecodable when it is none."""
    if signal == "metrics":
        metrics = read_metrics(encoding, payload)
        return Checked(count_points(metrics.request), metrics.lost)
    if encoding == "protobuf":
        try:
            if signal == "traces":
                return _spans(ExportTraceServiceRequest.FromString(payload))
            return _records(ExportLogsServiceRequest.FromString(payload))
        except DecodeError:
            pass  # the decoder repairs what can be repaired, and says what cannot
    try:
        batch = decode(signal, encoding, payload)
    except (TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Undecodable(f"not an OTLP request: {error}") from error
    return Checked(len(batch.spans) + len(batch.logs), batch.rejected)


def _spans(request: Any) -> Checked:
    accepted = rejected = 0
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            accepted += len(scope_spans.spans)
            for span in scope_spans.spans:
                trace_id, span_id = span.trace_id, span.span_id
                if (
                    len(trace_id) != 16
                    or len(span_id) != 8
                    or trace_id == _NO_TRACE_ID
                    or span_id == _NO_SPAN_ID
                ):
                    rejected += 1
    return Checked(accepted - rejected, rejected)


def _records(request: Any) -> Checked:
    return Checked(
        sum(
            len(scope_logs.log_records)
            for resource_logs in request.resource_logs
            for scope_logs in resource_logs.scope_logs
        ),
        0,
    )
