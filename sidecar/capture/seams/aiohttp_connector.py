"""aiohttp: the connector, where a request gets its connection, and the response's start.

Played, the connection is none: what is written to it goes nowhere, and the response's head and body
are the tape's. A web socket is no exchange: where nothing may be sent it is a drift, elsewhere it
passes unseen.
"""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Final
from weakref import WeakKeyDictionary

from sidecar.capture.exchange import Request
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.exchanges import Recording, Unsent, close_at_end, enter
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.lanes import muted
from sidecar.capture.seams.raising import rebuilt
from sidecar.capture.seams.session import Session, current

_NOT_READ: Final = ("CONNECT",)


def install(session: Session) -> None:
    """Patch connector and response."""
    close_at_end(session)
    library: Any = sys.modules["aiohttp"]
    live: WeakKeyDictionary[Any, _Sending] = WeakKeyDictionary()
    kinds = _Kinds(library)
    connector, response = library.connector.BaseConnector, library.client_reqrep.ClientResponse
    patch(session, connector, "connect", _connected(library, kinds, live, connector.connect))
    patch(session, response, "start", _started(kinds, live, response.start))
    patch(session, connector, "close", _muted(connector.close))
    patch(session, library.ClientSession, "close", _muted_async(library.ClientSession.close))


def _muted(original: Callable[..., Any]) -> Callable[..., Any]:
    """The end of a connection that was there starts tasks, that of none does not."""

    @wraps(original)
    def close(*args: Any, **more: Any) -> Any:
        with muted():
            return original(*args, **more)

    return close


