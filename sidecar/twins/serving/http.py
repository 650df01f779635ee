"""Twins over HTTP, stand-alone: agents call tools at ``/<upstream>/<path>`` or as an MCP server at
``/mcp``, an operator leads the episodes at ``/v1/episodes``.

Rules
1. A call is read as the gateway reads it (``gateway.action``), so that a twin here is asked what it
   is asked in a replay; then it goes through the twin's one pipeline.
2. Every call names its episode by a token; the control credential opens no tool, and no token of an
   episode opens the control paths.
3. A fault is played on the wire: no answer is none, until the caller leaves or ``silence_seconds``
   have passed; half a body is half a body. Virtual time alone passes.
4. What no twin declares is a gap of the episode: 501, and nothing is concluded from it.
"""

import asyncio
from typing import NoReturn

from aiohttp import HttpVersion11, web

from processors.model.principal import Principal
from sidecar import clock
from sidecar.gateway.action import ToolRequest, prepare
from sidecar.gateway.content import OWS, Headers
from sidecar.gateway.http import framed
from sidecar.gateway.problem import Refused, render
from sidecar.gateway.request import episode_token, idempotency_key
from sidecar.gateway.response import clean
from sidecar.identity.keys import Unauthenticated, bearer
from sidecar.listen.address import split_address
from sidecar.listen.fault import ConnectionLimits
from sidecar.listen.http import Listener, Manners, when_left
from sidecar.telemetry import Faults, cannot_listen
from sidecar.twins.declaration import Tool
from sidecar.twins.registry import registry
from sidecar.twins.reply import Call, Reply
from sidecar.twins.serving.control.http import Control
from sidecar.twins.serving.driver import PROJECT, Full, Hall, Seat
from sidecar.twins.serving.mcp import PATH as MCP_PATH
from sidecar.twins.serving.mcp import TwinMcp

BODY_BYTES_MAX = 1024**2
SILENCE_SECONDS = 30.0
_SILENT = frozenset({"timeout", "hang"})
_BODILESS = frozenset({204, 304})


class TwinServer:
    """Serves one Hall. ``start``, then ``port``; ``stop`` is safe without start and twice."""

    def __init__(
        self,
        hall: Hall,
        control_key: str,
        *,
        listen: str = "127.0.0.1:0",
        mcp: bool = False,
        silence_seconds: float = SILENCE_SECONDS,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - frozen
    ) -> None:
        self._hall = hall
        self._registry = registry(hall.group)
        self._control = Control(hall, control_key)
        self._mcp = TwinMcp(hall) if mcp else None
        self._address = split_address(listen)
        self._silence_seconds = silence_seconds
        self._leaving = asyncio.Event()
        manners = Manners(record=Faults("twin").record, limits=limits)
        self._listener = Listener(self._handle, *self._address, manners)

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listener.port

    @property
    def upstreams(self) -> list[str]:
        """The first part of the paths of tools."""
        return list(self._registry.upstreams)

    async def start(self) -> None:
        """Bind and serve. Raises SidecarError when the address is taken."""
        try:
            await self._listener.start()
        except OSError as error:
            raise cannot_listen("--listen", *self._address, error) from None

    async def stop(self) -> None:
        """Stop taking calls; a call that a fault leaves unanswered is cut off."""
        self._leaving.set()
        await self._listener.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path == "/healthz" and request.method in ("GET", "HEAD"):
            return web.Response(text="ok\n")
        try:
            headers = framed(request)
        except Refused as error:
            return _refused(error, close=True)
        try:
            if request.raw_path.startswith("/v1/"):
                self._control.check(_one(headers, "authorization"))
                body = await _body(request, headers)
                return self._control.answer(request.method, request.raw_path, body)
            seat = self._seat(headers)
            body = await _body(request, headers)
            if self._mcp is not None and request.raw_path == MCP_PATH:
                call_id = clock.new_id()
                reply = self._mcp.answer(seat, request.method, headers, body, call_id)
            else:
                reply = self._called(seat, request, headers, body)
        except Refused as error:
            answer = _refused(error, close=not request.content.at_eof())
            if error.status == 401:
                answer.headers["WWW-Authenticate"] = 'Bearer realm="twin"'
            return answer
        return await self._told(reply, request)

    def _seat(self, headers: Headers) -> Seat:
        """Whose call it is. Raises Refused."""
        try:
            carried = episode_token(headers)
            token = carried or bearer(_one(headers, "authorization"))
            return self._hall.of_token(token, clock.now_ns())
        except Unauthenticated as error:
            said = f"{error}; an agent's key is its episode's token"
            raise Refused(401, "unauthenticated", said) from None

    def _called(self, seat: Seat, request: web.BaseRequest, headers: Headers, body: bytes) -> Reply:
        upstream, _, path = request.raw_path[1:].partition("/")
        asked = ToolRequest(
            upstream=upstream,
            method=request.method,
            raw_path=f"/{path}",
            headers=headers,
            body=body,
        )
        who = Principal(id=f"episode:{seat.id}", kind="episode", project=PROJECT, name=seat.agent)
        try:
            found = prepare(asked, who, self._registry)
            call = Call(
                tool=found.tool.name,
                arguments=found.arguments,
                key=self._key(headers, found.tool.name),
                call_id=clock.new_id(),
            )
            return self._hall.call(seat, call).reply
        except Refused as error:
            if error.code not in ("no_such_tool", "no_such_upstream"):
                raise
            where = f"{request.method} {request.raw_path.partition('?')[0][:200]}"
            return self._hall.gap(seat, upstream[:64], f"no twin declares {where}").reply
        except Full:
            raise Refused(429, "episode_full", "the episode takes no more calls") from None

    def _key(self, headers: Headers, tool: str) -> str:
        owner = self._hall.group.owner(tool)
        assert owner is not None, "it is registered"
        return idempotency_key(headers, _key_header(owner.tools[tool].declared)) or ""

    async def _told(self, reply: Reply, request: web.BaseRequest) -> web.StreamResponse:
        """The answer on the wire, or what a fault made of it."""
        if reply.failure == "truncated":
            await self._half(reply, request)
        if reply.failure or reply.status is None:
            if reply.failure in _SILENT or not reply.failure:
                await self._silence(request)
            _cut(request)
        return _answer(reply, request)

    async def _half(self, reply: Reply, request: web.BaseRequest) -> NoReturn:
        """A head that promises more than comes."""
        body = reply.body()
        answer = web.StreamResponse(status=reply.status or 200)
        answer.content_length = 2 * len(body) + 1
        answer.content_type = "application/json"
        await answer.prepare(request)
        await answer.write(body)
        if request.transport is not None:
            request.transport.close()  # what was written still goes out
        raise ConnectionError("half a body is all there is")

    async def _silence(self, request: web.BaseRequest) -> None:
        """Returns once the caller or the server leaves, or it has been silent long enough."""
        left = asyncio.Event()
        forget = when_left(request, left.set)
        waits = [asyncio.ensure_future(one.wait()) for one in (left, self._leaving)]
        try:
            seconds = self._silence_seconds
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            forget()
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


