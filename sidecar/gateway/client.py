"""The gateway's upstreams over HTTP: one attempt through egress, with the credential only the
gateway has.

**Rules**
1. What leaves is the canonical path and query, the allow-listed headers, the exact body, the tool's
   native idempotency header and the upstream's credential; nothing the agent sent can replace the
   last two.
2. A call with effects gets a connection of its own; reads share a pool per upstream and tenant.
3. A credential is read from its file when it is needed, so that a rotated one is used; it is in no
   message. What the agent is told of a failure names no address and no file; the log does.
4. Of the answer, hop-by-hop headers and those that speak to browsers do not come back.
5. An answer of a kind that is read while it comes is shown to the audience as it comes.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from sidecar.egress.client import Egress, EgressFailed, Take
from sidecar.egress.rules import TargetRefused
from sidecar.gateway.config import Credential, Upstream
from sidecar.gateway.native import header_of
from sidecar.gateway.registry import Registry
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
_RESOLVE_NS = 2_000_000_000
_TOO_LARGE = re.compile(r"the answer exceeds [0-9]+ bytes")

STREAMED = frozenset({"text/event-stream", "application/x-ndjson", "application/json-seq"})
NOT_RETURNED = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length", "proxy-connection"),
        *("set-cookie", "set-cookie2", "server", "alt-svc", "strict-transport-security"),
    }
)


class HttpUpstreams:
    """Implements the port ``Upstreams`` for the upstreams of a registry."""

    def __init__(self, registry: Registry, egress: Egress) -> None:
        self._registry = registry
        self._egress = egress
        self._targets = {name: upstream.target for name, upstream in registry.upstreams.items()}

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The upstream's answer to one attempt. Raises UpstreamFailed."""
        target = self._targets.get(request.upstream)
        if target is None:
            raise UpstreamFailed(False, f"there is no upstream {request.upstream!r}")
        query = f"?{request.query_raw}" if request.query_raw else ""
        show = _Show(request.audience)
        try:
            reply = await self._egress.request(
                target,
                request.method,
                request.path + query,
                self._headers(request),
                request.body if request.upload is None else request.upload,
                deadline_ns=request.timeout_ns,
                reuse=request.class_ == "read",
                pool=request.tenant,
                begin=show.begin,
                bytes_max=request.response_bytes_max,
                addresses=request.addresses,
            )
        except EgressFailed as error:
            _LOG.warning("upstream failed", call_id=request.call_id, reason=error.reason)
            raise UpstreamFailed(error.sent, f"{target.name}: {told(error)}") from error
        return UpstreamReply(
            status=reply.status,
            headers=_returned(reply.headers),
            body=reply.body,
            streamed=show.begun,
            address=reply.address,
        )

    async def addresses(self, upstream: str) -> tuple[str, ...]:
        """The vetted addresses of an upstream; none where it has none that may be dialled."""
        target = self._targets.get(upstream)
        if target is None:
            return ()
        try:
            async with asyncio.timeout(_RESOLVE_NS / 1e9):
                _, found = await self._egress.vetted(target, deadline_ns=_RESOLVE_NS)
        except (TargetRefused, TimeoutError) as error:
            _LOG.warning("upstream has no address", upstream=upstream, reason=str(error))
            return ()
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._egress.close()

    def _headers(self, request: UpstreamRequest) -> Headers:
        ours: Headers = ()
        tool = self._registry.tools.get(request.tool)
        if request.idempotency_key is not None and tool is not None:
            name = header_of(tool.config.idempotency)
            ours = ((name, request.idempotency_key),) if name is not None else ()
        kept = tuple(pair for pair in request.headers if pair[0].lower() not in dict(ours))
        return with_credential(self._registry.upstreams[request.upstream], (*kept, *ours))


def with_credential(upstream: Upstream, headers: Headers) -> Headers:
    """Headers with the upstream's credential in them, in place of any of that name.

    Raises UpstreamFailed where it cannot be read.
    """
    if upstream.credential is None:
        return headers
    name = upstream.credential.header.lower()
    kept = tuple(pair for pair in headers if pair[0].lower() != name)
    return (*kept, (name, _secret(upstream.name, upstream.credential)))


class RoutedUpstreams:
    """Implements the port ``Upstreams``: some upstreams are spoken to by a port of their own."""

    def __init__(self, otherwise: Upstreams, own: Mapping[str, Upstreams]) -> None:
        self._otherwise = otherwise
        self._own = own

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The upstream's answer to one attempt. Raises UpstreamFailed."""
        return await self._own.get(request.upstream, self._otherwise).send(request)


class _Show:
    """Shows an answer that comes in parts to whoever waits for it."""

    def __init__(self, audience: Audience | None) -> None:
        self._audience = audience
        self.begun = False

    async def begin(self, status: int, headers: Headers) -> Take | None:
        """Take the head; None where the answer is wanted whole."""
        kind = next((value for name, value in headers if name == "content-type"), "")
        in_parts = kind.partition(";")[0].strip().lower() in STREAMED
        if self._audience is None or not in_parts or not 200 <= status <= 599:
            return None
        self.begun = True
        await self._audience.begin(status, _returned(headers))
        return self._audience.take


def _secret(upstream: str, credential: Credential) -> str:
    why = "it holds no usable header value"
    try:
        value = Path(credential.file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        value = ""
        why = f"{error.strerror}" if isinstance(error, OSError) else "it is not text"
    if not value or not value.isprintable() or not value.isascii():
        _LOG.error("credential not usable", upstream=upstream, file=credential.file, reason=why)
        raise UpstreamFailed(False, f"{upstream}: its credential cannot be used")
    return value


def told(error: EgressFailed) -> str:
    """Why, for the agent: the kind of failure, without the addresses the log has."""
    for known in ("no whole answer in time", "no connection in time"):
        if error.reason.endswith(known):
            return known
    if size := _TOO_LARGE.search(error.reason):
        return size[0]
    if error.sent:
        return "the answer broke off or was malformed"
    if isinstance(error.__cause__, TargetRefused):
        return "its address is not to be dialled"
    return "no connection could be made"


def _returned(headers: Headers) -> Headers:
    named = {
        part.strip().lower()
        for name, value in headers
        if name == "connection"
        for part in value.split(",")
    }
    dropped = NOT_RETURNED | named if named else NOT_RETURNED
    return tuple([pair for pair in headers if pair[0] not in dropped])
