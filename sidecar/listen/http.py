"""The one way an HTTP listener of ours is made: aiohttp's server, kept from saying too much and
from waiting for ever.

**Rules**
1. What a peer sent is repeated in no answer and reaches no log: the library's own error pages,
   tracebacks and loggers are never used.
2. Whatever a handler raises is an answer of ours, counted by reason.
3. Every wait for a peer ends: head, body, pause between requests, taking the answer.
4. Connections beyond ``connections_max`` are refused, and counted.
5. A stop waits for requests that came whole; others are cut after ``stop_seconds``.
6. Requests are parsed by aiohttp's compiled parser; the other takes what this one refuses, so
   without it nothing is served.
7. A body's framing costs a peer's allowance too: chunk extensions without end are a malformed body.
8. A renewed certificate is shown to every connection from then on; the port is never closed for it.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from aiohttp import HttpVersion10, HttpVersion11, StreamReader, http_parser, web
from aiohttp.http import HttpProcessingError
from msgspec import Struct

from sidecar.errors import SidecarError
from sidecar.listen import fault
from sidecar.listen.fault import ConnectionLimits, Fault, Record, Render
from sidecar.listen.files import Certificate

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_BACKLOG = 1024
_HEADERS_MAX = 100
_VERSIONS = frozenset({HttpVersion10, HttpVersion11})
_FRAMING_BYTES_MAX = 1024**2
"""What the framing of a body may take beside eight times the body: chunks of one byte take five."""
_LINGER_SECONDS = 1.0
"""How long a refused body is still read, so that the refusal is not lost in a reset."""


class SlowBody(Exception):
    """A body that was not whole in time; what a handler that reads it gets."""


class Manners(Struct, frozen=True, kw_only=True):
    """How a listener treats its peers: its limits, its answers, who is told, and TLS if any."""

    record: Record
    limits: ConnectionLimits = ConnectionLimits()
    render: Render = fault.problem
    tls: Certificate | None = None


class Listener:
    """One address with one handler. ``start``, then ``port``; ``stop`` is safe always."""

    def __init__(
        self, serve: Serve | web.Application, host: str, port: int, manners: Manners
    ) -> None:
        self._serve = serve
        self._host = host
        self._wanted_port = port
        self._manners = manners
        self._runner: web.BaseRunner | None = None
        self._servers: list[asyncio.Server] = []
        self._following: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The bound port."""
        port: int = self._servers[0].sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Bind and serve. Raises OSError when the address cannot be had, SidecarError without the
        compiled parser."""
        check_parser()
        runner = self._made()
        await runner.setup()
        try:
            self._servers = [await self._bound(runner, host=self._host, port=self._wanted_port)]
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        if self._manners.tls is not None:
            self._following = asyncio.create_task(self._follow(runner, self._manners.tls))

    async def stop(self) -> None:
        """Stop listening, wait for what came whole, cut the rest."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        for server in self._servers:
            server.close()
        self._servers = []
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _bound(self, runner: web.BaseRunner, **where: Any) -> asyncio.Server:
        """A server at an address, or on a socket; with TLS a peer has to begin as it has a head."""
        tls: dict[str, Any] = {}
        if self._manners.tls is not None:
            tls["ssl"] = self._manners.tls.context
            tls["ssl_handshake_timeout"] = self._manners.limits.head_seconds
        loop = asyncio.get_running_loop()
        assert runner.server is not None, "it is set up"
        return await loop.create_server(runner.server, backlog=_BACKLOG, **where, **tls)

    async def _follow(self, runner: web.BaseRunner, certificate: Certificate) -> None:
        """Serve with each new certificate, on the sockets there are."""
        while True:
            await asyncio.sleep(certificate.look_seconds)
            if not await asyncio.to_thread(certificate.renewed):
                continue
            before, after = self._servers, []
            for held in (each for server in before for each in server.sockets):
                taken = socket.socket(fileno=os.dup(held.fileno()))
                after.append(await self._bound(runner, sock=taken))
            self._servers = after
            for server in before:
                server.close()

    def _made(self) -> web.BaseRunner:
        seconds = self._manners.limits.stop_seconds
        if isinstance(self._serve, web.Application):
            return _Pages(self._serve, self._manners, shutdown_timeout=seconds)
        return web.ServerRunner(_Served(self._serve, self._manners), shutdown_timeout=seconds)


