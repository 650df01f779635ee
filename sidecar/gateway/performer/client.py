"""Sending one attempt to a tool, and reading what came of it as an event.

**Rules**
1. What is sent is what was prepared: path, query, headers and body of the action, nothing else.
2. Only UpstreamFailed with ``sent`` false says that nothing left; every other failure may have had
   an effect.
3. A read whose caller has gone is given up; what may have an effect runs on to its end.
"""

import asyncio
from typing import Any

from sidecar.clock import monotonic_ns
from sidecar.gateway import events, response
from sidecar.gateway.action import Prepared
from sidecar.gateway.upstream import (
    Audience,
    Headers,
    UpstreamFailed,
    UpstreamReply,
    UpstreamRequest,
    Upstreams,
)
from sidecar.telemetry import log

_LOG = log("gateway")
_GUARD_SECONDS = 1.0
_NO_LIMIT_MS = 1 << 40
_STATUS_MAX = 599

Sent = tuple[events.UpstreamReplied | events.UpstreamFailed | events.TimedOut, UpstreamReply | None]


def request(
    prepared: Prepared,
    *,
    call_id: str,
    idempotency_key: str | None,
    episode: str | None,
    limits: dict[str, Any],
    addresses: tuple[str, ...] | None = None,
    audience: Audience | None = None,
) -> UpstreamRequest:
    """The attempt; ``limits`` of the decision may shorten the tool's time."""
    limit_ns = limits.get("timeout_ms", _NO_LIMIT_MS) * 1_000_000
    return UpstreamRequest(
        tool=prepared.tool.name,
        class_=prepared.tool.config.class_,
        upstream=prepared.action.upstream,
        method=prepared.action.method,
        path=prepared.path,
        query_raw=prepared.query_raw,
        headers=prepared.headers,
        body=prepared.body,
        arguments=prepared.arguments,
        idempotency_key=idempotency_key,
        episode=episode,
        timeout_ns=min(prepared.tool.timeout_ns, limit_ns),
        call_id=call_id,
        tenant=prepared.action.tenant,
        response_bytes_max=limits.get("max_response_bytes"),
        audience=audience,
        addresses=addresses,
    )


async def send(upstreams: Upstreams, asked: UpstreamRequest, limits: dict[str, Any]) -> Sent:
    """What came of the attempt, and the whole answer if there is one to pass on."""
    started_ns = monotonic_ns()
    try:
        # The port keeps the time itself, and knows whether anything was sent; this is the guard.
        async with asyncio.timeout(asked.timeout_ns / 1e9 + _GUARD_SECONDS):
            answer = await _sent(upstreams, asked)
    except UpstreamFailed as failed:
        late = monotonic_ns() - started_ns >= asked.timeout_ns
        if failed.sent and (late or failed.reason.startswith("timeout")):
            return events.TimedOut(), None
        return events.UpstreamFailed(sent=failed.sent, reason=failed.reason), None
    except TimeoutError:
        return events.TimedOut(), None
    except Exception as error:
        _LOG.error("upstream failed", tool=asked.tool, why=error)
        return events.UpstreamFailed(sent=True, reason="the gateway failed while sending"), None
    if not 200 <= answer.status <= _STATUS_MAX:  # an interim answer, or none of HTTP's
        return events.UpstreamFailed(sent=True, reason="the answer's status is malformed"), None
    limit = limits.get("max_response_bytes")
    if limit is not None and len(answer.body) > limit:
        reason = f"the answer exceeds {limit} bytes"
        return events.UpstreamFailed(sent=True, reason=reason), None
    retry_after = any(name.lower() == "retry-after" for name, _ in answer.headers)
    return events.UpstreamReplied(status=answer.status, retry_after=retry_after), answer


class _Shown:
    """An audience that is shown our headers beside the tool's."""

    def __init__(self, audience: Audience, decision_id: str) -> None:
        self._audience = audience
        self._decision_id = decision_id
        self.gone = audience.gone
        self.take = audience.take

    async def begin(self, status: int, headers: Headers) -> None:
        """The head, as it may be passed on."""
        await self._audience.begin(status, response.shown(headers, self._decision_id))


def shown(audience: Audience | None, decision_id: str) -> Audience | None:
    """The audience of an attempt that was decided on."""
    return _Shown(audience, decision_id) if audience is not None else None


async def _sent(upstreams: Upstreams, asked: UpstreamRequest) -> UpstreamReply:
    if asked.audience is None or asked.class_ != "read":
        return await upstreams.send(asked)
    sending = asyncio.ensure_future(upstreams.send(asked))
    leaving = asyncio.ensure_future(asked.audience.gone())
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            return await sending
        raise UpstreamFailed(True, "the caller has gone")
    finally:
        for each in (sending, leaving):
            each.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
