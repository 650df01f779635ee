"""Egress: the only way out of the process. Resolve, vet, pin, dial, and tell what may have been
sent.

**Rules**
1. Names are resolved here, every answer is vetted, and the vetted literal is dialled with Host and
   SNI kept: there is no second resolution that could answer differently.
2. One request is one attempt at most: no redirects, no proxies from the environment, no cookies,
   and aiohttp's silent second try of a dropped connection is off. Another *address* is tried only
   while nothing was sent.
3. ``EgressFailed.sent`` is false only where no connection was made. From then on a byte may have
   left.
4. ``reuse`` false dials anew and closes after; pooled connections are for reads and belong to one
   target and one ``pool`` of it. One that speaks before it is asked is hung up on: what it says is
   no answer to whoever asks next.
5. A reply is whole and within its size, or a failure; so is one of another version than HTTP/1, or
   of a transfer coding but ``chunked``. Bodies are handed on as they came, undecoded.
6. The sidecar's own ports on this machine are never dialled.
7. An upstream may say "wait" (1xx) a few times; one that goes on saying it is hung up on, before
   its words fill memory or keep the loop. So is one whose framing outweighs its body.
"""

import asyncio
import functools
import io
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader
from msgspec import Struct
from yarl import URL

from sidecar.clock import monotonic_ns
from sidecar.egress.rules import Endpoint, LeadsBack, Target, TargetRefused, read_target, vet

Headers = Sequence[tuple[str, str]]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Take = Callable[[bytes], Awaitable[object]]
Begin = Callable[[int, tuple[tuple[str, str], ...]], Awaitable[Take | None]]
"""Told the head of an answer; what it returns is given the body as it comes, and says True once it
has enough; None wants it whole. Neither may raise."""

INTERIM_MAX = 8
"""1xx answers that may come before the real one."""
RESPONSE_BYTES_MAX = 8 * 1024**2
_FRAMING_BYTES_MAX = 1024**2
"""What the framing of an answer may take beside eight times the answer."""
_WRITTEN_AT_ONCE_MAX = 256 * 1024
_VERSIONS = frozenset({aiohttp.HttpVersion10, aiohttp.HttpVersion11})
_KEEPALIVE_SECONDS = (
    2.0  # below what servers usually grant, so that a pooled connection is rarely dead
)
_SKIPPED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class EgressReply(Struct, frozen=True, kw_only=True):
    """A whole answer. Header names are lower-case; ``address`` is the literal that was dialled."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    address: str


class EgressFailed(Exception):
    """No whole answer; ``sent`` says whether a byte of the request may have left."""

    def __init__(self, sent: bool, reason: str) -> None:
        self.sent = sent
        self.reason = reason
        super().__init__(reason)


class _Progress:
    """What is known of one attempt while it runs; aiohttp's tracing writes it."""

    def __init__(self) -> None:
        self.connected = False


