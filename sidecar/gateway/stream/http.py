"""An answer that is sent to the agent while it comes, over the connection it asked on.

**Rules**
1. Each part is sent at once and unchanged; a stream of events gets a comment where the tool is
   silent, so that nobody between takes it for dead.
2. Whoever does not take a part in time has gone. Nothing here raises for a caller that has gone.
3. A stream that is not whole ends with a broken connection, never as if it were whole.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from sidecar.gateway.content import Headers
from sidecar.gateway.stream.boundary import KEEP_ALIVE, Boundary, is_events
from sidecar.listen import fault
from sidecar.listen.http import when_left


class AgentStream:
    """The audience of one request. ``end`` it once the call has its reply, if it has ``begun``."""

    def __init__(
        self, request: web.BaseRequest, *, keep_alive_seconds: float, take_seconds: float
    ) -> None:
        self._request = request
        self.keep_alive_seconds = keep_alive_seconds
        self._take_seconds = take_seconds
        self._answer: web.StreamResponse | None = None
        self._boundary = Boundary()
        self._gone = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    @property
    def begun(self) -> bool:
        """Whether the caller has a head of an answer."""
        return self._answer is not None

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the head."""
        answer = web.StreamResponse(status=status)
        for name, value in headers:
            answer.headers.add(name, value)
        answer.headers["Server"] = fault.SERVER
        answer.headers["X-Content-Type-Options"] = "nosniff"
        self._answer = answer
        if is_events(answer.headers.get("Content-Type", "")):
            answer.headers["X-Accel-Buffering"] = "no"
            answer.headers.setdefault("Cache-Control", "no-cache")
            self._keeping = asyncio.create_task(self._keep_alive())
        await self._written(answer.prepare(self._request))

    async def take(self, data: bytes) -> None:
        """Send a part."""
        assert self._answer is not None, "begin first"
        async with self._writing:
            self._boundary.see(data)
            await self._written(self._answer.write(data))

    def when_gone(self, told: Callable[[], None]) -> Callable[[], object]:
        """Call ``told`` when the caller has closed its connection, or does not take its answer."""
        return when_left(self._request, told)

    async def gone(self) -> None:
        """Returns once the caller has closed its connection, or does not take its answer."""
        went = asyncio.Event()
        forget = self.when_gone(went.set)
        try:
            await went.wait()
        finally:
            forget()

    def close(self) -> None:
        """Break the connection off now, with whatever was sent."""
        self._gone.set()
        if self._request.transport is not None:
            self._request.transport.abort()

    async def end(self, *, whole: bool) -> web.StreamResponse:
        """End the answer as whole, or by breaking the connection off."""
        assert self._answer is not None, "begin first"
        await self.stop()
        if whole:
            await self._written(self._answer.write_eof())
        elif self._request.transport is not None:
            self._request.transport.abort()
        return self._answer

    async def stop(self) -> None:
        """Say nothing more by itself. Safe twice."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _keep_alive(self) -> None:
        while not self._gone.is_set():
            await asyncio.sleep(self.keep_alive_seconds)
            async with self._writing:
                if self._boundary.between_events and self._answer is not None:
                    await self._written(self._answer.write(KEEP_ALIVE))

    async def _written(self, write: Awaitable[object]) -> None:
        """Wait until it is sent; a caller that does not take it has gone."""
        try:
            async with asyncio.timeout(self._take_seconds):
                await write
        except (OSError, RuntimeError):  # RuntimeError: written to after a broken end
            self._gone.set()
            if self._request.transport is not None:
                self._request.transport.abort()
