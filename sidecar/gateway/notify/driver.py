"""Tells webhooks of approvals, and time's end of those that nobody decided.

**Rules**
1. At least once, in the chain's order: a webhook's place moves on only when it took a message, will
   never take it, or the message is too old to matter; each counted.
2. Nothing a webhook answers is read but the status: no answer approves anything. Who approves does
   so at the control port, with a credential.
3. One sidecar sends, of all on a ledger; another goes on from the same place when it is gone.
4. Whoever waits for news is told; a look now and then finds what was not told.
5. A decision's notice (``tell``) is kept in memory only: it is tried as long as any other message,
   and lost with the process.
6. Every attempt goes through egress: the address is vetted anew, redirects are not followed.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

from processors.value import duration_ns
from sidecar import clock
from sidecar.egress.client import Egress, EgressFailed
from sidecar.errors import told
from sidecar.export.retry import Pauses
from sidecar.gateway.approval import page_of
from sidecar.gateway.notify import message
from sidecar.gateway.notify import notice as notices
from sidecar.gateway.notify.files import SecretUnusable, secrets_in
from sidecar.gateway.notify.notice import Notice
from sidecar.gateway.webhook import Webhook
from sidecar.store.ledger import AuditEntry
from sidecar.store.ports import ApprovalEvents
from sidecar.telemetry import TASK_FAILURES, WEBHOOKS, log

AGE_MAX_NS = 24 * 3600 * 10**9
"""How long a message is tried: no request for approval waits for a decision that long ago."""
_LOOK_SECONDS = 30.0
_FOLLOW_SECONDS = 5.0
_AGAIN_SECONDS = 5.0
_PAGE = 100
NOTICES_MAX = 1000
"""Notices that may wait at once, of all webhooks."""
_PAUSES = Pauses(initial_ns=10**9, max_ns=300 * 10**9)
_LOG = log("gateway")


class Notices:
    """``start`` begins, ``stop`` ends; safe without start and twice."""

    def __init__(
        self,
        ledger: ApprovalEvents,
        egress: Egress,
        webhooks: Sequence[Webhook],
        *,
        pages: str = "",
        pauses: Pauses = _PAUSES,
        now_ns: Callable[[], int] = clock.now_ns,
    ) -> None:
        self._ledger = ledger
        self._egress = egress
        self._webhooks = webhooks
        self._pages = pages
        self._pauses = pauses
        self._now_ns = now_ns
        self._tasks: list[asyncio.Task[None]] = []
        self._telling: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Give each new webhook its place at the chain's present end. Raises StoreUnavailable."""
        for hook in self._webhooks:
            if self._ledger.told_place(hook.name) is None:
                await self._ledger.told_until(hook.name, self._ledger.audit_end()[0])
        self._tasks = [
            asyncio.ensure_future(self._keep_expiring()),
            *(asyncio.ensure_future(self._keep_telling(hook)) for hook in self._webhooks),
        ]

    def tell(self, notice: Notice, webhook: str = "") -> bool:
        """Have a decision told to a webhook, or to all that take notices; False where none does, or
        as many wait as may."""
        hooks = [
            each
            for each in self._webhooks
            if "notice" in each.events
            and each.project in ("", notice.project)
            and webhook in ("", each.name)
        ]
        if not hooks or len(self._telling) + len(hooks) > NOTICES_MAX:
            WEBHOOKS.labels((webhook or "all") if hooks else "none", "dropped").inc()
            return False
        for hook in hooks:
            task = asyncio.ensure_future(self._tell_notice(hook, notice))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        return True

    async def stop(self) -> None:
        """End; what was not taken is told by the next start."""
        tasks, self._tasks = [*self._tasks, *self._telling], []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_expiring(self) -> None:
        """Resolve each request as its time runs out."""
        with self._ledger.approval_news() as watching:
            while True:
                seconds = _LOOK_SECONDS
                try:
                    due_ns = await self._ledger.expire_approvals(self._now_ns())
                except Exception as error:
                    TASK_FAILURES.labels("expire_approvals").inc()
                    _LOG.error("expire_approvals failed", why=error)
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                if due_ns is not None:
                    seconds = min(seconds, max(0.0, (due_ns - self._now_ns()) / 1e9))
                await watching.moved(seconds)

    async def _keep_telling(self, hook: Webhook) -> None:
        with self._ledger.approval_news() as watching:
            while True:
                seconds = _LOOK_SECONDS
                try:
                    if not self._ledger.leads("webhooks"):
                        seconds = _FOLLOW_SECONDS
                    elif await self._tell_some(hook):
                        continue
                except Exception as error:
                    TASK_FAILURES.labels("webhook").inc()
                    _LOG.error("webhook failed", webhook=hook.name, why=error)
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                await watching.moved(seconds)

    async def _tell_some(self, hook: Webhook) -> bool:
        """Whether there was anything to tell."""
        place = self._ledger.told_place(hook.name) or 0
        entries = self._ledger.approval_entries(place, _PAGE)
        for entry in entries:
            asked = entry.kind in message.LOUD or message.EVENTS[entry.kind] in hook.events
            if asked and hook.project in ("", entry.project):
                await self._tell(hook, entry)
            await self._ledger.told_until(hook.name, entry.seq)
        return bool(entries)

    async def _tell(self, hook: Webhook, entry: AuditEntry) -> None:
        await self._keep_trying(hook, entry.at_ns, lambda: self._attempt(hook, entry))

    async def _tell_notice(self, hook: Webhook, notice: Notice) -> None:
        id_, content = notices.message_id(notice), notices.body(notice)
        await self._keep_trying(hook, notice.at_ns, lambda: self._sent(hook, id_, content))

    async def _keep_trying(
        self, hook: Webhook, at_ns: int, attempt: Callable[[], Awaitable[tuple[str, str]]]
    ) -> None:
        """Until it is taken, or given up; each attempt counted."""
        for attempts in itertools.count(1):
            if self._now_ns() - at_ns >= AGE_MAX_NS:
                result, why = "too_old", "it is too old"
            else:
                result, why = await attempt()
            WEBHOOKS.labels(hook.name, result).inc()
            if result == "delivered":
                return
            _LOG.warning("webhook not taken", webhook=hook.name, result=result, why=why)
            if result != "failed":
                return
            dice = int.from_bytes(clock.random_bytes(4), "big") / 2**32
            await asyncio.sleep(self._pauses.after(attempts, None, dice) / 1e9)

    async def _attempt(self, hook: Webhook, entry: AuditEntry) -> tuple[str, str]:
        """One attempt: its result, and why it was not taken."""
        approval = self._ledger.find_approval(message.about(entry), entry.project)
        if approval is None:
            return "refused", "its request is gone"
        content = message.body(entry, approval, page_of(approval, self._pages))
        return await self._sent(hook, message.message_id(entry), content)

    async def _sent(self, hook: Webhook, id_: str, content: bytes) -> tuple[str, str]:
        """One message sent once: its result, and why it was not taken."""
        try:
            signed = message.headers(
                await asyncio.to_thread(secrets_in, hook.secret_file),
                id_,
                self._now_ns() // 10**9,
                content,
            )
            answer = await self._egress.request(
                hook.target,
                "POST",
                hook.path_query,
                signed,
                content,
                deadline_ns=duration_ns(hook.timeout),
            )
        except SecretUnusable as error:
            return "failed", str(error)
        except EgressFailed as error:
            return "failed", told(error)
        if 200 <= answer.status < 300:
            return "delivered", ""
        result = "failed" if message.is_retryable(answer.status) else "refused"
        return result, f"HTTP status {answer.status}"
