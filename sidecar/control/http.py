"""The control API over HTTP, on 4320: the table of operations as pages.

**Rules**
1. Every request but health has a credential, looked at before anything else of it; every answer is
   of that credential's project. An agent learns who it is, and nothing more.
2. Errors are problem+json; nothing of a request is repeated in them.
3. The pages for people (``pages``) stand beside it, with a sign-in and manners of their own.
4. An answer has the ETag of its bytes: who sends it back is told when nothing changed, or waits
   until something does.
5. An answer that was begun gets no second head: when its reader may read no longer, or the store
   cannot be read, it is cut short, and the peer sees that it is not whole.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog
from aiohttp import web
from msgspec import Struct

from processors.model.principal import Principal
from sidecar import clock
from sidecar.control import openapi
from sidecar.control.arguments import from_http
from sidecar.control.operations import DOCUMENT_PATH, OPERATIONS, Operation
from sidecar.control.pages.http import Pages
from sidecar.control.worker import Desk, Who
from sidecar.errors import StoreUnavailable
from sidecar.gateway import problem
from sidecar.gateway.problem import Refused
from sidecar.gateway.strict import NotStrict, read_json
from sidecar.identity.client import shown
from sidecar.identity.keys import Unauthenticated
from sidecar.identity.login.http import CodeLogin
from sidecar.identity.roles import Permission
from sidecar.listen.address import split_address
from sidecar.listen.fault import ConnectionLimits
from sidecar.listen.files import Certificate
from sidecar.listen.http import Listener, Manners
from sidecar.store.envelope import SealBroken
from sidecar.telemetry import Faults, cannot_listen, log

_LOG = log("control")
_HEALTH = "/healthz"
_ID: web.RequestKey[str] = web.RequestKey("request-id", str)
_LINES = 200
_CODES = {
    404: ("no_such_page", "there is no such page"),
    405: ("method_not_allowed", "this page has no such method"),
    413: ("body_too_large", "the body is larger than this page takes"),
}
BODY_BYTES_MAX = 64 * 1024
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlServer:
    """Serves the control API. ``start``, then ``port``; ``stop`` is safe always."""

    def __init__(
        self,
        desk: Desk,
        *,
        listen: str = "127.0.0.1:4320",
        limits: ConnectionLimits = ConnectionLimits(connections_max=128),  # noqa: B008 - frozen
        tls: Certificate | None = None,
        logins: Sequence[CodeLogin] = (),
        pages: str = "",
    ) -> None:
        self._desk = desk
        self._people = Pages(desk, tls=tls is not None, logins=logins, pages=pages)
        self._address = split_address(listen)
        self._limits = limits
        described = openapi.document(desk.version.api)
        self._document = msgspec.json.encode(described)
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_BYTES_MAX)
        app.add_routes(self._routes())
        self._record = Faults("control").record
        manners = Manners(record=self._record, limits=limits, tls=tls)
        self._listener = Listener(app, *self._address, manners)

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listener.port

    async def start(self) -> None:
        """Bind and serve. Raises SidecarError when the address is taken."""
        try:
            await self._listener.start()
        except OSError as error:
            raise cannot_listen("control.listen", *self._address, error) from None

    async def stop(self) -> None:
        """Stop serving; who waits is answered now."""
        self._desk.release()
        await self._listener.stop()

    def _routes(self) -> list[web.RouteDef]:
        pages = [
            web.route(each.method, each.path, partial(self._page, each))
            for each in OPERATIONS
            if each.method is not None
        ]
        return [
            web.get(_HEALTH, self._health),
            web.get(DOCUMENT_PATH, self._described),
            *pages,
            *self._people.routes(),
        ]

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Credential first, then the page; whatever goes wrong is a problem document."""
        request_id = request[_ID] = clock.new_id()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            if request.path != _HEALTH and request.match_info.http_exception is not None:
                await self._known(request, "store.read")
            answer = await handler(request)
        except Refused as refused:
            answer = _problem(refused)
        except (StoreUnavailable, SealBroken) as error:
            _LOG.error("store_failed", why=error)
            answer = _problem(Refused(503, "store_unavailable", "the store cannot be used now"))
        except web.HTTPException as error:
            known = ("request_refused", error.reason)
            answer = _problem(Refused(error.status, *_CODES.get(error.status, known)))
            if "Allow" in error.headers:
                answer.headers["Allow"] = error.headers["Allow"]
        if not answer.prepared:
            answer.headers["Request-Id"] = request_id
        return answer

    async def _known(self, request: web.Request, permission: Permission | None) -> Principal:
        projects = request.query.getall("project", [])
        if len(projects) > 1:
            raise Refused(400, "parameter_repeated", "project stands twice in the query")
        try:
            presented = shown(request)
        except Unauthenticated as error:
            raise Refused(401, "unauthenticated", str(error)) from None
        return await self._desk.principal(presented, projects[0] if projects else None, permission)

    async def _health(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(text="ok\n")

    async def _described(self, request: web.Request) -> web.Response:
        await self._known(request, "store.read")
        return _answer(request, self._document)

    async def _page(self, operation: Operation, request: web.Request) -> web.StreamResponse:
        who = partial(self._known, request, operation.permission)
        await who()
        body = await _body(request) if operation.in_body else None
        of = from_http(operation, request.match_info, request.query.items(), body)
        if operation.stream:
            return await self._lines(request, self._desk.stream(operation, who, of))
        if operation.method != "GET":
            told = await self._desk.answer(operation, who, of, msgspec.json.encode)
            return _json(told, operation.status)
        return _answer(request, await self._told(request, operation, who, of))

    async def _told(self, request: web.Request, operation: Operation, who: Who, of: Any) -> bytes:
        known = partial(_is_known, request)
        if not operation.waits:
            return await self._desk.answer(operation, who, of, msgspec.json.encode)
        return await self._desk.changed(operation, who, of, msgspec.json.encode, known)

    async def _lines(
        self, request: web.Request, items: AsyncIterator[Struct]
    ) -> web.StreamResponse:
        """One item a line. A peer that takes none in time is cut off."""
        first = await anext(items, None)
        answer = web.StreamResponse(headers={"Cache-Control": "no-store"})
        answer.content_type = openapi.JSON_LINES
        answer.headers["Request-Id"] = request[_ID]
        await answer.prepare(request)
        try:
            lines = [] if first is None else [msgspec.json.encode(first)]
            async for item in items:
                lines.append(msgspec.json.encode(item))
                if len(lines) >= _LINES:
                    await self._write(answer, lines)
                    lines = []
            await self._write(answer, lines)
        except (Refused, StoreUnavailable, SealBroken, TimeoutError) as error:
            slow = isinstance(error, TimeoutError)
            self._record("answer_slow" if slow else "answer_cut", error)
            if request.transport is not None:
                request.transport.abort()
        return answer

    async def _write(self, answer: web.StreamResponse, lines: list[bytes]) -> None:
        async with asyncio.timeout(self._limits.answer_seconds):
            await answer.write(b"".join(line + b"\n" for line in lines))


async def _body(request: web.Request) -> Any:
    if request.content_type != openapi.JSON or "Content-Encoding" in request.headers:
        raise Refused(415, "media_type_unknown", f"send the body as {openapi.JSON}, uncompressed")
    try:
        return read_json(await request.read())
    except NotStrict as error:
        raise Refused(400, "body_unreadable", str(error)) from None


def _is_known(request: web.Request, body: bytes) -> bool:
    known = [each.strip() for each in request.headers.get("If-None-Match", "").split(",")]
    return _etag(body) in [each.removeprefix("W/") for each in known] or known == ["*"]


def _etag(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'


def _answer(request: web.Request, body: bytes) -> web.Response:
    """The answer of a page that can be asked for again: 304 where it is known."""
    known = _is_known(request, body)
    answer = web.Response(status=304) if known else _json(body, 200)
    answer.headers["ETag"] = _etag(body)
    answer.headers["Cache-Control"] = "private, no-cache"
    return answer


def _json(body: bytes, status: int) -> web.Response:
    return web.Response(
        body=body,
        status=status,
        content_type=openapi.JSON,
        headers={"Cache-Control": "no-store"},
    )


def _problem(refused: Refused) -> web.Response:
    headers, body = problem.render(refused.refusal())
    answer = web.Response(status=refused.status, body=body)
    answer.headers.popall("Content-Type", None)
    for name, value in headers:
        answer.headers.add(name, value)
    if refused.status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer
