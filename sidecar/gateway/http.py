"""The gateway over HTTP: ``/<upstream>/<path>``, ``http://<authority>/<path>`` as a forward proxy,
or ``POST /v1/actions`` in; the tool's answer or a problem out.

**Rules**
1. Only the raw target counts; nothing decoded or rebuilt by the server library is ever used.
2. A request that two readers could take apart differently is refused and its connection closed:
   a deciding header twice or spelt with ``_``, a transfer coding other than ``chunked``, a coded
   body, another form of target, a Host that is none. No tunnel is made. What comes after it on
   the connection is not read.
3. ``100 Continue`` is sent only when credential, size and framing are good, and to HTTP/1.1 alone.
4. The body is read whole, up to ``body_bytes_max``, before anything else happens; what is too large
   for memory is on disk while its call lasts (``spool``).
5. A caller that goes away does not stop its call.
6. Events are passed on as they come, with comments where the tool is silent.
7. What no handler answers, and how long a caller is waited for: ``listen.http``.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import overload

from aiohttp import HttpVersion11, web
from msgspec import structs

from processors.model.principal import Presented, Principal
from sidecar.errors import StoreUnavailable
from sidecar.gateway import response
from sidecar.gateway.asked.http import send_events
from sidecar.gateway.authz.evaluation import as_authzen
from sidecar.gateway.authz.http import CONFIGURATION, Authzen, configuration
from sidecar.gateway.content import OWS
from sidecar.gateway.driver import Gateway
from sidecar.gateway.explicit import explicit_request
from sidecar.gateway.forward import CHALLENGE, CREDENTIAL, below, credential, read_absolute
from sidecar.gateway.outcome import store_failed
from sidecar.gateway.problem import Refused
from sidecar.gateway.request import ToolReply, ToolRequest, episode_token, preferences
from sidecar.gateway.resource import METADATA, audiences, challenge, metadata
from sidecar.gateway.rpc.http import Asked
from sidecar.gateway.rpc.mcp import McpWire
from sidecar.gateway.spelling import for_upstream, wants_authzen
from sidecar.gateway.spool.files import MEMORY_BYTES_MAX, Spooled, Spools
from sidecar.gateway.stream.http import AgentStream
from sidecar.identity.client import certificate_of
from sidecar.identity.driver import Authenticate
from sidecar.identity.keys import ProviderUnavailable, Unauthenticated
from sidecar.identity.roles import Forbidden, require
from sidecar.listen.address import split_address
from sidecar.listen.fault import ConnectionLimits
from sidecar.listen.files import Certificate
from sidecar.listen.http import Listener, Manners
from sidecar.telemetry import Faults, cannot_listen

Headers = tuple[tuple[str, str], ...]

_HOST = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?\Z")
_CALL = re.compile(r"/v1/calls/([A-Za-z0-9_-]{1,64})\Z")
_APPROVAL = re.compile(r"/v1/approvals/([A-Za-z0-9_-]{1,64})\Z")
_EVENTS = re.compile(r"/v1/approvals/([A-Za-z0-9_-]{1,64})/events\Z")
_MCP = re.compile(r"/mcp/([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z")
_TARGET = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.-]{0,63})(/.*)\Z", re.DOTALL)
_ONCE = frozenset(
    {
        *("authorization", "content-length", "content-type", "transfer-encoding", "host"),
        *("idempotency-key", "approval-token", "expect", "content-encoding"),
        "proxy-authorization",
    }
)
_RARE = frozenset({"transfer-encoding", "content-encoding", "expect", "upgrade"})
"""What may only say one thing, and mostly is not there at all."""
_PROXY_AUTHENTICATION = 407
_BODILESS = frozenset({204, 304})
_NO_PROXY = (
    "this gateway is no forward proxy for what is no upstream of its configuration: name the host "
    "of anything else, such as a model on plain HTTP, in NO_PROXY"
)
_NO_CREDENTIAL = (
    "send the agent's key as Proxy-Authorization: Bearer <key>, or as the password in the proxy's "
    "address, http://agent:<key>@<gateway>"
)
_NO_TUNNEL = (
    "no tunnel is made: nobody could judge what goes through it; call tools on plain HTTP by this "
    "proxy, or at <the gateway's URL>/<upstream>/<path>"
)
KEEP_ALIVE_SECONDS = 15.0
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})


class GatewayServer:
    """Serves one Gateway. ``start``, then ``port``; ``stop`` is safe without start and twice."""

    def __init__(
        self,
        gateway: Gateway,
        authenticate: Authenticate,
        *,
        listen: str = "127.0.0.1:4319",
        body_bytes_max: int = 1024**2,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 - frozen
        tls: Certificate | None = None,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
        mcp: McpWire | None = None,
        resource: str = "",
        issuers: Sequence[str] = (),
        spools: Spools | None = None,
        authzen: Authzen | None = None,
    ) -> None:
        self._gateway = gateway
        self._authenticate = authenticate
        self._address = split_address(listen)
        self._body_bytes_max = body_bytes_max
        self._keep_alive_seconds = keep_alive_seconds
        self._mcp = mcp
        self._spools = spools
        self._authzen = authzen
        self._resource = resource
        self._issuers = issuers
        self._take_seconds = limits.answer_seconds
        manners = Manners(record=Faults("gateway").record, limits=limits, tls=tls)
        self._listener = Listener(self._handle, *self._address, manners)

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listener.port

    async def start(self) -> None:
        """Bind and serve. Raises SidecarError when the address is taken."""
        try:
            await self._listener.start()
        except OSError as error:
            raise cannot_listen("gateway.listen", *self._address, error) from None

    async def stop(self) -> None:
        """Stop taking calls, wait for those on their way; who waits for a person is parked."""
        self._gateway.drain()
        await self._listener.stop()
        await self._gateway.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path == "/healthz" and request.method in ("GET", "HEAD"):
            return web.Response(text="ok\n")
        if request.raw_path.startswith((METADATA, CONFIGURATION)) and request.method in (
            "GET",
            "HEAD",
        ):
            return self._metadata(request)
        try:
            headers = framed(request)
        except Refused as error:
            return _rendered(response.refused(error.refusal(), "", ""), request, close=True)
        try:
            principal = await self._principal(request, headers)
            if (events := _EVENTS.match(request.raw_path)) and request.method == "GET":
                return await self._events(request, headers, events[1])
            return await self._answered(request, headers, principal)
        except (Refused, StoreUnavailable) as error:
            refusal = error.refusal() if isinstance(error, Refused) else store_failed()
            reply = response.refused(refusal, "", "")
            answer = _rendered(reply, request, close=not request.content.at_eof())
            if refusal.code == "unauthenticated" and reply.status == 401:
                shown = "authorization" in request.headers
                asked = challenge(self._resource, request.raw_path, shown=shown)
                answer.headers["WWW-Authenticate"] = asked
            return answer

    def _metadata(self, request: web.BaseRequest) -> web.Response:
        """Where clients get tokens (RFC 9728); nobody has to be known for that."""
        found = metadata(self._resource, request.raw_path, self._issuers)
        if request.raw_path == CONFIGURATION and self._resource and self._authzen is not None:
            found = configuration(self._resource)
        if found is None:
            refused = Refused(404, "no_such_page", "nothing is said of such a resource")
            reply = response.refused(refused.refusal(), "", "")
            return _rendered(reply, request, close=False)
        return web.json_response(found, headers={"Cache-Control": "max-age=300"})

    async def _answered(
        self, request: web.BaseRequest, headers: Headers, principal: Principal
    ) -> web.StreamResponse:
        named = _MCP.match(request.raw_path)
        if self._mcp is not None and named is not None:
            asked = Asked(
                method=request.method,
                headers=headers,
                body=await self._body(request, headers),
                principal=principal,
                client_ip=request.remote,
                open_stream=partial(self._stream, request),
                known=partial(self._principal, request, headers),
            )
            return await self._mcp.answer(self._gateway, named[1], asked)
        stream = self._stream(request)
        accept = _one(headers, "accept", "")
        authzen = "authzen" in accept.lower() and wants_authzen(accept)
        if authzen:  # it is the gateway's own form: no tool is asked for it, nor is it hashed
            kept = for_upstream(accept)
            headers = (
                *(pair for pair in headers if pair[0].lower() != "accept"),
                *((("accept", kept),) if kept else ()),
            )
        try:
            reply = await self._reply(request, headers, principal, stream)
            reply = as_authzen(reply) if authzen else reply
        finally:
            await stream.stop()
        if stream.begun:
            return await stream.end(whole=reply.streamed)
        return _rendered(reply, request, close=False)

    def _stream(self, request: web.BaseRequest) -> AgentStream:
        return AgentStream(
            request,
            keep_alive_seconds=self._keep_alive_seconds,
            take_seconds=self._take_seconds,
        )

    async def _reply(
        self,
        request: web.BaseRequest,
        headers: Headers,
        principal: Principal,
        stream: AgentStream,
    ) -> ToolReply:
        if request.raw_path == "/v1/actions" and request.method == "POST":
            body = await self._body(request, headers)
            try:
                asked = explicit_request(body, headers, self._gateway.registry)
            except Refused as refused:
                asked = _nowhere(refused)
            asked = structs.replace(asked, client_ip=request.remote)
            if self._mcp is not None and asked.upstream in self._gateway.registry.servers:
                asked = await self._mcp.vouched(self._gateway.registry, asked)
            return await self._gateway.call(asked, principal, stream)
        if self._authzen is not None and request.raw_path.startswith("/access/"):
            if request.method != "POST":
                raise Refused(405, "method_refused", "an evaluation is a POST")
            body = await self._body(request, headers)
            return await self._authzen.reply(request.raw_path, body, principal)
        if request.raw_path.startswith("/v1/"):
            durable = _CALL.match(request.raw_path)
            if durable is not None and request.method == "GET":
                return self._gateway.queued(durable[1], principal)
            match = _APPROVAL.match(request.raw_path)
            if match is None or request.method != "GET":
                raise Refused(
                    *(404, "no_such_page"),
                    "there are POST /v1/actions, GET /v1/approvals/{id} and GET /v1/calls/{id}",
                )
            known = partial(self._principal, request, headers)
            return await self._gateway.approval(match[1], known, preferences(headers).wait_s)
        try:
            upstream, raw_path = self._target(request, headers)
            if upstream in self._gateway.registry.servers:
                said = f"{upstream!r} is an MCP server: it is at /mcp/{upstream}"
                raise Refused(404, "no_such_upstream", said)
        except Refused as refused:
            return await self._gateway.call(_nowhere(refused), principal)
        came = await self._any_body(request, headers)
        call = ToolRequest(
            upstream=upstream,
            method=request.method,
            raw_path=raw_path,
            headers=headers,
            body=came if isinstance(came, bytes) else b"",
            upload=None if isinstance(came, bytes) else came,
            client_ip=request.remote,
        )
        return await self._gateway.call(call, principal, stream)

    def _target(self, request: web.BaseRequest, headers: Headers) -> tuple[str, str]:
        """The upstream a request is for, and the raw path below it. Raises Refused."""
        if not request.raw_path.startswith("/"):
            absolute = read_absolute(request.raw_path, _one(headers, "host", ""))
            targets = (each.target for each in self._gateway.registry.upstreams.values())
            found = below(absolute, targets)
            if found is None:
                raise Refused(404, "no_such_upstream", _NO_PROXY)
            return found
        target = _TARGET.match(request.raw_path)
        if target is None:
            raise Refused(404, "no_such_upstream", "the path is /<upstream>/<path of the tool>")
        return target[1], target[2]

    async def _events(
        self, request: web.BaseRequest, headers: Headers, approval_id: str
    ) -> web.StreamResponse:
        known = partial(self._principal, request, headers)
        changes = self._gateway.asked.changes(approval_id, known, self._keep_alive_seconds)
        return await send_events(request, changes, "approval", seconds=self._take_seconds)

    async def _principal(self, request: web.BaseRequest, headers: Headers) -> Principal:
        forwarded = not request.raw_path.startswith("/")
        shown = _one(headers, CREDENTIAL if forwarded else "authorization")
        presented = Presented(
            authorization=credential(shown) if forwarded else shown,
            certificate=certificate_of(request),
            audiences=audiences(self._resource, request.raw_path),
        )
        carried = episode_token(headers) if self._gateway.mode == "twin" else None
        try:
            principal = await self._known(presented, carried)
            require(principal, "tools.call")
        except Unauthenticated as error:
            if forwarded:
                raise Refused(407, "unauthenticated", _NO_CREDENTIAL) from None
            raise Refused(401, "unauthenticated", str(error)) from None
        except Forbidden as error:
            raise Refused(403, "forbidden", str(error)) from None
        except ProviderUnavailable:
            said = "the identity provider cannot be asked now, so the call was not made"
            raise Refused(
                503, "identity_unavailable", said, next_action="retry", retry_after=5
            ) from None
        return principal

    async def _known(self, presented: Presented, carried: str | None) -> Principal:
        """Who calls: in twin mode the episode whose token is the credential, else the one that
        ``baggage`` carries; an agent's own key of production says nothing here.

        Raises Unauthenticated, ProviderUnavailable.
        """
        episode = Presented(authorization=f"Bearer {carried}")
        try:
            principal = await self._authenticate(presented)
        except Unauthenticated:
            if carried is None:
                raise
            return await self._authenticate(episode)
        if carried is not None and principal.kind != "episode":
            return await self._authenticate(episode)
        return principal

    async def _any_body(self, request: web.BaseRequest, headers: Headers) -> bytes | Spooled:
        """The body of a call, on disk where it is too large for memory. Raises Refused."""
        memory = self._spools.memory_bytes_max if self._spools is not None else MEMORY_BYTES_MAX
        if self._body_bytes_max <= memory:
            return await self._body(request, headers)
        await self._expected(request, headers)
        if request.content.at_eof():
            return b""
        begun, chunks = bytearray(), request.content.iter_any()
        async for chunk in chunks:
            begun += chunk
            if len(begun) <= memory:
                continue
            if self._spools is None:
                raise _not_kept(memory, chunked=_one(headers, "content-length") is None)
            kind = _one(headers, "content-type", "")
            return await self._spools.take(bytes(begun), chunks, kind, self._body_bytes_max)
        return bytes(begun)

    async def _body(self, request: web.BaseRequest, headers: Headers) -> bytes:
        await self._expected(request, headers)
        if request.content.at_eof():
            return b""
        most = min(self._body_bytes_max, MEMORY_BYTES_MAX)
        received = bytearray()
        async for chunk in request.content.iter_any():
            received += chunk
            if len(received) > most:
                raise self._too_large(most)
        return bytes(received)

    async def _expected(self, request: web.BaseRequest, headers: Headers) -> None:
        """Let a body come whose length is within bounds. Raises Refused."""
        declared = _one(headers, "content-length")
        if declared is not None and int(declared) > self._body_bytes_max:
            raise self._too_large(self._body_bytes_max)
        if _one(headers, "expect") is not None and request.version >= HttpVersion11:
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0

    @staticmethod
    def _too_large(most: int) -> Refused:
        return Refused(413, "body_too_large", f"the body is larger than {most} bytes")


def _not_kept(memory: int, *, chunked: bool) -> Refused:
    """Why a large body is not taken where there is no place to keep it."""
    if chunked:
        said = f"say how long the body is: more than {memory} bytes are not taken otherwise"
        return Refused(411, "length_required", said)
    return Refused(413, "body_too_large", f"more than {memory} bytes are not taken here")


def _nowhere(refused: Refused) -> ToolRequest:
    """A request that is for no tool: it leaves a receipt as every other does."""
    return ToolRequest(upstream="", method="POST", raw_path="/", refusal=refused.refusal())


def framed(request: web.BaseRequest) -> Headers:
    """The request's headers, when only one reading of the request is possible. Raises Refused."""
    if request.method == "CONNECT":
        raise Refused(405, "connect_refused", _NO_TUNNEL)
    if request.method not in _METHODS:
        raise Refused(405, "method_refused", f"{request.method} is not served here")
    if not request.raw_path.startswith("/") and "://" not in request.raw_path:
        said = "send the target as a path, /<upstream>/<path>, or as http://host[:port]/path"
        raise Refused(400, "target_form", said)
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers
    )
    names = _checked_names(headers)
    if not _HOST.match(_one(headers, "host", "")):
        raise Refused(400, "host_malformed", "the Host header is missing or malformed")
    if names.isdisjoint(_RARE):
        return headers
    if (_one(headers, "transfer-encoding", "chunked")).lower() != "chunked":
        raise Refused(400, "transfer_encoding", "no transfer coding but chunked is taken")
    if (_one(headers, "content-encoding", "identity")).lower() != "identity":
        raise Refused(415, "content_encoding", "send the body with no Content-Encoding")
    if (_one(headers, "expect", "100-continue")).lower() != "100-continue":
        raise Refused(417, "expectation_failed", "no expectation but 100-continue is met")
    if _one(headers, "upgrade") is not None:
        raise Refused(400, "upgrade_refused", "no protocol upgrade is served here")
    return headers


