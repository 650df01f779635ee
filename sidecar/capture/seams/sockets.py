"""Answers between a library and its socket, for libraries that read through ``http.client``.

**Rules**
1. Recorded, the response's file is read through a tap: whoever reads it gets what it gives, when it
   gives it. Played, the library's own parser reads the answer from a file that has no socket.
2. An answer that ended before its length says so by itself when it is played.
"""

import http.client
import io
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from sidecar.capture import exchange, framing
from sidecar.capture.encodings import Known
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.exchanges import Recording, Unsent
from sidecar.capture.seams.raising import rebuilt


def tapped(x: Crossing, response: http.client.HTTPResponse, known: Known | None) -> Recording:
    """Record what is read of a response whose head has been."""
    headers = [(name, str(value)) for name, value in response.headers.items()]
    recording = Recording(x, response.status, response.reason, headers, known)
    named = exchange.dict_of(headers)
    how = framing.framing_of(response.status, str(getattr(response, "_method", "")), named)
    length = int(named["content-length"]) if how == "length" else 0
    tap = _Tap(response.fp, recording, framing.Body(how, length))
    if response.fp is None or tap.body.complete:
        recording.end()
    else:
        response.fp = tap  # type: ignore[assignment]
    return recording


def played(
    playing: Unsent,
    method: str,
    fallback: type[Exception] = ConnectionError,
    *libraries: ModuleType,
    **attributes: Any,
) -> http.client.HTTPResponse:
    """A response that is read from the tape, its head read. Raises what was raised instead."""
    if not playing.has_head and playing.error is not None:
        playing.closed()
        raise rebuilt(playing.error, fallback, *libraries, **attributes)
    response = http.client.HTTPResponse(_Socket(playing, method), method=method)  # type: ignore[arg-type]
    response.begin()
    return response


class _Tap:
    """A response's file; what is read of it is recorded."""

    def __init__(self, inner: Any, recording: Recording, body: framing.Body) -> None:
        self._inner, self._recording, self.body = inner, recording, body

    def read(self, *args: Any) -> bytes:
        return self._took(self._read("read", *args), not args or args[0] != 0)

    def read1(self, *args: Any) -> bytes:
        return self._took(self._read("read1", *args), not args or args[0] != 0)

    def readline(self, *args: Any) -> bytes:
        return self._took(self._read("readline", *args), True)

    def readinto(self, buffer: Any) -> int:
        count = self._read("readinto", buffer)
        self._took(bytes(memoryview(buffer)[: count or 0]), len(buffer) > 0)
        return int(count)

    def close(self) -> None:
        self._inner.close()
        self._recording.closed()

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _read(self, name: str, *args: Any) -> Any:
        try:
            return getattr(self._inner, name)(*args)
        except BaseException as error:
            self._recording.failed(error)
            raise

    def _took(self, data: bytes, wanted: bool) -> bytes:
        if data or wanted:
            self._recording.feed(self.body.feed(data))
            if self.body.complete:
                self._recording.end()
            elif not data:
                self._recording.short()
        return data


class _Socket:
    """As much of a socket as a response needs."""

    def __init__(self, playing: Unsent, method: str) -> None:
        self._file = _File(playing, method)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """The answer's bytes."""
        return io.BufferedReader(self._file, 64 * 1024)


class _File(io.RawIOBase):
    """An answer's bytes, a piece a read."""

    def __init__(self, playing: Unsent, method: str) -> None:
        self._playing = playing
        self._rest = b""
        self._parts = self._sent(method)
        self._over = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next piece, or as much of it as fits."""
        while not self._rest and not self._over:
            try:
                self._rest = next(self._parts)
            except StopIteration:
                self._over = True
                self._playing.after()
                error = self._playing.error
                if error is not None:
                    raise rebuilt(error, ConnectionError) from None
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """The agent reads no further."""
        if not self.closed:
            super().close()
            self._playing.closed()

    def _sent(self, method: str) -> Iterator[bytes]:
        reply = self._playing.reply
        headers = self._playing.headers()
        named = exchange.dict_of(headers)
        how = framing.framing_of(reply.status, method, named)
        yield framing.head_bytes(reply.status, reply.reason, headers)
        yield from framing.sent(self._playing.pieces(), how, whole=self._playing.whole)
