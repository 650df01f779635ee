"""Egress: the only way out of the process. Resolve, vet, pin, dial, and tell what may have been
sent.

**Rules**
1. Names are resolved here, every answer is vetted, and the vetted literal is dialled with Host and
   SNI kept: there is no second resolution that could answer differently.
2. One request is one attempt at most: no redirects, no proxies from the environment, no cookies,
   no second try of a dropped connection. Another *address* is tried only while nothing was sent.
3. ``EgressFailed.sent`` is false only where no connection was made. From then on a byte may have
   left.
4. ``reuse`` false dials anew and closes after; pooled connections are for reads and belong to one
   target and one ``pool`` of it.
5. A reply is whole and within its size, or a failure. Bodies are handed on as they came, undecoded.
6. The sidecar's own ports on this machine are never dialled.
7. How a request is written and an answer read: ``egress.http``.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from sidecar.clock import monotonic_ns
from sidecar.egress import http
from sidecar.egress.http import INTERIM_MAX as INTERIM_MAX
from sidecar.egress.http import Connection, Headers
from sidecar.egress.rules import Endpoint, LeadsBack, Target, TargetRefused, read_target, vet
from sidecar.egress.upload import Upload

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Take = Callable[[bytes], Awaitable[object]]
Begin = Callable[[int, tuple[tuple[str, str], ...]], Awaitable[Take | None]]
"""Told the head of an answer; what it returns is given the body as it comes, and says True once it
has enough; None wants it whole. Neither may raise."""

RESPONSE_BYTES_MAX = 8 * 1024**2
_KEEPALIVE_SECONDS = (
    2.0  # below what servers usually grant, so that a pooled connection is rarely dead
)
_Key = tuple[str, str, str, int, str, str]
"""Whose connections they are: target, scheme, host, port, literal address, pool."""


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
        self._idle: dict[_Key, list[Connection]] = {}
        self._busy: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    async def request(
        self,
        target: Target,
        method: str,
        path_query: str,
        headers: Headers = (),
        body: bytes | Upload = b"",
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
        try:
            head = http.head(
                *(method, endpoint.base_path + path_query, endpoint.authority, headers, body),
                keep=reuse,
            )
        except ValueError as error:
            raise EgressFailed(False, f"{target.name}: {error}") from error
        failure = EgressFailed(False, f"{target.name}: the deadline passed before a connection")
        for address in addresses:
            if monotonic_ns() >= ends_ns:
                break
            dial = _Dial(
                *(endpoint, address, method == "HEAD", head, body, ends_ns, begin, largest),
                pool=pool if reuse else None,
            )
            try:
                return await self._attempt(dial)
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
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        idle, self._idle = self._idle, {}
        for connection in (*(each for some in idle.values() for each in some), *self._busy):
            connection.close()

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

    async def _attempt(self, dial: "_Dial") -> EgressReply:
        connected = whole = False
        connection = None
        try:
            connection = self._kept(dial)
            if connection is None:  # not "or": one with nothing in its queue is empty, so false
                connection = await self._dialled(dial)
            connected = True
            self._busy.add(connection)
            late = asyncio.get_running_loop().call_later(dial.left_seconds, connection.expire)
            try:
                reply = await self._exchange(connection, dial)
            finally:
                late.cancel()
            whole = True
            return reply
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as error:
            reason = _reason(error, connected)
            raise EgressFailed(connected, f"{dial.endpoint.name}: {reason}") from error
        finally:
            if connection is not None:
                self._busy.discard(connection)
                self._let_go(connection, dial, whole=whole)

    async def _exchange(self, connection: Connection, dial: "_Dial") -> EgressReply:
        if isinstance(dial.body, bytes):
            connection.ask(dial.head, dial.body, bodiless=dial.bodiless)
        else:
            connection.ask(dial.head, b"", bodiless=dial.bodiless)
            await self._upload(connection, dial.body, dial)
        message, content = await connection.answer()
        headers = tuple(
            [
                (name.decode("latin-1").lower(), value.decode("latin-1"))
                for name, value in message.raw_headers
            ]
        )
        if why := http.misframed(message, headers):
            raise EgressFailed(True, f"{dial.endpoint.name}: {why}")
        take = await dial.begin(message.code, headers) if dial.begin else None
        # Read at once where all of it is there, as it is of a small answer.
        body = bytearray(content.read_nowait() if content.is_eof() and take is None else b"")
        if len(body) > dial.bytes_max:
            raise dial.too_large()
        if not content.at_eof():
            async for chunk in content.iter_any():
                body += chunk
                if len(body) > dial.bytes_max:
                    raise dial.too_large()
                if take is not None and await take(chunk):
                    break
        return EgressReply(
            status=message.code, headers=headers, body=bytes(body), address=dial.address
        )

    @staticmethod
    async def _upload(connection: Connection, body: Upload, dial: "_Dial") -> None:
        """Write a body that is not in memory. One that is answered before it is whole is not sent
        on, and its connection is not used again."""
        try:
            async with asyncio.timeout(dial.left_seconds):
                async for piece in body.chunks():
                    if connection.answered:
                        break
                    await connection.write(piece)
                else:
                    return
        except (aiohttp.ClientError, OSError):
            if not connection.answered:
                raise
        connection.force_close()

    def _kept(self, dial: "_Dial") -> Connection | None:
        """A connection that is still good for a request."""
        key = dial.key
        kept = self._idle.get(key) if key is not None else None
        oldest = asyncio.get_running_loop().time() - _KEEPALIVE_SECONDS
        while kept:
            connection = kept.pop()
            if connection.usable and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    async def _dialled(self, dial: "_Dial") -> Connection:
        secure = dial.endpoint.scheme == "https"
        tls = self._tls_of.get(dial.endpoint.name) or self._tls or http.verified()
        async with asyncio.timeout(dial.left_seconds):
            made = await http.connect(
                *(dial.address, dial.endpoint.port),
                tls=tls if secure else None,
                server_name=dial.endpoint.host if secure else None,
            )
        if dial.endpoint.pins and http.public_key_of(made) not in dial.endpoint.pins:
            made.abort()
            raise EgressFailed(False, f"{dial.endpoint.name}: its certificate's key is not pinned")
        return made

    def _let_go(self, connection: Connection, dial: "_Dial", *, whole: bool) -> None:
        """Keep it for the next read, or close it: at once where its request did not end."""
        if not whole:
            connection.abort()
            return
        key = dial.key
        if key is None or not connection.usable:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(key, []).append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_KEEPALIVE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close what has been idle for too long."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - _KEEPALIVE_SECONDS
        found, self._idle = self._idle, {}
        for key, some in found.items():
            good = [each for each in some if each.usable and each.idle_since >= oldest]
            for each in set(some) - set(good):
                each.close()
            if good:
                self._idle[key] = good
        again = loop.call_later(_KEEPALIVE_SECONDS, self._sweep) if self._idle else None
        self._sweeping = again


class _Dial(Struct, frozen=True):
    """One attempt at one address."""

    endpoint: Endpoint
    address: str
    bodiless: bool
    head: bytes
    body: bytes | Upload
    ends_ns: int
    begin: Begin | None
    bytes_max: int
    pool: str | None

    @property
    def key(self) -> _Key | None:
        """None where the connection is for this request alone."""
        if self.pool is None:
            return None
        end = self.endpoint
        return (end.name, end.scheme, end.host, end.port, self.address, self.pool)

    @property
    def left_seconds(self) -> float:
        return (self.ends_ns - monotonic_ns()) / 1e9

    def too_large(self) -> EgressFailed:
        reason = f"{self.endpoint.name}: the answer exceeds {self.bytes_max} bytes"
        return EgressFailed(True, reason)


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """Every address the system knows for ``host``."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _reason(error: Exception, connected: bool) -> str:
    if isinstance(error, TimeoutError):
        return "no whole answer in time" if connected else "no connection in time"
    if isinstance(error, OSError | http.BrokenOff):  # the system's words, or ours
        text = str(error) or type(error).__name__
        return text.replace("\r", " ").replace("\n", " ")[:300]
    # A parser quotes what it could not read, and that may be anything: it is not to be logged.
    return f"its answer cannot be read ({type(error).__name__})"


def _is_local(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True