def _checked_names(headers: Headers) -> set[str]:
    seen: set[str] = set()
    for name, _ in headers:
        lowered = name.lower()
        if "_" in name and lowered.replace("_", "-") in _ONCE | response.OURS:
            raise Refused(400, "header_ambiguous", f"the header {name} is spelt with _")
        if lowered in seen and lowered in _ONCE:
            raise Refused(400, "header_repeated", f"the header {lowered} stands twice")
        seen.add(lowered)
    return seen


@overload
def _one(headers: Headers, name: str) -> str | None: ...
@overload
def _one(headers: Headers, name: str, absent: str) -> str: ...
def _one(headers: Headers, name: str, absent: str | None = None) -> str | None:
    """A header's value; what stands there empty is not absent."""
    for key, value in headers:
        if key.lower() == name:
            return value.strip(OWS)
    return absent


def _rendered(reply: ToolReply, request: web.BaseRequest, *, close: bool) -> web.Response:
    bodiless = request.method == "HEAD" or reply.status in _BODILESS
    answer = web.Response(status=reply.status, body=b"" if bodiless else reply.body)
    answer.headers.popall("Content-Type", None)
    for name, value in reply.headers:
        answer.headers.add(name, value)
    answer.headers["X-Content-Type-Options"] = "nosniff"
    if request.method == "HEAD" and reply.body:  # a tool's own length is not told
        answer.headers["Content-Length"] = str(len(reply.body))
    if reply.status == _PROXY_AUTHENTICATION:
        answer.headers["Proxy-Authenticate"] = CHALLENGE
    if close:
        answer.force_close()
    return answer
