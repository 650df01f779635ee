"""OTLP/HTTP: POST /v1/traces, /v1/logs and /v1/metrics, protobuf or JSON, plain, gzip or zstd.

Rules
1. 200 is sent only after the sink has the request durably.
2. Every answer's body is in the request's encoding; where that is unknown, in JSON.
3. The credential is checked before the body is read. Two credentials are none.
4. What no handler answers, and how long a sender is waited for: ``listen.http``.

Source: OpenTelemetry protocol specification, "OTLP/HTTP".
"""

from aiohttp import web

from sidecar import clock
from sidecar.identity.client import shown
from sidecar.identity.driver import Authenticate
from sidecar.listen.address import split_address
from sidecar.listen.fault import ConnectionLimits, Fault
from sidecar.listen.files import Certificate
from sidecar.listen.http import Listener, Manners, SlowBody
from sidecar.otlp import reply
from sidecar.receive import admit
from sidecar.receive.config import Config
from sidecar.receive.counts import count_accepted, count_refusal
from sidecar.receive.status import ANSWERS, Refused, refused
from sidecar.receive.worker import Admission
from sidecar.store.journal import Encoding, Signal
from sidecar.store.ports import Sink
from sidecar.telemetry import Faults

PATHS: dict[str, Signal] = {
    "/v1/traces": "traces",
    "/v1/logs": "logs",
    "/v1/metrics": "metrics",
}
_TYPES: dict[Encoding, str] = {"protobuf": "application/x-protobuf", "json": "application/json"}
# google.rpc.Code: INVALID_ARGUMENT, NOT_FOUND, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE; UNKNOWN.
_FAULT_CODES = {400: 3, 404: 5, 408: 4, 500: 13, 503: 14}
_UNKNOWN = 2


class HttpReceiver:
    """Listens on ``config.http``; ``port`` is the real one once started (0 asks for a free one)."""

    def __init__(
        self,
        config: Config,
        sink: Sink,
        authenticate: Authenticate,
        admission: Admission | None = None,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - frozen
        tls: Certificate | None = None,
    ) -> None:
        self._tls = tls
        self._config = config
        self._limits = limits
        self._admission = admission or Admission(config)
        self._owns_admission = admission is None
        self._sink = sink
        self._authenticate = authenticate
        self._listener: Listener | None = None
        self.port = 0

    async def start(self) -> None:
        """Bind and listen. Raises OSError when the address cannot be had."""
        manners = Manners(
            record=Faults("receive.http").record,
            limits=self._limits,
            render=_rendered,
            tls=self._tls,
        )
        listener = Listener(self._answer, *split_address(self._config.http), manners)
        await listener.start()
        self._listener = listener
        self.port = listener.port

    async def stop(self) -> None:
        """Stop listening and let open requests end. Safe without start and twice."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop()
        if self._owns_admission:
            await self._admission.stop()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        encoding = admit.MEDIA_TYPES.get(request.content_type, "json")
        try:
            body = await self._accept(request)
        except Exception as error:
            refusal = refused(error)
            if refusal is None:
                raise
            count_refusal("http", PATHS.get(request.path), refusal)
            return _refusal(encoding, refusal)
        return web.Response(body=body, content_type=_TYPES[encoding])

    async def _accept(self, request: web.BaseRequest) -> bytes:
        signal = PATHS.get(request.path)
        if signal is None:
            raise Refused("no_path", f"OTLP is taken at {', '.join(PATHS)}")
        if request.method != "POST":
            raise Refused("method", "use POST")
        principal = admit.sender(await self._authenticate(shown(request)))
        encoding = admit.encoding_of(request.headers.get("Content-Type", ""))
        body = self._admission.body(request.headers.get("Content-Encoding", ""))
        try:
            payload = await self._payload(request, body)
            checked = await self._admission.check(signal, encoding, payload, principal.id)
            entry = admit.entry(principal, signal, encoding, payload, clock.now_ns())
            await self._sink.append(entry)
        finally:
            body.close()
        count_accepted("http", signal, checked)
        return reply.success(signal, encoding, checked.rejected)

    async def _payload(self, request: web.BaseRequest, body: admit.Body) -> bytes:
        limit = self._admission.packed_bytes_max
        if (request.content_length or 0) > limit:
            raise Refused("too_large", f"the body exceeds {limit} bytes as it comes")
        try:
            async for piece in request.content.iter_any():
                await self._admission.feed(body, piece)
        except SlowBody:
            seconds = self._limits.body_seconds
            raise Refused("slow", f"the body took longer than {seconds:g} s") from None
        return body.whole()


def _rendered(fault: Fault, media_type: str) -> tuple[str, bytes]:
    """A fault as google.rpc.Status; ``media_type`` is the request's, if it had one."""
    encoding = admit.MEDIA_TYPES.get(media_type, "json")
    code = _FAULT_CODES.get(fault.status, _UNKNOWN)
    return _TYPES[encoding], reply.status(encoding, code, fault.detail)


def _refusal(encoding: Encoding, refusal: Refused) -> web.Response:
    answer = ANSWERS[refusal.reason]
    body = reply.status(encoding, answer.code, refusal.message, refusal.retry_after_s)
    response = web.Response(status=answer.http, body=body, content_type=_TYPES[encoding])
    response.headers.extend(admit.headers(refusal))
    return response