class Egress:
    """Requests to targets. Make it anywhere, use it in one event loop, ``close`` it at the end.

    ``own_ports``: ports of this sidecar, refused on any address of this machine. ``resolve`` and
    ``tls`` replace the system's resolver and the default verification, ``tls_of`` that of targets
    by name.
    """

    def __init__(
        self,
        *,
        own_ports: Set[int] = frozenset(),
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
        tls_of: Mapping[str, ssl.SSLContext] | None = None,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self._own_ports = own_ports
        self._resolve = resolve or system_resolve
        self._tls = tls
        self._tls_of = tls_of or {}
        self._response_bytes_max = response_bytes_max
        self._pools: dict[tuple[str, str, str], aiohttp.ClientSession] = {}
        self._fresh: aiohttp.ClientSession | None = None

    async def request(
        self,
        target: Target,
        method: str,
        path_query: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        deadline_ns: int,
        reuse: bool = False,
        pool: str = "",
        begin: Begin | None = None,
        bytes_max: int | None = None,
        addresses: Sequence[str] | None = None,
    ) -> EgressReply:
        """One attempt at ``target``. ``path_query`` is canonical and sent as it is, below the
        target's path. With ``reuse``, over a connection that only this ``pool`` has used.

        ``deadline_ns`` bounds everything from resolution to the last byte, ``bytes_max`` the
        answer where it is less than the egress takes. ``addresses``: those that ``vetted`` gave
        for this request, which are dialled and no others. Raises EgressFailed.
        """
        largest = min(self._response_bytes_max, bytes_max or self._response_bytes_max)
        ends_ns = monotonic_ns() + deadline_ns
        try:
            endpoint = read_target(target)
            if addresses is None:
                addresses = await self._addresses(endpoint, deadline_ns)
        except TargetRefused as error:
            raise EgressFailed(False, str(error)) from error
        session = self._session(endpoint, reuse, pool)
        failure = EgressFailed(False, f"{target.name}: the deadline passed before a connection")
        for address in addresses:
            left_ns = ends_ns - monotonic_ns()
            if left_ns <= 0:
                break
            dial = _Dial(
                endpoint, address, method, path_query, headers, body, left_ns, begin, largest
            )
            try:
                return await self._attempt(session, dial)
            except EgressFailed as error:
                failure = error
                if error.sent:
                    break
        raise failure

    async def vetted(self, target: Target, *, deadline_ns: int) -> tuple[Endpoint, tuple[str, ...]]:
        """The target and the addresses it may be dialled at, for a wire that dials itself.

        Raises TargetRefused; LeadsBack where it is a port of ours.
        """
        endpoint = read_target(target)
        return endpoint, await self._addresses(endpoint, deadline_ns)

    async def close(self) -> None:
        """Close every connection. Safe twice, and without use."""
        sessions = [*self._pools.values(), *([self._fresh] if self._fresh else [])]
        self._pools, self._fresh = {}, None
        for session in sessions:
            await session.close()

    async def _addresses(self, endpoint: Endpoint, deadline_ns: int) -> tuple[str, ...]:
        if endpoint.literal:
            answers: Sequence[str] = (endpoint.host,)
        else:
            try:
                async with asyncio.timeout(deadline_ns / 1e9):
                    answers = await self._resolve(endpoint.host, endpoint.port)
            except (OSError, UnicodeError) as error:
                raise TargetRefused(
                    f"{endpoint.name}: {endpoint.host} does not resolve: {error}"
                ) from error
        addresses = vet(endpoint, answers)
        if endpoint.port in self._own_ports and any(map(_is_local, addresses)):
            raise LeadsBack(f"{endpoint.name}: port {endpoint.port} is the sidecar's own")
        return addresses

    def _session(self, endpoint: Endpoint, reuse: bool, pool: str) -> aiohttp.ClientSession:
        if not reuse:
            if self._fresh is None:
                self._fresh = _open_session(_Connector(force_close=True, limit=0))
            return self._fresh
        key = (endpoint.name, f"{endpoint.scheme}://{endpoint.authority}", pool)
        if key not in self._pools:
            self._pools[key] = _open_session(
                _Connector(keepalive_timeout=_KEEPALIVE_SECONDS, limit=0)
            )
        return self._pools[key]

    async def _attempt(self, session: aiohttp.ClientSession, dial: "_Dial") -> EgressReply:
        progress = _Progress()
        try:
            async with session.request(
                dial.method,
                dial.url,
                headers=dial.wire_headers,
                data=dial.data,
                ssl=self._tls_of.get(dial.endpoint.name) or self._tls or True,
                server_hostname=dial.endpoint.host if dial.endpoint.scheme == "https" else None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=dial.left_ns / 1e9),
                trace_request_ctx=progress,
            ) as response:
                return await self._read(response, dial)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = _reason(error, progress)
            raise EgressFailed(progress.connected, f"{dial.endpoint.name}: {reason}") from error

    async def _read(self, response: aiohttp.ClientResponse, dial: "_Dial") -> EgressReply:
        headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in response.raw_headers
        )
        if why := _misframed(response, headers):
            raise EgressFailed(True, f"{dial.endpoint.name}: {why}")
        take = await dial.begin(response.status, headers) if dial.begin else None
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > dial.bytes_max:
                response.close()
                raise EgressFailed(
                    True, f"{dial.endpoint.name}: the answer exceeds {dial.bytes_max} bytes"
                )
            if take is not None and await take(chunk):
                response.close()
                break
        return EgressReply(
            status=response.status,
            headers=headers,
            body=bytes(body),
            address=dial.address,
        )


