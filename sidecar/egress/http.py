"""One HTTP/1.1 request and its answer, on a connection of ours.

aiohttp's client spends more on a small request than all else the gateway does, so of it only the
compiled parser is used and the protocol that feeds it: how an answer is framed, and what is no
answer, is as strict as ever.

**Rules**
1. What is written is what was given: nothing is added but Host, Accept-Encoding, the body's length
   and, where the connection is not kept, ``Connection: close``. A name or value that would end its
   line is not written at all.
2. One request at a time, and none on a connection that has anything unread, or was told to close.
   One that speaks before it is asked is hung up on: what it says is no answer to whoever asks next.
3. An answer of another version than HTTP/1, or of a transfer coding but ``chunked``, is none.
4. An upstream may say "wait" (1xx) a few times; one that goes on saying it is hung up on, before
   its words fill memory or keep the loop. So is one whose framing outweighs its body.
5. A connection whose request did not come to its end is never used again.
"""

import asyncio
import base64
import functools
import hashlib
import ssl
from collections.abc import Sequence, Sized

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

Headers = Sequence[tuple[str, str]]

INTERIM_MAX = 8
"""1xx answers that may come before the real one."""
_FRAMING_BYTES_MAX = 1024**2
"""What the framing of an answer may take beside eight times the answer."""
_VERSIONS = frozenset({aiohttp.HttpVersion10, aiohttp.HttpVersion11})
_LINE_BYTES_MAX = 8190
_JOINED_BYTES_MAX = 64 * 1024
_SWITCHING = 101


class BrokenOff(aiohttp.ClientPayloadError):
    """An answer that was hung up on, with why in words of ours."""


class Connection(ResponseHandler):
    """aiohttp's, which queues what comes however much it is and however little of it is wanted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._interim = 0
        self._owed = False
        self._wire_bytes = 0
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether another request may be written to it."""
        transport = self.transport
        return (
            transport is not None
            and not transport.is_closing()
            and not self.should_close
            and not transport.get_write_buffer_size()
        )

    def ask(self, head: bytes, body: bytes, *, bodiless: bool) -> None:
        """Write a request; ``bodiless``: its answer has no body whatever it says (HEAD)."""
        self._owed, self._wire_bytes = True, 0
        self.set_response_params(
            skip_payload=bodiless,
            read_until_eof=True,
            auto_decompress=False,
            max_line_size=_LINE_BYTES_MAX,
            max_field_size=_LINE_BYTES_MAX,
        )
        transport = self.transport
        if transport is None or transport.is_closing():
            raise aiohttp.ServerDisconnectedError
        if len(body) <= _JOINED_BYTES_MAX:
            transport.write(head + body if body else head)
        else:
            transport.write(head)
            transport.write(body)

    @property
    def answered(self) -> bool:
        """Whether the head of an answer has come already."""
        return not self._owed

    async def write(self, data: bytes) -> None:
        """Write a piece of a body, as fast as it is taken."""
        transport = self.transport
        if transport is None or transport.is_closing():
            raise aiohttp.ServerDisconnectedError
        transport.write(data)
        await self._drain_helper()

    async def answer(self) -> tuple[RawResponseMessage, StreamReader]:
        """The head of the real answer, and its body as it comes."""
        while True:
            message, payload = await self.read()
            if not 100 <= message.code < 200 or message.code == _SWITCHING:
                return message, payload

    def expire(self) -> None:
        """The time for the answer is over: whoever waits for a part of it gets a TimeoutError."""
        late = TimeoutError()
        payload = self._payload
        self.set_exception(late)
        if payload is not None:
            payload.set_exception(late)

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
            failure = BrokenOff("the answer is more framing than body")
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
        self.set_exception(BrokenOff(why))
        if self.transport is not None:
            self.transport.abort()


async def connect(
    address: str, port: int, *, tls: ssl.SSLContext | None, server_name: str | None
) -> Connection:
    """A connection to a literal address. Raises OSError."""
    loop = asyncio.get_running_loop()
    _, made = await loop.create_connection(
        functools.partial(Connection, loop), address, port, ssl=tls, server_hostname=server_name
    )
    return made


def public_key_of(connection: Connection) -> str | None:
    """The pin of whom a connection leads to: ``sha256/`` and the base64 of the SHA-256 of the
    certificate's SubjectPublicKeyInfo; None without TLS."""
    transport = connection.transport
    tls = None if transport is None else transport.get_extra_info("ssl_object")
    shown = None if tls is None else tls.getpeercert(binary_form=True)
    if not shown:
        return None
    key = x509.load_der_x509_certificate(shown).public_key()
    info = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return "sha256/" + base64.b64encode(hashlib.sha256(info).digest()).decode()


@functools.cache
def verified() -> ssl.SSLContext:
    """TLS as it is where nothing else is said: by the system's authorities."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(("http/1.1",))
    return context


def head(
    method: str, path: str, authority: str, headers: Headers, body: Sized, *, keep: bool
) -> bytes:
    """A request's head. Raises ValueError where it could be read as anything else."""
    if not path.isascii() or not path.isprintable() or " " in path or "#" in path:
        raise ValueError("the path is none that can be sent")
    lines = [
        f"{method.upper()} {path if path.startswith('/') else '/' + path} HTTP/1.1",
        f"host: {authority}",
        "accept-encoding: identity",
    ]
    lines += [f"{name}: {value}" for name, value in headers]
    if len(body) or method not in ("GET", "HEAD"):
        lines.append(f"content-length: {len(body)}")
    if not keep:
        lines.append("connection: close")
    lines += ["", ""]
    text = "\r\n".join(lines)
    ends = len(lines) - 1
    if text.count("\r") != ends or text.count("\n") != ends or "\0" in text:
        raise ValueError("a header would end its line")
    return text.encode("latin-1")  # as headers are read: byte for byte what an agent sent


def misframed(message: RawResponseMessage, headers: Headers) -> str | None:
    """Why an answer cannot be read in one way, or None (RFC 9112 §6.1)."""
    codings = [value.strip().lower() for name, value in headers if name == "transfer-encoding"]
    if message.version not in _VERSIONS or message.code < 200:
        return "the answer is not HTTP/1.1"
    if codings and (codings != ["chunked"] or message.version != aiohttp.HttpVersion11):
        return "the answer has a transfer coding that is not read"
    return None
