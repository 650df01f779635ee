"""The bodies OTLP answers with: Export*ServiceResponse and google.rpc.Status, in either encoding.

Rules
1. An answer is in the encoding of its request.
2. A whole success is an empty message; ``partial_success`` is set only when items were rejected.
3. ``retry_after_s`` becomes a google.rpc.RetryInfo detail, without which a client must not retry
   RESOURCE_EXHAUSTED (OTLP specification, "Retryable Response Codes").

google.rpc.Status is ``{int32 code = 1; string message = 2; repeated Any details = 3}``; the package
that holds its generated form is no dependency of ours, so these few bytes are written here.
"""

from typing import Any

import msgspec
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sidecar.store.journal import Encoding, Signal

_REJECTED: dict[Signal, tuple[Any, str]] = {
    "traces": (ExportTraceServiceResponse, "spans"),
    "logs": (ExportLogsServiceResponse, "log_records"),
    "metrics": (ExportMetricsServiceResponse, "data_points"),
}
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def success(signal: Signal, encoding: Encoding, rejected: int) -> bytes:
    """The response to an accepted request of which ``rejected`` items could not be kept."""
    if not rejected:
        return b"{}" if encoding == "json" else b""
    reason = "items without usable ids, or whose bytes are torn, were left out"
    kind, items = _REJECTED[signal]
    if encoding == "json":
        name = "".join(word.capitalize() for word in items.split("_"))
        partial = {f"rejected{name}": str(rejected), "errorMessage": reason}
        return msgspec.json.encode({"partialSuccess": partial})
    response = kind()
    setattr(response.partial_success, f"rejected_{items}", rejected)
    response.partial_success.error_message = reason
    return bytes(response.SerializeToString())


def partial_success(signal: Signal, body: bytes) -> int:
    """How many items an answer to a request of ours says were rejected; 0 where it says nothing."""
    kind, items = _REJECTED[signal]
    try:
        rejected = getattr(kind.FromString(body).partial_success, f"rejected_{items}")
    except DecodeError:
        return 0
    return max(0, int(rejected))


def retry_delay_ns(details: bytes) -> int | None:
    """The delay of the RetryInfo in a google.rpc.Status; None where there is none."""
    try:
        for encoded in _submessages(details, 3):
            detail = AnyMessage.FromString(encoded)
            if detail.type_url == RETRY_INFO:
                delays = map(Duration.FromString, _submessages(detail.value, 1))
                return max((delay.seconds * 10**9 + delay.nanos for delay in delays), default=0)
    except DecodeError:
        return None
    return None


def _submessages(encoded: bytes, number: int) -> list[bytes]:
    """The nested messages under a field of a message whose type we do not have."""
    fields = UnknownFieldSet(Empty.FromString(encoded))
    found = [fields[index] for index in range(len(fields))]
    return [each.data for each in found if each.field_number == number and each.wire_type == 2]


def status(encoding: Encoding, code: int, message: str, retry_after_s: int | None = None) -> bytes:
    """A google.rpc.Status; ``code`` is a google.rpc.Code number."""
    if encoding == "json":
        body: dict[str, Any] = {"code": code, "message": message}
        if retry_after_s is not None:
            body["details"] = [{"@type": RETRY_INFO, "retryDelay": f"{retry_after_s}s"}]
        return msgspec.json.encode(body)
    encoded = b"\x08" + _varint(code) + _field(2, message.encode())
    if retry_after_s is not None:
        delay = Duration(seconds=retry_after_s).SerializeToString()
        detail = AnyMessage(type_url=RETRY_INFO, value=_field(1, delay))
        encoded += _field(3, detail.SerializeToString())
    return encoded


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
