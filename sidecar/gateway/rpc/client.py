"""The gateway's MCP servers: one attempt at a tool through egress, in the era the server speaks.

**Rules**
1. Nothing is sent for a tool whose definition is not the reviewed one, as its server says it now.
2. The arguments leave as the bytes that were hashed; what stands around them, and every header, is
   made here anew.
3. A result is a success only where the tool says so: ``isError`` may have had an effect. A refusal
   of the protocol (unknown tool, bad parameters) has had none.
4. A read that nobody waits for any more is given up: a server of before 2026-07-28 is told so, one
   of it sees its stream close. What may have an effect is never cancelled.
5. A server's own requests (sampling, roots, elicitation) are refused; what it tells beside the
   answer is passed on for this call only, at a bounded rate.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from sidecar.clock import monotonic_ns
from sidecar.egress.client import Egress, EgressFailed, EgressReply, Take
from sidecar.gateway.client import told, with_credential
from sidecar.gateway.config import Upstream
from sidecar.gateway.native import header_of
from sidecar.gateway.protocol import CALL, COMPLETE, asked_of, method_of
from sidecar.gateway.registry import Registry
from sidecar.gateway.rpc import head, message
from sidecar.gateway.rpc.answer import Said, outcome, read_said
from sidecar.gateway.rpc.beside import Listing, fits
from sidecar.gateway.rpc.driver import Catalogue, standing
from sidecar.gateway.rpc.events import Events
from sidecar.gateway.rpc.wanted import ACKNOWLEDGED, KINDS, UPDATED
from sidecar.gateway.stream.boundary import is_events
from sidecar.gateway.upstream import (
    Audience,
    Headers,
    UpstreamFailed,
    UpstreamReply,
    UpstreamRequest,
)
from sidecar.telemetry import DROPPED, log

_LOG = log("gateway")
_LIST_NS = 10_000_000_000
_GIVE_UP_NS = 2_000_000_000
_PAGES_MAX, _TOOLS_MAX = 100, 2000
_TOLD_MAX = 20
_SECOND_NS = 1_000_000_000
_INFO = {"name": "agenttwin-sidecar", "version": "1"}
_JSON = ("content-type", "application/json")
_ACCEPT = ("accept", "application/json, text/event-stream")
_WANTS_SESSION = frozenset({400, 404, 405, 406, 415, 422})
_CHANGED = {
    f"notifications/{kind}/list_changed": kind for kind in ("tools", "resources", "prompts")
}
CHANGES = frozenset({*KINDS, UPDATED, ACKNOWLEDGED})
_PROGRESS = "notifications/progress"
_TOLD = frozenset({_PROGRESS, "notifications/message"})


Tell = Callable[[Said], Awaitable[bool]]
"""Told of a change; says True once it has enough."""


class _Session(Struct, frozen=True):
    """How a server of before 2026-07-28 is spoken to."""

    headers: Headers


class _Asking(Struct, frozen=True, kw_only=True):
    """One request of a server: its method, what its headers name, and the arguments' schema."""

    method: str
    name: str
    schema: Any


