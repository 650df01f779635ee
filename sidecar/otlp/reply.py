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
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sidecar.otlp.decode import Encoding, Signal

RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def success(signal: Signal, encoding: Encoding, rejected: int) -> bytes:
    """The response to an accepted request of which ``rejected`` items could not be kept."""
    if not rejected:
        return b"{}" if encoding == "json" else b""
    reason = "items without usable ids, or whose bytes are torn, were left out"
    name = "Spans" if signal == "traces" else "LogRecords"
    if encoding == "json":
        partial = {f"rejected{name}": str(rejected), "errorMessage": reason}
        return msgspec.json.encode({"partialSuccess": partial})
    if signal == "traces":
        traces = ExportTraceServiceResponse()
        traces.partial_success.rejected_spans = rejected
        traces.partial_success.error_message = reason
        return bytes(traces.SerializeToString())
    logs = ExportLogsServiceResponse()
    logs.partial_success.rejected_log_records = rejected
    logs.partial_success.error_message = reason
    return bytes(logs.SerializeToString())


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
