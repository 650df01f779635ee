"""Sending one attempt to a tool, and reading what came of it as an event.

**Rules**
1. What is sent is what was prepared: path, query, headers and body of the action, nothing else but
   the upstream's key where it belongs (``native``).
2. Only UpstreamFailed with ``sent`` false says that nothing left; every other failure may have had
   an effect.
3. A read whose caller has gone is given up; what may have an effect runs on to its end.
4. An answer that is shown while it comes is looked after: once it may not go on (policy, a stop,
   the credential) it is broken off. A read is given up then; what may have an effect is not shown.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import structs

from sidecar.clock import monotonic_ns
from sidecar.gateway import events, response
from sidecar.gateway.action import Prepared
from sidecar.gateway.native import with_key
from sidecar.gateway.upstream import (
    Audience,
    Headers,
    UpstreamFailed,
    UpstreamReply,
    UpstreamRequest,
    Upstreams,
)
from sidecar.telemetry import STREAMS_CLOSED, log

_LOG = log("gateway")
_GUARD_SECONDS = 1.0
LOOK_SECONDS = 1.0
"""How often an answer that is shown while it comes is looked after."""
Forbids = Callable[[], Awaitable[str | None]]
_NO_LIMIT_MS = 1 << 40
_STATUS_MAX = 599

Ended = events.UpstreamReplied | events.UpstreamFailed | events.TimedOut | events.Closed
Sent = tuple[Ended, UpstreamReply | None]


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
    member = key_member(prepared, idempotency_key)
    return UpstreamRequest(
        tool=prepared.tool.name,
        class_=prepared.tool.config.class_,
        upstream=prepared.action.upstream,
        method=prepared.action.method,
        path=prepared.path,
        query_raw=prepared.query_raw,
        headers=prepared.headers,
        body=wire_body(prepared, idempotency_key),
        upload=prepared.upload,
        arguments={**member, **prepared.arguments} if member else prepared.arguments,
        idempotency_key=idempotency_key,
        episode=episode,
        timeout_ns=min(prepared.tool.timeout_ns, limit_ns),
        call_id=call_id,
        tenant=prepared.action.tenant,
        response_bytes_max=limits.get("max_response_bytes"),
        audience=audience,
        addresses=addresses,
    )


def key_member(prepared: Prepared, key: str | None) -> dict[str, str]:
    """The member that the gateway adds to a body, if it adds one; twins know no such fields."""
    field = prepared.tool.config.idempotency.upstream_field
    if not field or key is None or prepared.action.mode == "twin":
        return {}
    return {field: key} if prepared.tool.config.class_ != "read" else {}


def wire_body(prepared: Prepared, key: str | None) -> bytes:
    """The bytes that are sent."""
    for field, value in key_member(prepared, key).items():
        return with_key(prepared.body, field, value)
    return prepared.body


async def send(
    upstreams: Upstreams,
    asked: UpstreamRequest,
    limits: dict[str, Any],
    forbids: Forbids | None = None,
) -> Sent:
    """What came of the attempt, and the whole answer if there is one to pass on. ``forbids``: the
    code of why an answer that is shown may not go on, asked now and then while it is."""
    started_ns = monotonic_ns()
    cut = _Cut()
    if isinstance(asked.audience, _Shown) and forbids is not None:
        cut.look_after(asked.audience, forbids, reads=asked.class_ == "read")
    # The port keeps the time itself, and knows whether anything was sent; this is the guard.
    cut.at(asked.timeout_ns / 1e9 + _GUARD_SECONDS)
    if asked.audience is not None and asked.class_ == "read":
        cut.when_gone(asked.audience)
    try:
        answer = await upstreams.send(asked)
    except asyncio.CancelledError:
        if not cut.mine():
            raise
        if cut.closed:
            return events.Closed(code=cut.closed), None
        if cut.gone:
            return events.UpstreamFailed(sent=True, reason="the caller has gone"), None
        return events.TimedOut(), None
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
    finally:
        cut.end()
    if not 200 <= answer.status <= _STATUS_MAX:  # an interim answer, or none of HTTP's
        return events.UpstreamFailed(sent=True, reason="the answer's status is malformed"), None
    if cut.closed:
        answer = structs.replace(answer, streamed=False)
    limit = limits.get("max_response_bytes")
    if limit is not None and len(answer.body) > limit:
        reason = f"the answer exceeds {limit} bytes"
        return events.UpstreamFailed(sent=True, reason=reason), None
    retry_after = any(name.lower() == "retry-after" for name, _ in answer.headers)
    return events.UpstreamReplied(status=answer.status, retry_after=retry_after), answer


class _Cut:
    """Ends what this task awaits, once: at its time, or when its caller has gone.

    As ``asyncio.timeout`` does it, for two reasons at once, and without a task for either.
    """

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a call is a task"
        self._task = task
        self._before = task.cancelling()
        self._made = self._over = False
        self._forget: list[Callable[[], object]] = []
        self.gone = False
        self.closed = ""

    def look_after(self, shown: "_Shown", forbids: Forbids, *, reads: bool) -> None:
        """Break off what is shown once it may not go on, and cut a read with it."""

        async def look() -> None:
            while not self.closed:
                await asyncio.sleep(LOOK_SECONDS)
                self.closed = await forbids() or ""
            shown.close()
            STREAMS_CLOSED.labels(self.closed).inc()
            if reads:
                self._cut()

        def begin() -> None:
            self._forget.append(asyncio.ensure_future(look()).cancel)

        shown.when_begun = begin

    def at(self, seconds: float) -> None:
        """Cut after so many seconds."""
        loop = asyncio.get_running_loop()
        self._forget.append(loop.call_later(seconds, self._cut).cancel)

    def when_gone(self, audience: Audience) -> None:
        """Cut when nobody waits any more."""
        self._forget.append(audience.when_gone(self._left))

    def mine(self) -> bool:
        """Whether the task was cancelled by this alone."""
        return self._made and self._task.cancelling() - 1 <= self._before

    def end(self) -> None:
        """Cut no more; what was cut goes on as a task that nobody cancelled."""
        self._over = True
        for forget in self._forget:
            forget()
        if self._made:
            self._task.uncancel()

    def _left(self) -> None:
        self.gone = not self._made
        self._cut()

    def _cut(self) -> None:
        if self._made or self._over:
            return
        self._made = True
        self._task.cancel()


class _Shown:
    """An audience that is shown our headers beside the tool's."""

    def __init__(self, audience: Audience, decision_id: str) -> None:
        self._audience = audience
        self._decision_id = decision_id
        self.when_gone = audience.when_gone
        self.when_begun: Callable[[], None] = _nothing
        self._begun = self._closed = False

    async def begin(self, status: int, headers: Headers) -> None:
        """The head, as it may be passed on."""
        self._begin()
        await self._audience.begin(status, response.shown(headers, self._decision_id))

    async def take(self, data: bytes) -> None:
        """A part, until it is closed."""
        self._begin()
        if not self._closed:
            await self._audience.take(data)

    def close(self) -> None:
        """Nothing more is shown."""
        self._closed = True
        self._audience.close()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.when_begun()


def _nothing() -> None:
    """Where nobody looks after it."""


def shown(audience: Audience | None, decision_id: str) -> Audience | None:
    """The audience of an attempt that was decided on."""
    return _Shown(audience, decision_id) if audience is not None else None
