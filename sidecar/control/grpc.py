"""The control API over gRPC, on 4321: the same table of operations, with health and reflection.

**Rules**
1. Every call, and reflection, needs a credential in ``authorization`` metadata, and only one;
   health needs none. It is looked at before the message is read.
2. A refusal has the status that ``STATUS`` names, and its code in ``problem-code`` metadata; an
   exception of ours is INTERNAL with a fixed text.
3. A compressed message is refused: gRPC has no bound on what one may inflate to.
"""

import errno
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import grpc
import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from grpc.aio import Server, ServicerContext
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer

from processors.model.principal import Principal
from sidecar._pb.v1 import (
    approval_pb2,
    audit_pb2,
    call_pb2,
    key_pb2,
    sidecar_pb2,
    stop_pb2,
    trace_pb2,
    verdict_pb2,
)
from sidecar.control.arguments import from_message
from sidecar.control.messages import fill, values_of
from sidecar.control.operations import OPERATIONS, Operation
from sidecar.control.worker import Desk, Who
from sidecar.errors import StoreUnavailable
from sidecar.gateway.problem import Refused
from sidecar.identity.grpc import shown
from sidecar.identity.keys import Unauthenticated
from sidecar.identity.roles import Permission, actor
from sidecar.listen.address import split_address
from sidecar.listen.files import Certificate
from sidecar.listen.grpc import bind
from sidecar.store.envelope import SealBroken
from sidecar.telemetry import Faults, cannot_listen, log

_LOG = log("control")
_FILES = (
    *(approval_pb2, audit_pb2, call_pb2, key_pb2, sidecar_pb2, stop_pb2, trace_pb2),
    verdict_pb2,
)
SERVICES: dict[str, Any] = {
    service.full_name: service
    for file in _FILES
    for service in file.DESCRIPTOR.services_by_name.values()
}
_PACKAGE = "sidecar.v1"
_HEALTH = "grpc.health.v1.Health"
STATUS = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
MESSAGE_BYTES_MAX = 64 * 1024
_STREAMS_MAX = 256
_HANDSHAKE_MS = 10_000
_STOP_SECONDS = 5

Context = ServicerContext[bytes, bytes]


class ControlGrpc:
    """Serves the control API. ``start``, then ``port``; ``stop`` is safe always.

    ``also``: services of others on the same port, which ask for credentials themselves.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        listen: str = "127.0.0.1:4321",
        tls: Certificate | None = None,
        also: Sequence[grpc.GenericRpcHandler] = (),
    ) -> None:
        self._also = tuple(also)
        self._desk = desk
        self._listen = listen
        self._tls = tls
        self._faults = Faults("control.grpc")
        self._server: Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Bind and listen. Raises SidecarError when the address is taken."""
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
                ("grpc.max_concurrent_streams", _STREAMS_MAX),
                ("grpc.per_message_decompression", 0),
                # A second sidecar on the same port must fail to start, not share it in silence.
                ("grpc.so_reuseport", 0),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ]
        )
        for service in SERVICES:
            handlers = {
                each.rpc: self._handler(each)
                for each in OPERATIONS
                if f"{_PACKAGE}.{each.service}" == service
            }
            generic = grpc.method_handlers_generic_handler(service, handlers)
            server.add_generic_rpc_handlers((generic,))
        server.add_generic_rpc_handlers(self._also)
        healthy = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
        for service in ("", *SERVICES):
            await healthy.set(service, health_pb2.HealthCheckResponse.SERVING)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            _Reflection(self._known, self._refusing), server
        )
        try:
            self.port = bind(server, self._listen, self._tls)
        except RuntimeError as error:
            taken = OSError(errno.EADDRINUSE, "the address is taken or not ours")
            raise cannot_listen("control.grpc", *split_address(self._listen), taken) from error
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Stop listening; what follows ends now, other calls may end."""
        self._desk.release()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(_STOP_SECONDS)

    async def _known(
        self, context: Context, project: str | None, permission: Permission | None
    ) -> Principal:
        try:
            presented = shown(context)
        except Unauthenticated as error:
            raise Refused(401, "unauthenticated", str(error)) from None
        return await self._desk.principal(presented, project, permission)

    def _handler(self, operation: Operation) -> Any:
        method = SERVICES[f"{_PACKAGE}.{operation.service}"].methods_by_name[operation.rpc]
        asks, gives = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        render = partial(_rendered, gives)

        async def unary(message: bytes, context: Context) -> bytes:
            async with self._refusing(context):
                of, who = await self._asked(operation, asks, message, context)
                answer = await self._desk.answer(operation, who, of, render)
            return answer  # noqa: RET504 - after it, for what is refused inside never comes here

        async def stream(message: bytes, context: Context) -> AsyncIterator[bytes]:
            async with self._refusing(context):
                of, who = await self._asked(operation, asks, message, context)
                async for item in self._desk.stream(operation, who, of):
                    yield render(item)

        if operation.stream:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)

    async def _asked(
        self, operation: Operation, asks: type[Any], message: bytes, context: Context
    ) -> tuple[Any, Who]:
        """The operation's record, and the caller to be asked for anew. Raises Refused."""
        caller = await self._known(context, None, None)
        if actor(caller) == "agent":  # no project that it might name makes it another
            await self._known(context, None, operation.permission)
        try:
            values = values_of(asks.FromString(message))
        except DecodeError:
            text = f"the message is no {asks.__name__}; send it uncompressed"
            raise Refused(400, "message_unreadable", text) from None
        of = from_message(operation, values)
        who = partial(self._known, context, of.project, operation.permission)
        await who()
        return of, who

    @asynccontextmanager
    async def _refusing(self, context: Context) -> AsyncIterator[None]:
        """Turn whatever goes wrong inside into the call's status."""
        try:
            yield
        except Refused as refused:
            await _abort(context, STATUS[refused.status], refused.code, refused.detail)
        except (StoreUnavailable, SealBroken) as error:
            _LOG.error("store_failed", why=error)
            text = "the store cannot be used now"
            await _abort(context, STATUS[503], "store_unavailable", text)
        except Exception as error:
            self._faults.record("internal_fault", error)
            text = "the sidecar failed; its log says where"
            await _abort(context, grpc.StatusCode.INTERNAL, "internal_fault", text)


class _Reflection:
    """Server reflection for whoever may read: a stranger learns nothing but health."""

    def __init__(
        self,
        known: Callable[[Context, str | None, Permission | None], Awaitable[Principal]],
        refusing: Callable[[Context], AbstractAsyncContextManager[None]],
    ) -> None:
        names = (*SERVICES, _HEALTH, reflection.SERVICE_NAME)
        self._reflect = ReflectionServicer(names).ServerReflectionInfo
        self._known = known
        self._refusing = refusing

    async def ServerReflectionInfo(  # noqa: N802 - the protocol's name
        self, request_iterator: AsyncIterable[Any], context: Context
    ) -> AsyncIterator[Any]:
        """Answers about the services' descriptors. Ends with UNAUTHENTICATED without a key."""
        async with self._refusing(context):
            await self._known(context, None, "store.read")
        async for answer in self._reflect(request_iterator, context):
            yield answer


def _rendered(gives: type[Any], record: Any) -> bytes:
    message = gives()
    fill(message, msgspec.to_builtins(record, str_keys=True))
    encoded: bytes = message.SerializeToString()
    return encoded


async def _abort(context: Context, status: grpc.StatusCode, code: str, detail: str) -> None:
    """End the call; always raises."""
    await context.abort(status, detail, trailing_metadata=(("problem-code", code),))
