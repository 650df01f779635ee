"""Connections to a Postgres whose every message is checked before the driver may read it.

**Rules**
1. The driver is handed a loop that makes connections this way and no other; TLS is ours, so that
   the name that was configured is verified, whatever address was dialled.
2. Nothing may be said between the consent to TLS and its handshake: what is would be taken for the
   server's own words.
3. What ``frames`` refuses ends the connection; ``refused`` says why.
"""

import asyncio
import ssl
import struct
from collections.abc import Callable
from typing import Any, cast

from sidecar.probe.sql.frames import FrameRefused, Frames

_TLS_REQUEST = struct.pack("!ii", 8, 80877103)
_Made = tuple[asyncio.Transport, asyncio.Protocol]


class CheckedLoop:
    """The running loop as a driver sees it that speaks to one server.

    ``refused`` is the code of why a connection was ended.
    """

    def __init__(self, tls: ssl.SSLContext | None, host: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._host = host
        self._frames = Frames()
        self.refused: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def answer(self) -> None:
        """What comes from here on is the answer, and bounded as such."""
        self._frames.answer()

    def refuse(self, code: str) -> None:
        """Remember the first reason."""
        self.refused = self.refused or code

    async def create_connection(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> _Made:
        """As the loop's, for the driver. Raises OSError."""
        self._frames = Frames()
        if self._tls is None:
            transport, checked = await self._loop.create_connection(
                lambda: _Checked(factory(), self._frames, self), host, port
            )
            return transport, checked.inner
        transport = await self._secured(host, port, self._tls)
        checked = _Checked(factory(), self._frames, self)
        transport.set_protocol(checked)
        checked.connection_made(transport)
        return transport, checked.inner

    async def _secured(self, host: str, port: int, tls: ssl.SSLContext) -> asyncio.Transport:
        plain, asking = await self._loop.create_connection(_AskingForTls, host, port)
        try:
            plain.write(_TLS_REQUEST)
            if await asking.answer != b"S":
                raise ConnectionError("the server has no TLS")
            secured = await self._loop.start_tls(plain, asking, tls, server_hostname=self._host)
            if secured is None or asking.more:
                raise ConnectionError("the server spoke out of turn")
        except BaseException:
            plain.abort()
            raise
        return secured


class _AskingForTls(asyncio.Protocol):
    """Waits for one byte. ``more``: whether anything followed it."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.more = False

    def data_received(self, data: bytes) -> None:
        if self.answer.done():
            self.more = True
        else:
            self.answer.set_result(data)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_result(b"")


class _Checked(asyncio.Protocol):
    """Stands before a driver's protocol."""

    def __init__(self, inner: asyncio.Protocol, frames: Frames, loop: CheckedLoop) -> None:
        self.inner = inner
        self._frames = frames
        self._loop = loop
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._loop.refused is not None:
            return
        try:
            whole = self._frames.feed(data)
        except FrameRefused as error:
            self._loop.refuse(error.code)
            if self._transport is not None:
                self._transport.abort()
            return
        if whole:
            self.inner.data_received(whole)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.inner.connection_lost(error)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()