class _Pages(web.AppRunner):
    """Serves an application's pages in our manner."""

    def __init__(self, app: web.Application, manners: Manners, *, shutdown_timeout: float) -> None:
        super().__init__(app, shutdown_timeout=shutdown_timeout)
        self._manners = manners

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Served(made.request_handler, self._manners, request_factory=made.request_factory)


class _Served(web.Server):
    """Makes connections, and turns all that handlers do into an answer."""

    def __init__(self, serve: Serve, manners: Manners, **given: Any) -> None:
        super().__init__(self._answer, **given)
        self.manners = manners
        self._serve = serve

    def __call__(self) -> "_Connection":
        """A connection that was just made."""
        return _Connection(self, asyncio.get_running_loop())

    @property
    def full(self) -> bool:
        """Whether no further connection is taken."""
        return len(self._connections) >= self.manners.limits.connections_max

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.version not in _VERSIONS:
            return self._unspoken(request)
        try:
            if request.content.is_eof():
                answer = await self._serve(request)
            else:
                with self._clocked(request):
                    answer = await self._serve(request)
            if not isinstance(answer, web.StreamResponse):
                raise TypeError("a handler must answer")
        except web.HTTPException as error:
            return self.refusal(fault.refused(error.status), request)
        except Exception as error:
            if request.writer.output_size > 0:
                gone = request.transport is None or request.transport.is_closing()
                reason = "peer_gone" if gone else fault.INTERNAL.reason
                self.manners.record(reason, None if gone else error)
                raise ConnectionError("an answer was begun") from None
            return self.refusal(_meant(error), request, error)
        return answer

    def refusal(
        self, what: Fault, request: web.BaseRequest, error: BaseException | None = None
    ) -> web.Response:
        """The answer to a fault, after which the connection is closed."""
        gone = request.transport is None
        self.manners.record("peer_gone" if gone else what.reason, None if gone else error)
        media_type, body = self.manners.render(what, request.content_type)
        answer = web.Response(status=what.status, body=body, reason=fault.phrase(what.status))
        answer.headers["Content-Type"] = media_type
        answer.force_close()
        return answer

    def _unspoken(self, request: web.BaseRequest) -> web.StreamResponse:
        """Refuse a version that is not spoken here, in one that is: the library would echo it."""
        self.manners.record(fault.MALFORMED.reason, None)
        if request.transport is not None:
            told = fault.raw(fault.MALFORMED, self.manners.render)
            request.transport.write(told)
            request.writer.output_size = len(told)  # an answer was begun: there is no other
        raise ConnectionError("an answer was written")

    @contextmanager
    def _clocked(self, request: web.BaseRequest) -> Iterator[None]:
        """Let the body fail with SlowBody when it is not whole in time."""
        body = request.content
        loop, seconds = asyncio.get_running_loop(), self.manners.limits.body_seconds
        timer = loop.call_later(seconds, lambda: body.set_exception(SlowBody()))
        body.on_eof(timer.cancel)
        cast(_Connection, request.protocol).weigh(body)
        try:
            yield
        finally:
            timer.cancel()