class _Connection(ResponseHandler):
    """aiohttp's, which queues what comes however much it is and however little of it is wanted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._interim = 0
        self._owed = False
        self._wire_bytes = 0

    def set_response_params(self, **given: Any) -> None:
        """A request is about to be sent."""
        self._owed, self._wire_bytes = True, 0
        super().set_response_params(**given)

    def data_received(self, data: bytes) -> None:
        if self._interim > INTERIM_MAX:
            return
        if data and not self._owed and (self._payload is None or self._payload.is_eof()):
            self._hang_up("it spoke before it was asked")
            return
        super().data_received(data)
        self._wire_bytes += len(data)
        body = self._payload
        if body is None or body.is_eof():
            return
        if self._wire_bytes > _FRAMING_BYTES_MAX + 9 * body.total_bytes:
            failure = aiohttp.ClientPayloadError("the answer is more framing than body")
            body.set_exception(failure)
            self._hang_up(str(failure))

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        if self._interim > INTERIM_MAX:
            return
        if not 100 <= data[0].code < 200:
            self._interim, self._owed = 0, False
            super().feed_data(data, size)
            return
        self._interim += 1
        if self._interim <= INTERIM_MAX:
            super().feed_data(data, size)
        else:
            self._hang_up("the answer is 1xx without end")

    def _hang_up(self, why: str) -> None:
        self.set_exception(aiohttp.ClientPayloadError(why))
        if self.transport is not None:
            self.transport.abort()


class _Connector(aiohttp.TCPConnector):
    """Makes connections that are bounded."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        made = functools.partial(_Connection, loop=self._loop)
        self._factory = cast(functools.partial[ResponseHandler], made)


class _Dial(Struct, frozen=True):
    """One attempt at one address."""

    endpoint: Endpoint
    address: str
    method: str
    path_query: str
    headers: Headers
    body: bytes
    left_ns: int
    begin: Begin | None
    bytes_max: int

    @property
    def url(self) -> URL:
        host = f"[{self.address}]" if ":" in self.address else self.address
        path = self.endpoint.base_path + self.path_query
        return URL(f"{self.endpoint.scheme}://{host}:{self.endpoint.port}{path}", encoded=True)

    @property
    def data(self) -> bytes | io.BytesIO | None:
        """The body: a large one is written in parts, so that the loop goes on meanwhile."""
        large = len(self.body) > _WRITTEN_AT_ONCE_MAX
        return io.BytesIO(self.body) if large else self.body or None

    @property
    def wire_headers(self) -> list[tuple[str, str]]:
        length = [] if self.body or self.method in ("GET", "HEAD") else [("content-length", "0")]
        return [
            ("host", self.endpoint.authority),
            ("accept-encoding", "identity"),
            *length,
            *self.headers,
        ]


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """Every address the system knows for ``host``."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _open_session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(_connected)
    tracing.on_connection_reuseconn.append(_connected)
    session = aiohttp.ClientSession(
        connector=connector,
        trace_configs=[tracing],
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_SKIPPED,
        trust_env=False,
        max_line_size=8190,
        max_field_size=8190,
    )
    # aiohttp re-sends GET, PUT and DELETE once when a connection drops: a second attempt nobody
    # asked for
    session._retry_connection = False
    return session


async def _connected(_session: object, context: object, _params: object) -> None:
    progress = getattr(context, "trace_request_ctx", None)
    if isinstance(progress, _Progress):
        progress.connected = True


def _reason(error: Exception, progress: _Progress) -> str:
    if isinstance(error, TimeoutError):
        return "no whole answer in time" if progress.connected else "no connection in time"
    text = str(error) or type(error).__name__
    return text.replace("\r", " ").replace("\n", " ")[:300]


def _misframed(response: aiohttp.ClientResponse, headers: Headers) -> str | None:
    """Why an answer cannot be read in one way, or None (RFC 9112 §6.1)."""
    codings = [value.strip().lower() for name, value in headers if name == "transfer-encoding"]
    if response.version not in _VERSIONS or response.status < 200:
        return "the answer is not HTTP/1.1"
    if codings and (codings != ["chunked"] or response.version != aiohttp.HttpVersion11):
        return "the answer has a transfer coding that is not read"
    return None


def _is_local(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True