class McpUpstreams:
    """Implements the port ``Upstreams`` for MCP servers, and knows what they define."""

    def __init__(self, registry: Registry, egress: Egress, refresh_ns: Mapping[str, int]) -> None:
        self._registry = registry
        self._egress = egress
        self._servers = {name: registry.upstreams[name] for name in refresh_ns}
        self.catalogue = Catalogue(self.fetch, refresh_ns)
        self._numbers = itertools.count(1)
        self._refresh_ns = refresh_ns
        self._lists: dict[tuple[str, str], tuple[int, list[Any]]] = {}
        self._modern: dict[str, bool] = {}
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._giving_up: set[asyncio.Task[EgressReply]] = set()

    @property
    def servers(self) -> Mapping[str, Upstream]:
        """The servers by name."""
        return self._servers

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The answer to one attempt at a tool. Raises UpstreamFailed."""
        server = self._servers[request.upstream]
        ends_ns = monotonic_ns() + request.timeout_ns
        try:
            asked = await self._asked(server, request)
        except UpstreamFailed as error:
            raise UpstreamFailed(False, error.reason) from error
        exchange = _Exchange(next(self._numbers), request.call_id, request.audience)
        sent = await self._call(server, request, asked, exchange, ends_ns)
        self._heed(server.name, exchange.changed)
        return sent

    async def _asked(self, server: Upstream, request: UpstreamRequest) -> "_Asking":
        """What an attempt asks of its server. Raises UpstreamFailed where it may not."""
        tool = self._registry.tools[request.tool].config
        method, name = method_of(tool.match), tool.match.tool
        if method != CALL:
            if not fits(tool.match, request.arguments):
                raise UpstreamFailed(False, f"{server.name}: {tool.name} is for others than this")
            await self.speaks_modern(server.name)
            said = asked_of(tool.match, request.arguments) or {}
            named = "" if method == COMPLETE else said.get("uri", said.get("name", ""))
            return _Asking(method=method, name=named, schema=None)
        found = await self.catalogue.definitions(server.name)
        if standing(server.name, name, tool.definition, found) != "pinned":
            raise UpstreamFailed(False, f"{server.name}: its definition is not the reviewed one")
        return _Asking(method=method, name=name, schema=found[name].get("inputSchema"))

    def _heed(self, server: str, changed: Iterable[str]) -> None:
        """What a server has said that is other now is asked for again."""
        for kind in changed:
            if kind == "tools":
                self.catalogue.expire(server)
            for key in [key for key in self._lists if key[0] == server and kind in key[1]]:
                del self._lists[key]

    async def _call(
        self,
        server: Upstream,
        request: UpstreamRequest,
        asked: "_Asking",
        exchange: "_Exchange",
        ends_ns: int,
    ) -> UpstreamReply:
        meta = self._meta(request)
        key = (server.name, request.tenant)
        if self._modern[server.name]:
            meta.update(_envelope())
            headers = head.mirror(asked.method, asked.name, asked.schema, request.arguments)
        else:
            try:
                headers = (await self._session(server, request.tenant, ends_ns)).headers
            except UpstreamFailed as error:  # the call itself has not been sent
                raise UpstreamFailed(False, error.reason) from error
        given = request.body or b"{}"
        if asked.method == CALL:
            body = message.call_request(exchange.number, asked.name, given, meta)
        else:
            body = message.reading_request(exchange.number, asked.method, given, meta)
        extra = tuple(pair for pair in request.headers if pair[0] in ("traceparent", "tracestate"))
        if request.idempotency_key is not None:
            field = header_of(self._registry.tools[request.tool].config.idempotency)
            extra = (*extra, (field, request.idempotency_key)) if field is not None else extra

        async def refuse(said: Said) -> None:
            await self._refuse(server, said, headers, ends_ns)

        exchange.refuse = refuse
        try:
            reply = await self._post(
                server,
                body,
                (*headers, *extra),
                ends_ns,
                exchange=exchange,
                reuse=request.class_ == "read",
                pool=request.tenant,
                bytes_max=request.response_bytes_max,
                addresses=request.addresses,
            )
        except (UpstreamFailed, asyncio.CancelledError):
            if request.class_ == "read" and not self._modern[server.name]:
                self._give_up(server, exchange.number, headers)
            raise
        if reply.status == 404 and not self._modern[server.name]:
            self._sessions.pop(key, None)  # it knows the session no more: the next call opens one
        return await self._read(server, reply, exchange)

    @staticmethod
    def _meta(request: UpstreamRequest) -> dict[str, Any]:
        meta: dict[str, Any] = {}
        if request.audience is not None:
            meta["progressToken"] = request.call_id
        if request.idempotency_key is not None:
            meta["agenttwin/idempotencyKey"] = request.idempotency_key
        for name, value in request.headers:
            if name in ("traceparent", "tracestate"):
                meta[name] = value
        return meta

    async def _read(
        self, server: Upstream, reply: EgressReply, exchange: "_Exchange"
    ) -> UpstreamReply:
        if not exchange.streams:
            exchange.see(reply.body)
        answer = exchange.answer
        if answer is None and reply.status < 400:
            raise UpstreamFailed(True, f"{server.name}: it gave no answer to the call")
        status, body = outcome(answer, reply.status)
        return UpstreamReply(status=status, headers=(_JSON,), body=body)

    def _give_up(self, server: Upstream, number: int, headers: Headers) -> None:
        """Tell a server that its answer is not wanted any more; whoever gave up does not wait."""
        cancelled = {"requestId": number, "reason": "the caller has gone"}
        body = message.notification("notifications/cancelled", cancelled)
        telling = self._post(server, body, headers, monotonic_ns() + _GIVE_UP_NS)
        task = asyncio.ensure_future(telling)
        self._giving_up.add(task)
        task.add_done_callback(self._given_up)

    def _given_up(self, task: asyncio.Task[EgressReply]) -> None:
        self._giving_up.discard(task)
        if not task.cancelled():
            task.exception()  # it was logged

    async def _refuse(self, server: Upstream, said: Said, headers: Headers, ends_ns: int) -> None:
        """Answer a request that the server makes of its client: nobody here may fulfil it."""
        assert said.id is not None and said.method is not None
        if said.method == "ping":
            body = message.result(said.id, b"{}")
        else:
            DROPPED.labels("mcp", "server_request").inc()
            what = f"{said.method[:60]} is not passed on by this gateway"
            body = message.error(said.id, message.METHOD_NOT_FOUND, what)
        try:
            await self._post(server, body, headers, ends_ns)
        except UpstreamFailed:
            pass  # it was logged; the call itself tells what came of it

    async def fetch(self, server: str) -> list[Any]:
        """All tools a server defines. Raises UpstreamFailed."""
        return await self._all(server, "tools/list", "tools")

    async def listed(self, server: str, listing: Listing) -> list[Any]:
        """What a server lists beside tools, asked for again once it is as old as its list of tools
        may get. Raises UpstreamFailed."""
        key, now_ns = (server, listing.method), monotonic_ns()
        known = self._lists.get(key)
        if known is None or known[0] + self._refresh_ns[server] <= now_ns:
            await self.speaks_modern(server)
            known = (now_ns, await self._all(server, listing.method, listing.member))
            self._lists[key] = known
        return known[1]

    async def speaks_modern(self, server: str) -> bool:
        """Whether a server speaks 2026-07-28. Raises UpstreamFailed."""
        if server not in self._modern:
            ends_ns = monotonic_ns() + _LIST_NS
            self._modern[server] = await self._discovers(self._servers[server], ends_ns)
        return self._modern[server]

    async def listen(self, server: str, wanted: dict[str, Any], told: Tell, seconds: float) -> None:
        """Pass on what a server of 2026-07-28 tells of changes, until it ends, has no time left or
        ``told`` says that it is enough. Raises UpstreamFailed."""
        number, ends_ns = next(self._numbers), monotonic_ns() + int(seconds * _SECOND_NS)

        async def heed(said: Said) -> bool:
            if (kind := _CHANGED.get(said.method or "")) is not None:
                self._heed(server, (kind,))
            return await told(said)

        method = "subscriptions/listen"
        body = message.request(number, method, {"notifications": wanted, "_meta": _envelope()})
        headers = head.mirror(method, "", None, {})
        exchange = _Exchange(number, "", None, heed)
        upstream = self._servers[server]
        try:
            await self._post(upstream, body, headers, ends_ns, exchange=exchange, reuse=False)
        except UpstreamFailed:
            if monotonic_ns() < ends_ns:
                raise

    async def _all(self, server: str, method: str, member: str) -> list[Any]:
        upstream = self._servers[server]
        ends_ns = monotonic_ns() + _LIST_NS
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_PAGES_MAX):
            page = await self._page(upstream, method, cursor, ends_ns)
            items = page.get(member)
            found += items if isinstance(items, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or len(found) > _TOOLS_MAX:
                break
        return found[:_TOOLS_MAX]

    async def _page(
        self, server: Upstream, method: str, cursor: str | None, ends_ns: int
    ) -> dict[str, Any]:
        asked: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        if self._modern.get(server.name, True):
            reply, found = await self._ask_modern(server, method, asked, ends_ns)
            if found is not None:
                self._modern[server.name] = True
                return found
            if server.name in self._modern or reply.status not in (*_WANTS_SESSION, 200):
                raise UpstreamFailed(True, f"{server.name}: it does not answer {method}")
        found = await self._page_in_session(server, method, asked, ends_ns)
        self._modern[server.name] = False
        return found

    async def _discovers(self, server: Upstream, ends_ns: int) -> bool:
        """Whether a server speaks 2026-07-28. Raises UpstreamFailed where it cannot be asked."""
        reply, found = await self._ask_modern(server, "server/discover", {}, ends_ns)
        if found is None and reply.status not in (*_WANTS_SESSION, 200):
            raise UpstreamFailed(True, f"{server.name}: it does not say which version it speaks")
        return found is not None and head.MODERN in found.get("supportedVersions", ())

    async def _ask_modern(
        self, server: Upstream, method: str, asked: dict[str, Any], ends_ns: int
    ) -> tuple[EgressReply, dict[str, Any] | None]:
        number = next(self._numbers)
        body = message.request(number, method, {**asked, "_meta": _envelope()})
        headers = head.mirror(method, "", None, {})
        return await self._ask(server, body, headers, number, ends_ns)

    async def _page_in_session(
        self, server: Upstream, method: str, asked: dict[str, Any], ends_ns: int
    ) -> dict[str, Any]:
        for _ in range(2):  # once more where the session is no longer known
            session = await self._session(server, "", ends_ns)
            number = next(self._numbers)
            body = message.request(number, method, asked)
            reply, found = await self._ask(server, body, session.headers, number, ends_ns)
            if found is not None:
                return found
            self._sessions.pop((server.name, ""), None)
            if reply.status != 404:
                break
        raise UpstreamFailed(True, f"{server.name}: it does not answer {method}")

    async def _session(self, server: Upstream, tenant: str, ends_ns: int) -> _Session:
        """The session of a tenant with a server, opened where there is none."""
        known = self._sessions.get((server.name, tenant))
        if known is not None:
            return known
        number = next(self._numbers)
        params = {
            "protocolVersion": head.SESSION_VERSIONS[-1],
            "capabilities": {},
            "clientInfo": _INFO,
        }
        body = message.request(number, "initialize", params)
        reply, opened = await self._ask(server, body, (), number, ends_ns)
        version = opened.get("protocolVersion") if opened else None
        if not isinstance(version, str) or not version.isascii() or not version.isprintable():
            raise UpstreamFailed(True, f"{server.name}: it opens no session")
        headers: Headers = ((head.VERSION, version),)
        identity = dict(reply.headers).get("mcp-session-id")
        if identity is not None:
            headers = (*headers, ("mcp-session-id", identity))
        notice = message.notification("notifications/initialized", {})
        await self._post(server, notice, headers, ends_ns)
        session = _Session(headers)
        self._sessions[(server.name, tenant)] = session
        return session

    async def _ask(
        self, server: Upstream, body: bytes, headers: Headers, number: int, ends_ns: int
    ) -> tuple[EgressReply, dict[str, Any] | None]:
        exchange = _Exchange(number, "", None)
        reply = await self._post(server, body, headers, ends_ns, exchange=exchange)
        if not exchange.streams:
            exchange.see(reply.body)
        answer = exchange.answer
        if reply.status != 200 or answer is None or answer.error is not None:
            return reply, None
        try:
            found = msgspec.json.decode(bytes(answer.result))
        except msgspec.DecodeError:
            return reply, None
        return reply, found if isinstance(found, dict) else None

    async def _post(
        self,
        server: Upstream,
        body: bytes,
        headers: Headers,
        ends_ns: int,
        *,
        exchange: "_Exchange | None" = None,
        reuse: bool = True,
        pool: str = "",
        bytes_max: int | None = None,
        addresses: tuple[str, ...] | None = None,
    ) -> EgressReply:
        try:
            return await self._egress.request(
                server.target,
                "POST",
                "",
                with_credential(server, (_JSON, _ACCEPT, *headers)),
                body,
                deadline_ns=max(1, ends_ns - monotonic_ns()),
                reuse=reuse,
                pool=pool,
                begin=exchange.begin if exchange is not None else None,
                bytes_max=bytes_max,
                addresses=addresses,
            )
        except EgressFailed as error:
            _LOG.warning("mcp server failed", server=server.name, reason=error.reason)
            raise UpstreamFailed(error.sent, f"{server.name}: {told(error)}") from error


class _Exchange:
    """What comes back for one request: its answer, and what is told beside it."""

    def __init__(
        self, number: int, token: str, audience: Audience | None, told: Tell | None = None
    ) -> None:
        self.number = number
        self._told_of = told
        self.answer: Said | None = None
        self.streams = False
        self.changed: set[str] = set()
        self.refuse: Callable[[Said], Awaitable[None]] | None = None
        self._token = token
        self._audience = audience
        self._events = Events()
        self._second_ns = self._told = 0

    async def begin(self, _status: int, headers: Headers) -> Take | None:
        """Take the head: events are read as they come, another answer when it is whole."""
        kind = next((value for name, value in headers if name == "content-type"), "")
        self.streams = is_events(kind)
        return self._take if self.streams else None

    def see(self, body: bytes) -> None:
        """Take the answer of a body that is no stream."""
        said = read_said(body)
        if said is not None and said.answers and said.id in (self.number, None):
            self.answer = said

    async def _take(self, chunk: bytes) -> bool:
        """Take a part of a stream; whether the answer is there."""
        for data in self._events.feed(chunk):
            said = read_said(data)
            if said is None:
                continue
            if said.answers:
                if said.id == self.number:
                    self.answer = said
                    return True
            elif said.id is not None:
                if self.refuse is not None and said.method is not None:
                    await self.refuse(said)
            elif self._told_of is None:
                await self._tell(said)
            elif said.method in CHANGES and await self._told_of(said):
                return True
        return False

    async def _tell(self, said: Said) -> None:
        if (kind := _CHANGED.get(said.method or "")) is not None:
            self.changed.add(kind)
        if self._audience is None or said.method not in _TOLD:
            return
        if said.method == _PROGRESS and said.params.get("progressToken") != self._token:
            DROPPED.labels("mcp", "another_token").inc()
            return
        now_ns = monotonic_ns()
        if now_ns - self._second_ns > _SECOND_NS:
            self._second_ns, self._told = now_ns, 0
        self._told += 1
        if self._told > _TOLD_MAX:
            DROPPED.labels("mcp", "too_many").inc()
            return
        await self._audience.take(message.notification(said.method, said.params))


def _envelope() -> dict[str, Any]:
    return {
        head.VERSION_META: head.MODERN,
        head.INFO_META: _INFO,
        head.CAPABILITIES_META: {},
    }
