"""OTLP/gRPC: TraceService, LogsService, MetricsService (Export), health and reflection.

Rules
1. OK is sent only after the sink has the request durably.
2. Handlers get raw bytes. gRPC's own decompression is off, for it has no bound on what a message
   may inflate to; ``admit.Body`` has one.
3. Every Export, and reflection, needs a credential in ``authorization`` metadata, and only one;
   health needs none.
4. An exception of ours is INTERNAL with a fixed text; gRPC would tell and log the exception's.
5. RESOURCE_EXHAUSTED carries RetryInfo in ``grpc-status-details-bin``.
6. Export is handled as a stream of one message (the wire is the same), so that the credential is
   looked at before the message is in memory, and no more than ``_SEATS`` are read at once.

Source: OpenTelemetry protocol specification, "OTLP/gRPC".
"""

import asyncio
import errno
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
from grpc.aio import Server, ServicerContext
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as _logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as _metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as _trace

from sidecar import clock
from sidecar.identity.driver import Authenticate
from sidecar.identity.grpc import shown
from sidecar.identity.keys import Unauthenticated
from sidecar.listen.files import Certificate
from sidecar.listen.grpc import bind
from sidecar.otlp import reply
from sidecar.receive import admit
from sidecar.receive.config import Config
from sidecar.receive.counts import count_accepted, count_refusal
from sidecar.receive.status import ANSWERS, Refused, refused
from sidecar.receive.worker import Admission
from sidecar.store.journal import Signal
from sidecar.store.ports import Sink
from sidecar.telemetry import Faults

SERVICES: dict[str, Signal] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
}
# Reflection tells of descriptors; importing the modules is what registers them.
DESCRIBED = (_trace.DESCRIPTOR, _logs.DESCRIPTOR, _metrics.DESCRIPTOR)
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_HEALTH = "grpc.health.v1.Health"
_STOP_SECONDS = 5
# How many messages may be on their way into memory at once, and how long a call may wait for that.
_SEATS = 8
_READ_SECONDS = 30
# What may come of a message before a handler asks for it; gRPC's own guess grows to megabytes.
_AHEAD_BYTES = 256 * 1024
_HANDSHAKE_MS = 10_000

Context = ServicerContext[bytes, bytes]
Handler = Callable[[AsyncIterator[bytes], Context], Awaitable[bytes]]


class GrpcReceiver:
    """Listens on ``config.grpc``; ``port`` is the real one once started (0 asks for a free one)."""

    def __init__(
        self,
        config: Config,
        sink: Sink,
        authenticate: Authenticate,
        admission: Admission | None = None,
        tls: Certificate | None = None,
    ) -> None:
        self._tls = tls
        self._config = config
        self._admission = admission or Admission(config)
        self._owns_admission = admission is None
        self._sink = sink
        self._authenticate = authenticate
        self._faults = Faults("receive.grpc")
        self._seats = asyncio.Semaphore(_SEATS)
        self._server: Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Bind and listen. Raises OSError when the address cannot be had."""
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", self._admission.packed_bytes_max),
                ("grpc.per_message_decompression", 0),
                ("grpc.http2.bdp_probe", 0),
                ("grpc.http2.lookahead_bytes", _AHEAD_BYTES),
                # A second sidecar on the same port must fail to start, not share it in silence.
                ("grpc.so_reuseport", 0),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ]
        )
        server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(
                    service, {"Export": grpc.stream_unary_rpc_method_handler(self._export(signal))}
                )
                for service, signal in SERVICES.items()
            )
        )
        healthy = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
        for service in ("", *SERVICES):
            await healthy.set(service, health_pb2.HealthCheckResponse.SERVING)
        names = (*SERVICES, _HEALTH, reflection.SERVICE_NAME)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            _Reflection(names, self._authenticate), server
        )
        try:
            self.port = bind(server, self._config.grpc, self._tls)
        except RuntimeError as error:
            # gRPC tells of the cause in its own long words; the caller names address and key.
            raise OSError(errno.EADDRINUSE, "the address is taken or not ours") from error
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Stop listening and let open calls end. Safe without start and twice."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(_STOP_SECONDS)
        if self._owns_admission:
            await self._admission.stop()

    def _export(self, signal: Signal) -> Handler:
        async def export(_: AsyncIterator[bytes], context: Context) -> bytes:
            try:
                return await self._accept(signal, context)
            except Exception as error:
                refusal = refused(error)
                if refusal is None:
                    self._faults.record("internal_fault", error)
                    refusal = Refused("internal", "the sidecar failed; its log says where")
                count_refusal("grpc", signal, refusal)
                await _abort(context, refusal)
                raise

        return export

    async def _accept(self, signal: Signal, context: Context) -> bytes:
        principal = admit.sender(await self._authenticate(shown(context)))
        message = await self._read(context)
        body = self._admission.message(message)
        try:
            await self._admission.feed(body, message)
            payload = body.whole()
            checked = await self._admission.check(signal, "protobuf", payload, principal.id)
            entry = admit.entry(principal, signal, "protobuf", payload, clock.now_ns())
            await self._sink.append(entry)
        finally:
            body.close()
        count_accepted("grpc", signal, checked)
        return reply.success(signal, "protobuf", checked.rejected)

    async def _read(self, context: Context) -> bytes:
        """The call's one message, once there is a seat for it. Raises Refused."""
        try:
            async with asyncio.timeout(_READ_SECONDS), self._seats:
                # Not through the iterator of messages: it is a ring that keeps the last one alive.
                message = await context.read()
        except TimeoutError:
            raise Refused("busy", "too much is being received at once; try again", 1) from None
        if not isinstance(message, bytes):
            raise Refused("undecodable", "the call has no message")
        return message


class _Reflection:
    """Server reflection for whoever holds a key: a stranger learns nothing but health."""

    def __init__(self, names: Sequence[str], authenticate: Authenticate) -> None:
        self._reflect = ReflectionServicer(names).ServerReflectionInfo
        self._authenticate = authenticate

    async def ServerReflectionInfo(  # noqa: N802 - the protocol's name
        self, request_iterator: AsyncIterable[Any], context: Context
    ) -> AsyncIterator[Any]:
        """Answers about the services' descriptors. Ends with UNAUTHENTICATED without a key."""
        try:
            await self._authenticate(shown(context))
        except Unauthenticated as error:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        async for answer in self._reflect(request_iterator, context):
            yield answer


async def _abort(context: Context, refusal: Refused) -> None:
    """End the call with the refusal's status; always raises."""
    code = ANSWERS[refusal.reason].code
    details = reply.status("protobuf", code, refusal.message, refusal.retry_after_s)
    await context.abort(
        _CODES[code], refusal.message, trailing_metadata=(("grpc-status-details-bin", details),)
    )
