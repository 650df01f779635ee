"""``subscriptions/listen`` of 2026-07-28: what changes at a server, for whom it may concern.

**Rules**
1. Nobody is told of what they could not list: kinds nothing is registered of are not agreed to, and
   neither are resources their list would not have. Both are looked at again before each message.
2. A message is made here anew: its method, its URI where it has one, and the client's own id.
3. A stream ends after ``LISTEN_SECONDS`` and when the gateway leaves; its client listens again. So
   many may listen at a time, and one caller to so many.
4. A server of before 2026-07-28 tells nothing of itself: nothing is agreed to for its clients, and
   the stream ends at once.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from sidecar.errors import StoreUnavailable
from sidecar.gateway.problem import Refused
from sidecar.gateway.rpc import message
from sidecar.gateway.rpc.answer import Said
from sidecar.gateway.rpc.client import McpUpstreams
from sidecar.gateway.rpc.events import event
from sidecar.gateway.rpc.http import Talk
from sidecar.gateway.rpc.lists.mcp import Lists, entries
from sidecar.gateway.rpc.message import RpcRefused
from sidecar.gateway.rpc.wanted import (
    ACKNOWLEDGED,
    ID_META,
    KINDS,
    RESOURCES,
    UPDATED,
    Wanted,
    read_wanted,
)
from sidecar.gateway.stream.boundary import EVENTS
from sidecar.gateway.stream.http import AgentStream
from sidecar.gateway.upstream import UpstreamFailed
from sidecar.telemetry import DROPPED

LISTEN_SECONDS = 600
LISTENERS_MAX, LISTENERS_EACH_MAX = 64, 4


class Changes:
    """The listeners of one gateway."""

    def __init__(self, upstreams: McpUpstreams, lists: Lists) -> None:
        self._upstreams = upstreams
        self._lists = lists
        self._listening: Counter[str] = Counter()

    async def listen(self, talk: Talk) -> web.StreamResponse:
        """The stream of one listener, until it ends. Raises RpcRefused."""
        if EVENTS not in (talk.asked.one("accept") or ""):
            raise RpcRefused(message.INVALID_REQUEST, f"accept {EVENTS} to listen", status=406)
        asked = read_wanted(talk.said.params.get("notifications"))
        with self._place(talk.asked.principal.id):
            try:
                modern = await self._upstreams.speaks_modern(talk.server)
            except UpstreamFailed as error:
                data = {"code": "server_unreachable", "next_action": "retry"}
                raise RpcRefused(message.INTERNAL_ERROR, error.reason, data=data) from error
            agreed = await self._agreed(talk, asked) if modern else Wanted()
            stream = talk.asked.open_stream()
            try:
                return await self._stream(talk, agreed, stream)
            finally:
                await stream.stop()

    async def _stream(self, talk: Talk, agreed: Wanted, stream: AgentStream) -> web.StreamResponse:
        assert talk.said.id is not None
        told = _Told(talk, agreed, stream, self._lists)
        await stream.begin(200, (("content-type", EVENTS),))
        if agreed.document and not await self._relay(told):
            return await stream.end(whole=False)
        if not told.acknowledged:
            await told.acknowledge(Wanted())
        meta = message.encoded({ID_META: talk.said.id})
        done = b'{"resultType":"complete","_meta":%s}' % meta
        await stream.take(event(message.result(talk.said.id, done)))
        return await stream.end(whole=True)

    async def _relay(self, told: "_Told") -> bool:
        """Pass on until the server ends, the client leaves or the time is over; whether the stream
        may end as whole."""
        server, wanted = told.talk.server, told.agreed.document
        listening = asyncio.ensure_future(
            self._upstreams.listen(server, wanted, told.hear, LISTEN_SECONDS)
        )
        waits = [
            asyncio.ensure_future(told.stream.gone()),
            asyncio.ensure_future(told.talk.gateway.drained()),
        ]
        try:
            await asyncio.wait({listening, *waits}, return_when=asyncio.FIRST_COMPLETED)
            return not listening.done() or listening.exception() is None
        finally:
            for each in (listening, *waits):
                each.cancel()
            await asyncio.gather(listening, *waits, return_exceptions=True)

    async def _agreed(self, talk: Talk, asked: Wanted) -> Wanted:
        known = {"toolsListChanged"}
        if entries(talk, "prompt"):
            known.add("promptsListChanged")
        if entries(talk, "resource"):
            known.add(RESOURCES)
        seen = [uri for uri in asked.resources if await self._lists.sees_resource(talk, uri)]
        return Wanted(kinds=asked.kinds & known, resources=tuple(seen))

    @contextmanager
    def _place(self, principal: str) -> Iterator[None]:
        """One of the places for those who listen. Raises RpcRefused."""
        full = self._listening.total() >= LISTENERS_MAX
        if full or self._listening[principal] >= LISTENERS_EACH_MAX:
            data = {"code": "too_many_wait", "next_action": "retry", "retry_after": 5}
            raise RpcRefused(message.DENIED, "too many listen already", data=data)
        self._listening[principal] += 1
        try:
            yield
        finally:
            self._listening[principal] -= 1
            if not self._listening[principal]:
                del self._listening[principal]


class _Told:
    """What one listener is told."""

    def __init__(self, talk: Talk, agreed: Wanted, stream: AgentStream, lists: Lists) -> None:
        self.talk = talk
        self.agreed = agreed
        self.stream = stream
        self.acknowledged = False
        self._lists = lists

    async def acknowledge(self, agreed: Wanted) -> None:
        """Say what the listener will be told of; once, before anything else."""
        self.agreed, self.acknowledged = agreed, True
        await self._tell(ACKNOWLEDGED, {"notifications": agreed.document})

    async def hear(self, said: Said) -> bool:
        """Take a message of the server; whether the stream is over."""
        if said.method == ACKNOWLEDGED:
            if not self.acknowledged:
                await self.acknowledge(self.agreed.only(said.params.get("notifications")))
            return False
        try:
            await self.talk.asked.known()  # its key may have been revoked meanwhile
            params = await self._params(said)
        except (Refused, StoreUnavailable):
            return True
        if params is None or said.method is None:
            DROPPED.labels("mcp", "not_listened_to").inc()
        else:
            await self._tell(said.method, params)
        return False

    async def _params(self, said: Said) -> dict[str, Any] | None:
        """What the client is told of a message, None where it is not to be told."""
        if said.method == UPDATED:
            uri = said.params.get("uri")
            if not isinstance(uri, str) or uri not in self.agreed.resources:
                return None
            return {"uri": uri} if await self._lists.sees_resource(self.talk, uri) else None
        return {} if KINDS.get(said.method or "") in self.agreed.kinds else None

    async def _tell(self, method: str, params: dict[str, Any]) -> None:
        body = message.notification(method, {**params, "_meta": {ID_META: self.talk.said.id}})
        await self.stream.take(event(body))
