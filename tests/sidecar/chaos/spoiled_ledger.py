"""Ledgers for a crash proof: without the write-ahead intent, the fault that it is there to find;
and one that is busy at first, which is none.
"""

from msgspec import structs

from sidecar.errors import StoreUnavailable
from sidecar.store.ledger import Committed, Fence


class NoIntent:
    """Says that intents are durable, and writes them only with their outcome."""

    def __init__(self, ledger):
        self._ledger = ledger
        self._held = {}

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    async def commit_intent(self, intent):
        fence = Fence(claim_id=-len(self._held) - 1, fence=1)
        self._held[fence.claim_id] = intent
        return Committed(claim=fence)

    async def mark_sent(self, claim, now_ns, kinds):
        return True

    async def record(self, outcome):
        if outcome.end is None or outcome.end.claim.claim_id not in self._held:
            return await self._ledger.record(outcome)
        intent = self._held[outcome.end.claim.claim_id]
        made = await self._ledger.commit_intent(intent)
        if not isinstance(made, Committed):
            return False
        await self._ledger.mark_sent(made.claim, intent.now_ns)
        end = structs.replace(outcome.end, claim=made.claim)
        return await self._ledger.record(structs.replace(outcome, end=end))


def without_intent(ledger):
    return NoIntent(ledger)


class Busy:
    """Takes no intent of the first call of each life."""

    def __init__(self, ledger):
        self._ledger = ledger
        self._refused = False

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    async def commit_intent(self, intent):
        if not self._refused:
            self._refused = True
            raise StoreUnavailable("busy")
        return await self._ledger.commit_intent(intent)


def busy_at_first(ledger):
    return Busy(ledger)
