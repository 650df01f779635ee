"""OTLP/gRPC to a downstream: one call an attempt, its status read by ``retry``.

Rules
1. A name is resolved and vetted for each connection; a connection that fails is given up, so that
   the next attempt finds where the downstream is then.
2. Status texts of the downstream are not logged: they may quote what was sent.
"""

import grpc
from grpc.aio import AioRpcError, Channel, UnaryUnaryMultiCallable

from sidecar.egress.client import Egress
from sidecar.egress.grpc import open_channel
from sidecar.egress.rules import Target, TargetRefused
from sidecar.export.batch import Request
from sidecar.export.config import Otlp
from sidecar.export.files import CredentialUnusable, headers_of, roots_of
from sidecar.export.retry import Answer, Delivered, Failed, grpc_answer
from sidecar.otlp import reply
from sidecar.store.journal import Signal

_METHODS: dict[Signal, str] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
_COMPRESSIONS = {"gzip": grpc.Compression.Gzip, "none": grpc.Compression.NoCompression}


class GrpcSender:
    """Sends to one downstream. ``timeout_ns`` bounds an attempt as a whole."""

    def __init__(self, target: Target, otlp: Otlp, egress: Egress, *, timeout_ns: int) -> None:
        self._target = target
        self._otlp = otlp
        self._egress = egress
        self._timeout_ns = timeout_ns
        self._roots = roots_of(otlp)
        self._channel: Channel | None = None
        self._turn = 0

    async def send(self, request: Request) -> Answer:
        """One attempt."""
        try:
            channel = self._channel or await self._connect()
            metadata = headers_of(self._otlp)
        except (TargetRefused, CredentialUnusable) as error:
            return Failed(message=str(error))
        try:
            call: UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                _METHODS[request.signal]
            )
            body = await call(
                request.payload,
                metadata=metadata,
                timeout=self._timeout_ns / 1e9,
                compression=_COMPRESSIONS[self._otlp.compression],
            )
        except AioRpcError as error:
            return await self._failed(error)
        return Delivered(rejected=reply.partial_success(request.signal, body))

    async def close(self) -> None:
        """Close the connection. Safe twice, and without use."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _connect(self) -> Channel:
        endpoint, addresses = await self._egress.vetted(self._target, deadline_ns=self._timeout_ns)
        # Each connection takes the next address, so that one that is dead does not stop the rest.
        address = addresses[self._turn % len(addresses)]
        self._turn += 1
        self._channel = open_channel(endpoint, address, ca=self._roots)
        return self._channel

    async def _failed(self, error: AioRpcError) -> Answer:
        code = error.code()
        number = int(code.value[0])
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            await self.close()
        return grpc_answer(number, f"gRPC status {code.name}", _asked_ns(error))


def _asked_ns(error: AioRpcError) -> int | None:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            return reply.retry_delay_ns(value)
    return None
