"""What an agent learns of its own requests for approval: as they stand, held, or as they change.

**Rules**
1. A request is its requester's alone: to any other agent it is not there.
2. The token is told once, by a look and never by a stream, to the principal that asked.
3. Who waits is asked again who they are before they are told: a key revoked meanwhile learns
   nothing.
4. Waiting is bounded, for each agent and in all, and a gateway on its way out ends it at once.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from processors.model.call import Approval
from processors.model.principal import Principal
from sidecar import clock
from sidecar.gateway import approval as approvals
from sidecar.gateway import token
from sidecar.gateway.desk import Desk
from sidecar.gateway.problem import Refused
from sidecar.store.ports import Watching

WAITING_MAX = 256
WAITING_EACH_MAX = 16
LOOK_SECONDS = 2.0
"""Who waits looks this often, whatever is told: policy, tools and time change without news."""
Known = Callable[[], Awaitable[Principal]]
"""The caller, asked anew. Raises Refused."""


class Asked:
    """Looks at requests for their requesters, over a gateway's desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ledger = desk.ports.ledger
        self._waiting: Counter[str] = Counter()

    async def show(self, approval_id: str, known: Known, wait_s: int = 0) -> dict[str, Any]:
        """The request, and once approved its token, once; held up to ``wait_s`` while it is
        pending. Raises Refused 404, 429; StoreUnavailable."""
        principal = await known()
        shown = self._find(approval_id, principal)
        if wait_s and shown.status == "pending":
            with self._place(principal), self._ledger.approval_news(approval_id) as watching:
                ends_ns = clock.monotonic_ns() + wait_s * 10**9
                shown = self._find(approval_id, principal)
                while shown.status == "pending" and not self._desk.draining():
                    left_ns = ends_ns - clock.monotonic_ns()
                    if left_ns <= 0:
                        break
                    await self._moved(watching, min(LOOK_SECONDS, left_ns / 1e9))
                    shown = self._find(approval_id, principal)
            await known()
        return await self._told(shown)

    async def changes(
        self, approval_id: str, known: Known, quiet_seconds: float
    ) -> AsyncGenerator[dict[str, Any] | None, None]:
        """The request as it stands, then each time it has changed, until nothing more can; None
        where nothing was told for ``quiet_seconds``. Raises Refused 404, 429."""
        principal = await known()
        told: Approval | None = None
        told_ns = clock.monotonic_ns()
        with self._place(principal), self._ledger.approval_news(approval_id) as watching:
            while not self._desk.draining():
                shown = self._find(approval_id, principal)
                if shown != told:
                    await known()
                    yield self._document(shown)
                    told, told_ns = shown, clock.monotonic_ns()
                    if shown.status not in ("pending", "approved"):
                        return
                elif clock.monotonic_ns() - told_ns >= quiet_seconds * 1e9:
                    await known()
                    yield None
                    told_ns = clock.monotonic_ns()
                await self._moved(watching, min(LOOK_SECONDS, quiet_seconds))

    def _find(self, approval_id: str, principal: Principal) -> Approval:
        found = self._ledger.find_approval(approval_id, principal.project)
        if found is None or found.requester != principal.id:
            raise Refused(404, "no_such_approval", "there is no such approval of yours")
        return approvals.current(found, self._desk.now_ns(), self._ground(found.tool))

    def _ground(self, tool: str) -> approvals.Ground:
        known = self._desk.ports.registry.tools.get(tool)
        return approvals.Ground(
            policy_revision=self._ledger.active_policy(),
            tool_digests={} if known is None else {tool: known.tool_digest},
        )

    async def _told(self, shown: Approval) -> dict[str, Any]:
        document, now_ns = self._document(shown), self._desk.now_ns()
        if shown.status == "approved" and await self._ledger.take_token(
            shown.project, shown.approval_id, now_ns
        ):
            document["token"] = token.mint(
                self._attested(shown),
                self._desk.signer,
                gateway_id=self._desk.settings.gateway_id,
                now_ns=now_ns,
            )
        return document

    def _attested(self, shown: Approval) -> Approval:
        """The request with the votes that approved it."""
        if not shown.glass_id:
            return shown
        broken = self._ledger.find_glass(shown.glass_id, shown.project)
        return msgspec.structs.replace(shown, votes=broken.as_votes() if broken else ())

    def _document(self, shown: Approval) -> dict[str, Any]:
        page = approvals.page_of(shown, self._desk.settings.approvals.pages)
        return approvals.for_agent(shown) | ({} if page is None else {"page": page})

    async def _moved(self, watching: Watching, seconds: float) -> None:
        """Wait for news, a while, or the gateway's end."""
        waiting = asyncio.ensure_future(watching.moved(seconds))
        leaving = asyncio.ensure_future(self._desk.drained())
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (waiting, leaving):
                each.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)

    @contextmanager
    def _place(self, principal: Principal) -> Iterator[None]:
        """One of the places for those who wait. Raises Refused 429."""
        if self._waiting.total() >= WAITING_MAX or self._waiting[principal.id] >= WAITING_EACH_MAX:
            raise Refused(
                *(429, "too_many_wait", "too many wait already; ask again, or wait for fewer"),
                next_action="retry",
                retry_after=5,
            )
        self._waiting[principal.id] += 1
        try:
            yield
        finally:
            self._waiting[principal.id] -= 1
            if not self._waiting[principal.id]:
                del self._waiting[principal.id]
