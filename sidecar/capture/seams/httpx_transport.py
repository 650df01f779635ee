"""httpx and httpx2, and with them the openai and anthropic clients: their network transports.

Patched is what sends: ``HTTPTransport.handle_request`` and its async twin. So every client built on
them is served, each attempt of a client that tries again is an exchange of its own, and what the
agent gets, typed objects, raw responses, streams, its client's own code has made of the answer.
Transports that send nothing (mock, ASGI, WSGI) are the agent's own affair.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from types import ModuleType
from typing import Any, Final

from sidecar.capture.exchange import Request
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.exchanges import Recording, Unsent, close_at_end, enter
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.raising import rebuilt
from sidecar.capture.seams.session import Session, current

LIBRARIES: Final = ("httpx", "httpx2")
_OURS: Final = "__agenttwin__"


def install(session: Session) -> None:
    """Patch the transports of whichever of the two the agent has imported.

    Raises where one is of another shape.
    """
    close_at_end(session)
    for name in LIBRARIES:
        library = sys.modules.get(name)
        if library is None:
            continue
        for kind, method, made in (
            (library.HTTPTransport, "handle_request", _sync),
            (library.AsyncHTTPTransport, "handle_async_request", _async),
        ):
            original = vars(kind)[method]
            if not hasattr(original, _OURS):
                patch(session, kind, method, made(library, original))


def _sync(library: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    streams = _streams(library)

    @wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        session = current()
        if session is None:
            return original(self, request)
        body = request.read()
        x = _entered(session, request, body)
        if x is None:
            return original(self, request)
        if isinstance(x, Unsent):
            return _played(library, x, request, streams.played)
        try:
            with x.inside():
                response = original(self, request)
        except BaseException as error:
            x.failed(error)
            raise
        response.stream = streams.recorded(response.stream, _recording(library, x, response))
        return response

    setattr(handle_request, _OURS, True)
    return handle_request


def _async(library: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    streams = _streams(library)

    @wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        session = current()
        if session is None:
            return await original(self, request)
        body = await request.aread()
        x = _entered(session, request, body, awaited=True)
        if x is None:
            return await original(self, request)
        if isinstance(x, Unsent):
            await x.begin()
            return _played(library, x, request, streams.async_played)
        try:
            with x.inside():
                response = await original(self, request)
        except BaseException as error:
            x.failed(error)
            raise
        response.stream = streams.async_recorded(response.stream, _recording(library, x, response))
        return response

    setattr(handle_async_request, _OURS, True)
    return handle_async_request


def _entered(
    session: Session, request: Any, body: bytes, *, awaited: bool = False
) -> Crossing | Unsent | None:
    asked = Request(
        method=request.method,
        url=str(request.url),
        headers=request.headers.multi_items(),
        body=body,
    )
    return enter(session, asked, awaited=awaited)


def _recording(library: Any, x: Crossing, response: Any) -> Recording:
    decoders = sys.modules.get(f"{library.__name__}._decoders")
    known = dict(getattr(decoders, "SUPPORTED_DECODERS", {}))
    return Recording(
        x, response.status_code, response.reason_phrase, response.headers.multi_items(), known
    )


def _played(library: Any, playing: Unsent, request: Any, stream: Callable[..., Any]) -> Any:
    if not playing.has_head and playing.error is not None:
        playing.closed()
        raise rebuilt(playing.error, library.TransportError, library, request=request)
    reply = playing.reply
    extensions = {"http_version": b"HTTP/1.1"}
    if reply.reason:
        extensions["reason_phrase"] = reply.reason.encode("ascii", errors="replace")
    return library.Response(
        reply.status,
        headers=[(name.encode(), value.encode("utf-8")) for name, value in playing.headers()],
        stream=stream(playing, library, request),
        extensions=extensions,
    )


class _streams:  # noqa: N801
    """The four bodies a library's response can have here, as classes of its own kinds."""

    def __init__(self, library: Any) -> None:
        sync, async_ = library.SyncByteStream, library.AsyncByteStream
        self.recorded = type("RecordedStream", (_Recorded, sync), {})
        self.played = type("PlayedStream", (_Played, sync), {})
        self.async_recorded = type("RecordedStream", (_AsyncRecorded, async_), {})
        self.async_played = type("PlayedStream", (_AsyncPlayed, async_), {})


class _Recorded:
    def __init__(self, inner: Any, recording: Recording) -> None:
        self._inner, self._recording = inner, recording

    def __iter__(self) -> Iterator[bytes]:
        try:
            for part in self._inner:
                self._recording.feed(part)
                yield part
        except BaseException as error:
            self._recording.failed(error)
            raise
        self._recording.end()

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._recording.closed()


class _AsyncRecorded:
    def __init__(self, inner: Any, recording: Recording) -> None:
        self._inner, self._recording = inner, recording

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._inner:
                self._recording.feed(part)
                yield part
        except BaseException as error:
            self._recording.failed(error)
            raise
        self._recording.end()

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._recording.closed()


class _Played:
    def __init__(self, playing: Unsent, library: Any, request: Any) -> None:
        self._playing, self._library, self._request = playing, library, request

    def __iter__(self) -> Iterator[bytes]:
        yield from self._playing.pieces()
        self._playing.after()
        _raise(self._playing, self._library, self._request)

    def close(self) -> None:
        self._playing.closed()


class _AsyncPlayed:
    def __init__(self, playing: Unsent, library: Any, request: Any) -> None:
        self._playing, self._library, self._request = playing, library, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._playing.pieces():
            yield part
        await self._playing.arrive()
        self._playing.after()
        _raise(self._playing, self._library, self._request)

    async def aclose(self) -> None:
        self._playing.closed()


def _raise(playing: Unsent, library: Any, request: Any) -> None:
    if playing.error is not None:
        raise rebuilt(playing.error, library.TransportError, library, request=request)