def _muted_async(original: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @wraps(original)
    async def close(*args: Any, **more: Any) -> Any:
        with muted():
            return await original(*args, **more)

    return close


def _connected(
    library: Any, kinds: "_Kinds", live: Any, original: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    @wraps(original)
    async def connect(self: Any, req: Any, *args: Any, **more: Any) -> Any:
        session = current()
        if session is None or req.method in _NOT_READ:
            return await original(self, req, *args, **more)
        if req.headers.get("upgrade", "").lower() == "websocket" and session.live("http"):
            return await original(self, req, *args, **more)
        asked = Request(
            method=req.method,
            url=str(req.url),
            headers=list(req.headers.items()),
            body=await _body(library, req),
        )
        x = enter(session, asked, awaited=True, decoded=True)
        if x is None:
            return await original(self, req, *args, **more)
        if isinstance(x, Unsent):
            await x.begin()
            return _played(library, kinds, x, self, req)
        try:
            with x.inside():
                connection = await original(self, req, *args, **more)
        except BaseException as error:
            x.failed(error)
            raise
        live[connection] = _Sending(x)
        return connection

    return connect


def _started(
    kinds: "_Kinds", live: Any, original: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    @wraps(original)
    async def start(self: Any, connection: Any) -> Any:
        sending: _Sending | None = live.pop(connection, None)
        if sending is None:
            return await original(self, connection)
        x = sending.taken()
        try:
            with x.inside():
                response = await original(self, connection)
        except BaseException as error:
            x.failed(error)
            raise
        headers = [(_text(name), _text(value)) for name, value in self._raw_headers]
        recording = Recording(x, self.status, self.reason or "", headers, decoded=True)
        if self.content.is_eof():  # all of it is here: it is recorded, whether it is read or not
            for part in _arrived(self.content):
                recording.feed(part)
            recording.end(early=True)
        else:
            self.content = kinds.reader(_recorded(self.content, recording), recording)
        return response

    return start


def _arrived(content: Any) -> list[bytes]:
    """What stands in a reader's buffer, which stays there."""
    return [bytes(part) for part in getattr(content, "_buffer", ())]


class _Sending:
    """A crossing whose connection was made and whose answer has not begun."""

    def __init__(self, x: Crossing) -> None:
        self._x: Crossing | None = x

    def taken(self) -> Crossing:
        """Its answer begins."""
        assert self._x is not None
        x, self._x = self._x, None
        return x

    def __del__(self) -> None:
        if self._x is not None:
            self._x.cancelled()


def _played(library: Any, kinds: "_Kinds", playing: Unsent, connector: Any, req: Any) -> Any:
    if not playing.has_head and playing.error is not None:
        playing.closed()
        raise _rebuilt(library, playing.error, req)
    loop = asyncio.get_running_loop()
    protocol = kinds.protocol(loop, playing, req)
    return library.connector.Connection(connector, req.connection_key, protocol, loop)


def _rebuilt(library: Any, error: tuple[str, str | None], req: Any) -> Exception:
    return rebuilt(
        error,
        library.ClientError,
        library,
        library.client_exceptions,
        _conn_key=req.connection_key,
        _os_error=OSError(None, error[1]),
        request_info=req.request_info,
        history=(),
        status=0,
        headers=None,
    )


async def _body(library: Any, req: Any) -> bytes:
    """A request's body, read before it is sent; what was read is what is sent."""
    body = req.body
    if not body:
        return b""
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    if not hasattr(body, "consumed"):  # before 3.12: what is read could not be sent any more
        value = getattr(body, "_value", b"")
        return bytes(value) if isinstance(value, bytes | bytearray) else b""
    sink = _Sink()
    await body.write(sink)
    data = bytes(sink.data)
    if getattr(body, "consumed", False):  # it can be read but once
        req._body = library.payload.BytesIOPayload(
            io.BytesIO(data), headers=dict(body.headers), content_type=body.content_type
        )
    return data


class _Sink:
    """Takes what a payload writes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.buffer_size = self.output_size = 0
        self.length: int | None = 0

    async def write(self, chunk: Any) -> None:
        self.data += bytes(chunk)

    async def write_eof(self, chunk: bytes = b"") -> None:
        self.data += chunk

    async def drain(self) -> None:
        return

    def enable_compression(self, *_: Any) -> None:
        return

    def enable_chunking(self) -> None:
        return

    async def write_headers(self, *_: Any) -> None:
        return

    def send_headers(self) -> None:
        return


def _recorded(content: Any, recording: Recording) -> Callable[[], Awaitable[bytes | None]]:
    async def pull() -> bytes | None:
        try:
            data, _ = await content.readchunk()
            while not data and not content.at_eof():
                data, _ = await content.readchunk()
        except asyncio.CancelledError:
            recording.waiting = True  # who reads gave up, and may read again
            raise
        except BaseException as error:
            recording.failed(error)
            raise
        if not data:
            recording.end()
            return None
        recording.feed(data)
        return bytes(data)

    return pull


def _replayed(library: Any, playing: Unsent, req: Any) -> Callable[[], Awaitable[bytes | None]]:
    pieces: Iterator[bytes] = playing.pieces()

    async def pull() -> bytes | None:
        piece = next(pieces, None)
        if piece is not None:
            return piece
        await playing.arrive()
        playing.after()
        if playing.error is not None:
            raise _rebuilt(library, playing.error, req)
        return None

    return pull


class _Kinds:
    """Reader and protocol of this library, made when it is there."""

    def __init__(self, library: Any) -> None:
        self.reader: Any = _reader(library)
        self.protocol: Any = _protocol(library, self.reader)


def _reader(library: Any) -> Any:
    base = library.StreamReader
    base_exception = library.client_exceptions.ClientConnectionError

    class PulledReader(base):  # type: ignore[misc, valid-type]
        """A body that gets its next piece when it is wanted; ``pull`` gives None at the end."""

        def __init__(self, pull: Any, ending: Any) -> None:
            super().__init__(_Flow(), 2**16, loop=asyncio.get_running_loop())
            self._pull, self._ending, self._pulling = pull, ending, False

        async def _wait(self, func_name: str) -> None:
            if self._pulling:
                raise RuntimeError(f"{func_name}() called while another coroutine is reading")
            self._pulling = True
            try:
                piece = await self._pull()
            except Exception as error:
                base.set_exception(self, error)
                raise
            finally:
                self._pulling = False
            if piece is None:
                self.feed_eof()
            else:
                self.feed_data(piece)

        def set_exception(self, exc: Any, *cause: Any) -> None:
            base.set_exception(self, exc, *cause)
            if isinstance(exc, base_exception):  # the response was closed
                self._ending.closed()

        def __del__(self) -> None:
            if hasattr(self, "_ending"):
                self._ending.closed()

    return PulledReader


class _Flow:
    """What a reader asks of a protocol whose data are not pushed."""

    connected = True
    _reading_paused = False

    def pause_reading(self, *_: Any) -> None:
        return

    def resume_reading(self, *_: Any, **__: Any) -> None:
        return


def _protocol(library: Any, reader: Any) -> Any:
    handler = library.client_proto.ResponseHandler

    class PlayedProtocol(handler):  # type: ignore[misc, valid-type]
        """A connection's protocol whose answer is the tape's."""

        def __init__(self, loop: Any, playing: Unsent, req: Any) -> None:
            super().__init__(loop)
            self._played, self._req = playing, req
            self.connection_made(_Nowhere())
            self.force_close()

        async def read(self) -> Any:
            playing = self._played
            named = playing.headers()
            raw = tuple((name.encode(), value.encode("utf-8", "replace")) for name, value in named)
            headers = library.client_reqrep.CIMultiDictProxy(
                library.client_reqrep.CIMultiDict(named)
            )
            message = library.http.RawResponseMessage(
                library.HttpVersion11,
                playing.reply.status,
                playing.reply.reason,
                headers,
                raw,
                True,
                None,
                False,
                False,
            )
            return message, reader(_replayed(library, playing, self._req), playing)

    return PlayedProtocol


class _Nowhere(asyncio.Transport):
    """A transport that sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._closing

    def write(self, data: Any) -> None:
        """Nothing is sent."""

    def writelines(self, list_of_data: Any) -> None:
        """Nothing is sent."""

    def close(self) -> None:
        """Nothing was open."""
        self._closing = True

    def abort(self) -> None:
        """Nothing was open."""
        self._closing = True

    def pause_reading(self) -> None:
        """Nothing comes."""

    def resume_reading(self) -> None:
        """Nothing comes."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002
        """It has none."""
        return default


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
