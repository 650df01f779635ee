"""The ports of the gateway: policy that decides, and tools (HTTP in production, twins in replay).

**Rules**
1. ``send`` makes at most one attempt and never retries.
2. ``UpstreamFailed.sent`` is false only where not one byte of the request can have reached the
   upstream.
3. A reply is whole or it is a failure: a truncated or oversized answer raises with ``sent`` true.
4. An audience may take a reply while it comes; what it was shown is in the reply all the same.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import Struct

from processors.model.names import SideEffectClass
from sidecar.egress.upload import Upload
from sidecar.gateway.policy.facts import Fact
from sidecar.gateway.policy.result import PolicyAnswer

Headers = tuple[tuple[str, str], ...]


class Audience(Protocol):
    """Whoever waits for a call's answer, and can be shown it before it is whole. Never raises."""

    async def begin(self, status: int, headers: Headers) -> None:
        """The answer's head; what follows it is given to ``take`` as it comes."""
        ...

    async def take(self, data: bytes) -> None:
        """A part of the answer, or a message that belongs to it."""
        ...

    def when_gone(self, told: Callable[[], None]) -> Callable[[], object]:
        """Call ``told`` once, in the loop, when nobody waits any more; what this returns ends
        that."""
        ...

    def close(self) -> None:
        """Break off: nothing more is shown, and what was is not whole."""
        ...


class UpstreamRequest(Struct, frozen=True, kw_only=True):
    """One attempt. ``path`` and ``query_raw`` are canonical and go on the wire as they are, and so
    do ``body`` (or ``upload``, where it is too large for memory) and ``headers`` (lower-case names,
    allow-listed); ``timeout_ns`` bounds the whole attempt, ``response_bytes_max`` its answer where
    policy says so. ``addresses``: the only ones that may be dialled, those policy judged; None
    where it judged none."""

    tool: str
    class_: SideEffectClass
    upstream: str
    method: str
    path: str
    query_raw: str = ""
    headers: Headers = ()
    body: bytes = b""
    upload: Upload | None = None
    arguments: dict[str, Any] = {}
    idempotency_key: str | None = None
    episode: str | None = None
    timeout_ns: int
    call_id: str
    tenant: str = ""
    response_bytes_max: int | None = None
    audience: Audience | None = None
    addresses: tuple[str, ...] | None = None


class UpstreamReply(Struct, frozen=True, kw_only=True):
    """A whole answer; ``body`` is as it came, never decompressed. ``streamed``: the audience has
    had it already. ``address`` is the literal address it came from, where there is one."""

    status: int
    headers: Headers
    body: bytes
    streamed: bool = False
    address: str | None = None


class UpstreamFailed(Exception):
    """No whole answer; ``sent`` says whether a byte of the request may have left."""

    def __init__(self, sent: bool, reason: str) -> None:
        self.sent = sent
        self.reason = reason
        super().__init__(reason)


Addresses = Callable[[str], Awaitable[tuple[str, ...]]]
"""The vetted addresses of an upstream; none where there are none to be dialled. Never raises."""


class Upstreams(Protocol):
    """Where calls go."""

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The upstream's answer to one attempt. Raises UpstreamFailed."""
        ...


class PolicyPort(Protocol):
    """Whoever decides: the embedded engine's worker, or an OPA server."""

    @property
    def revision(self) -> str:
        """The bundle that decides now."""
        ...

    @property
    def reads(self) -> frozenset[Fact]:
        """The facts that it reads, which a document must have then."""
        ...

    async def decide(self, document: dict[str, Any]) -> PolicyAnswer:
        """The answer on a document; a failure is a denial with ``error``."""
        ...

    async def visible(self, document: dict[str, Any]) -> PolicyAnswer:
        """Whether a principal may see a tool; a failure is a denial with ``error``."""
        ...