def _key_header(tool: Tool) -> str:
    """The header that carries a call's key."""
    return "Idempotency-Key" if isinstance(tool.idempotency, bool) else tool.idempotency.header


def _cut(request: web.BaseRequest) -> NoReturn:
    """Break the connection off; nothing was answered."""
    if request.transport is not None:
        request.transport.abort()
    request.writer.output_size = 1  # so that nothing else is answered
    raise ConnectionError("a fault broke the connection")


def _answer(reply: Reply, request: web.BaseRequest) -> web.Response:
    status = reply.status or 200
    body = b"" if request.method == "HEAD" or status in _BODILESS else reply.body()
    answer = web.Response(status=status, body=body)
    answer.headers.popall("Content-Type", None)
    for name, value in clean(reply.headers):
        answer.headers.add(name, value)
    if reply.has_body and "Content-Type" not in answer.headers:
        answer.headers["Content-Type"] = "application/json"
    answer.headers["X-Content-Type-Options"] = "nosniff"
    return answer


def _refused(error: Refused, *, close: bool) -> web.Response:
    headers, body = render(error.refusal())
    answer = web.Response(status=error.status, body=body)
    answer.headers.popall("Content-Type", None)
    for name, value in headers:
        answer.headers[name] = value
    if close:
        answer.force_close()
    return answer


async def _body(request: web.BaseRequest, headers: Headers) -> bytes:
    """The whole body. Raises Refused where it is too large."""
    declared = _one(headers, "content-length")
    too_large = Refused(413, "body_too_large", f"the body is larger than {BODY_BYTES_MAX} bytes")
    if declared is not None and int(declared) > BODY_BYTES_MAX:
        raise too_large
    if _one(headers, "expect") is not None and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    received = bytearray()
    if not request.content.at_eof():
        async for chunk in request.content.iter_any():
            received += chunk
            if len(received) > BODY_BYTES_MAX:
                raise too_large
    return bytes(received)


def _one(headers: Headers, name: str) -> str | None:
    return next((value.strip(OWS) for key, value in headers if key.lower() == name), None)