class _Connection(web.RequestHandler):
    """A connection whose peer has to be quick, and learns nothing from its own mistakes."""

    def __init__(self, served: _Served, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            served,
            loop=loop,
            keepalive_timeout=served.manners.limits.idle_seconds,
            access_log=cast(Any, None),
            auto_decompress=False,
            max_headers=_HEADERS_MAX,
            lingering_time=_LINGER_SECONDS,
        )
        self._served = served
        self._manners = served.manners
        self._head_timer: asyncio.TimerHandle | None = None
        self._begun = False
        self._answering = False
        self._body: StreamReader | None = None
        self._wire_bytes = 0
        self._leaving: dict[object, Callable[[], None]] = {}
        self._left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or refuse it where there are too many."""
        if self._served.full:
            self._force_close = True
            self._manners.record(fault.CROWDED.reason, None)
            real = cast(asyncio.Transport, transport)
            real.write(fault.raw(fault.CROWDED, self._manners.render))
            real.close()
            return
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._head_came()
        self._left = True
        while self._leaving:
            self._leaving.popitem()[1]()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; the clock runs while a head is begun and not whole."""
        seen = self._request_count
        try:
            super().data_received(data)
        except Exception as error:
            self._manners.record(fault.INTERNAL.reason, error)
            self.force_close()
            return
        if self._body is not None:
            self._weighed(self._body, len(data))
        if self._request_count > seen:
            self._head_came()
        elif data and (self._head_timer is not None or self._idle()):
            self._begun = True
            self._await_head()

    def when_left(self, told: Callable[[], None]) -> Callable[[], object]:
        """Call ``told`` once it is lost, at once where it is; what this returns ends that."""
        if self._left:
            return self._loop.call_soon(told).cancel
        mark = object()
        self._leaving[mark] = told
        return partial(self._leaving.pop, mark, None)

    def weigh(self, body: StreamReader) -> None:
        """Bound what the framing of a body takes that is still on its way."""
        self._body, self._wire_bytes = body, 0

    def _weighed(self, body: StreamReader, more: int) -> None:
        self._wire_bytes += more
        if body.is_eof() or body.exception() is not None:
            self._body = None
        elif self._wire_bytes > _FRAMING_BYTES_MAX + 9 * body.total_bytes:
            self._body = None
            body.set_exception(web.RequestPayloadError("more framing than body"))

    def _idle(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def _await_head(self) -> None:
        if self._head_timer is None:
            seconds = self._manners.limits.head_seconds
            self._head_timer = self._loop.call_later(seconds, self._head_late)

    def _head_came(self) -> None:
        self._begun = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        self._head_timer = None
        self._manners.record(fault.HEAD_SLOW.reason, None)
        if self._begun and self.transport is not None:
            self.transport.write(fault.raw(fault.HEAD_SLOW, self._manners.render))
        self.force_close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, to a peer that takes it in time."""
        resp.headers.setdefault("Server", fault.SERVER)
        self._answering = True
        seconds = self._manners.limits.answer_seconds
        # A bare timer: a timeout's scope would cost a tenth of a small request.
        late = self._loop.call_later(seconds, self._answer_late, self.transport)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            late.cancel()
            self._answering = False

    def _answer_late(self, transport: asyncio.Transport | None) -> None:
        """The end of a peer that does not take its answer; whoever writes to it is told."""
        self._manners.record("answer_slow", None)
        self.force_close()
        if transport is not None:
            transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes the request
    ) -> web.StreamResponse:
        """The answer to a request that could not be parsed."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun")
        what = fault.MALFORMED if status == fault.MALFORMED.status else fault.INTERNAL
        return self._served.refusal(what, request, exc)

    def log_exception(self, *args: Any, **kw: Any) -> None:  # noqa: ARG002 - they quote the request
        """Count what the library would log; a body that is late or malformed has been counted."""
        error = kw.get("exc_info")
        if not isinstance(error, SlowBody | web.RequestPayloadError):
            self._manners.record(
                fault.INTERNAL.reason, error if isinstance(error, BaseException) else None
            )

    async def shutdown(self, timeout: float | None = 15.0) -> None:
        """End: a request that came whole may go on, any other has ``timeout`` seconds."""
        request = self._current_request
        whole = request is not None and request.content.is_eof()
        if whole and not self._answering:
            timeout = self._manners.limits.flight_seconds
        await super().shutdown(timeout)


def check_parser() -> None:
    """Raise SidecarError unless requests are parsed by the compiled parser."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise SidecarError(
            "aiohttp's compiled HTTP parser is not loaded, and the other is not safe to serve with",
            where="the environment (AIOHTTP_NO_EXTENSIONS), or the installation of aiohttp",
            do="Unset AIOHTTP_NO_EXTENSIONS, or install aiohttp from its wheel.",
        )


def when_left(request: web.BaseRequest, told: Callable[[], None]) -> Callable[[], object]:
    """Call ``told`` once the connection of a request is lost, its peer gone or cut off; what this
    returns ends that."""
    connection = request.protocol
    assert isinstance(connection, _Connection), "a listener of ours"
    return connection.when_left(told)


def _meant(error: Exception) -> Fault:
    """The fault that an exception of a handler stands for."""
    if isinstance(error, SlowBody):
        return fault.BODY_SLOW
    if isinstance(error, web.RequestPayloadError | HttpProcessingError):
        return fault.BODY_MALFORMED
    return fault.INTERNAL
