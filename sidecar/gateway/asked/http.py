"""A request's changes as server-sent events (WHATWG HTML, "Server-sent events").

**Rules**
1. Each event goes out when it is made, uncompressed and unbuffered; a comment keeps the line open.
2. The stream ends when nothing more can change: a client that comes back is told the end again.
3. What is wrong before the first event is an ordinary refusal; after it, the end of the stream.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from aiohttp import web

from sidecar.errors import StoreUnavailable
from sidecar.gateway.problem import Refused
from sidecar.store.envelope import SealBroken

_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


async def send_events(
    request: web.BaseRequest,
    items: AsyncGenerator[dict[str, Any] | None, None],
    event: str,
    *,
    seconds: float,
) -> web.StreamResponse:
    """The items as events of that name; None is a comment. A peer that does not take one within
    ``seconds`` is cut off."""
    async with aclosing(items):
        first = await anext(items, None)
        answer = web.StreamResponse(headers=_HEADERS)
        await answer.prepare(request)
        with suppress(ConnectionError, TimeoutError, Refused, StoreUnavailable, SealBroken):
            await _write(answer, _event(first, event), seconds)
            async for item in items:
                await _write(answer, _event(item, event), seconds)
    return answer


async def _write(answer: web.StreamResponse, text: str, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await answer.write(text.encode())


def _event(item: dict[str, Any] | None, event: str) -> str:
    if item is None:
        return ": keep-alive\n\n"
    return f"event: {event}\ndata: {json.dumps(item, ensure_ascii=False)}\n\n"
