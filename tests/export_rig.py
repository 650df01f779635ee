"""Downstreams for tests of exporting: real gRPC and HTTP servers that keep what they are sent.

``answers`` says what becomes of each request in turn (the last one stays): None takes it, a number
is a status to refuse it with, a function gets the request and gives one of these.
"""

import gzip
import threading
import time
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces_pb

from sidecar.otlp.plain import attributes_of

KINDS = {
    "traces": (traces_pb.ExportTraceServiceRequest, traces_pb.ExportTraceServiceResponse),
    "logs": (logs_pb.ExportLogsServiceRequest, logs_pb.ExportLogsServiceResponse),
    "metrics": (metrics_pb.ExportMetricsServiceRequest, metrics_pb.ExportMetricsServiceResponse),
}
SERVICES = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
}
CODES = {code.value[0]: code for code in grpc.StatusCode}


def until(probe, seconds=20.0):
    """What ``probe`` gives once it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = probe()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"it did not come about within {seconds} s")


class Asked:
    """A refusal with a number and the wish to be left alone for some seconds."""

    def __init__(self, status, seconds):
        self.status, self.seconds = status, seconds


class Sink:
    """What a downstream got: (signal, request message, headers), in order, refused ones too."""

    def __init__(self, *answers, rejecting=0):
        self.answers = list(answers) or [None]
        self.rejecting = rejecting
        self.taken = []
        self.asked = []
        self.moments = []
        self._lock = threading.Lock()

    def take(self, signal, payload, headers):
        """The answer to a request, and the bytes of a success."""
        request = KINDS[signal][0].FromString(payload)
        with self._lock:
            self.moments.append(time.monotonic())
            self.asked.append((signal, request, headers))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(request)
        response = KINDS[signal][1]()
        if answer is None:
            with self._lock:
                self.taken.append((signal, request, headers))
            if self.rejecting:
                field = {"traces": "spans", "logs": "log_records", "metrics": "data_points"}[signal]
                setattr(response.partial_success, f"rejected_{field}", self.rejecting)
        return answer, response.SerializeToString()

    def spans(self):
        """Every span that was taken, with its resource's attributes."""
        with self._lock:
            return [
                (span, attributes_of(group.resource.attributes))
                for signal, request, _ in self.taken
                if signal == "traces"
                for group in request.resource_spans
                for scope in group.scope_spans
                for span in scope.spans
            ]

    def names(self):
        return sorted(span.name for span, _ in self.spans())

    def records(self):
        """Every log record that was taken, with its resource's attributes."""
        with self._lock:
            return [
                (record, attributes_of(group.resource.attributes))
                for signal, request, _ in self.taken
                if signal == "logs"
                for group in request.resource_logs
                for scope in group.scope_logs
                for record in scope.log_records
            ]

    def evaluations(self):
        return [attributes_of(r.attributes) for r, _ in self.records() if r.event_name]

    def metrics(self):
        with self._lock:
            return [
                metric
                for signal, request, _ in self.taken
                if signal == "metrics"
                for group in request.resource_metrics
                for scope in group.scope_metrics
                for metric in scope.metrics
            ]

    def everything(self):
        """All bytes that were ever sent to it."""
        with self._lock:
            return b"".join(request.SerializeToString() for _, request, _ in self.asked)


class GrpcSink(Sink):
    """Over gRPC; ``port`` 0 takes a free one."""

    def __init__(self, *answers, port=0, **options):
        super().__init__(*answers, **options)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(4),
            options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)],
        )
        for service, signal in SERVICES.items():
            handler = grpc.unary_unary_rpc_method_handler(self._export(signal))
            self._server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, {"Export": handler}),)
            )
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        assert self.port
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(0).wait()

    def _export(self, signal):
        def export(payload, context):
            answer, response = self.take(signal, payload, dict(context.invocation_metadata()))
            if answer is None:
                return response
            if isinstance(answer, Asked):
                status = Status(code=answer.status, details=[AnyMessage()])
                info = RetryInfo()
                info.retry_delay.FromMilliseconds(int(answer.seconds * 1000))
                status.details[0].Pack(info)
                context.set_trailing_metadata(
                    (("grpc-status-details-bin", status.SerializeToString()),)
                )
                answer = answer.status
            context.abort(CODES[answer], "no")
            raise AssertionError("abort raises")

        return export


class HttpSink(Sink):
    """Over HTTP/protobuf."""

    def __init__(self, *answers, port=0, **options):
        super().__init__(*answers, **options)
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                signal = self.path.rpartition("/")[2]
                answer, response = sink.take(signal, body, dict(self.headers))
                extra = {}
                if isinstance(answer, Asked):
                    extra, answer = {"Retry-After": str(answer.seconds)}, answer.status
                self.send_response(answer or 200)
                if answer:
                    response = b""
                for name, value in extra.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(response)))
                self.end_headers()
                self.wfile.write(response)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # a client that was killed is no news

        self._server = Server(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
