"""How long a recipe's "not done" proves nothing, and whose calls still run here.

**Rules**
1. A recipe that finds nothing says only that nothing is there yet: the upstream may still be at
   work. It counts from the tool's settle time on, and only when it is said twice, apart.
2. Time is this process's monotonic clock, from when it first met the unknown outcome, which
   is never before the attempt was sent. No wall clock shortens it; a restart begins it anew.
3. What is forgotten begins anew, which is safe: ``_MET_MAX`` bounds the memory.
"""

from sidecar.store.ledger import Claim, Fence

CONFIRM_NS = 1_000_000_000
"""How far apart two answers "not done" must be."""
_MET_MAX = 100_000
_Attempt = tuple[int, int]


class Settling:
    """The unknown outcomes this process has met. All times are monotonic nanoseconds."""

    def __init__(self) -> None:
        self._met: dict[_Attempt, int] = {}
        self._denied: dict[_Attempt, int] = {}

    def meet(self, claim: Claim | Fence, now_ns: int) -> None:
        """The outcome of this attempt is unknown, as of now at the latest."""
        attempt = (claim.claim_id, claim.fence)
        if attempt not in self._met and len(self._met) >= _MET_MAX:
            oldest = next(iter(self._met))
            del self._met[oldest]
            self._denied.pop(oldest, None)
        self._met.setdefault(attempt, now_ns)

    def not_done(self, claim: Claim, settle_ns: int, now_ns: int) -> int:
        """The recipe found nothing: how long until that can count, 0 when it does."""
        attempt = (claim.claim_id, claim.fence)
        self.meet(claim, now_ns)
        left_ns = self._met[attempt] + settle_ns - now_ns
        if left_ns > 0:
            return left_ns
        confirmed_ns = self._denied.setdefault(attempt, now_ns) + CONFIRM_NS
        return max(0, confirmed_ns - now_ns)

    def forget(self, claim: Claim) -> None:
        """The outcome is known."""
        attempt = (claim.claim_id, claim.fence)
        self._met.pop(attempt, None)
        self._denied.pop(attempt, None)
