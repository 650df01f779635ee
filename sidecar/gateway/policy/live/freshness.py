"""How old what decides may get: since when it could not be refreshed, or has been out of its time.

**Rules**
1. What is stale decides on, and is told of; beyond ``most_ns`` nothing is decided by it.
2. Time since is counted by a clock that nobody sets: a wall clock that is set back makes nothing
   young again.
"""

DAY_NS = 86_400 * 10**9


class Freshness:
    """Of one bundle. ``now_ns`` is the wall clock, ``steady_ns`` one that only goes on."""

    def __init__(self, most_ns: int = DAY_NS) -> None:
        self._most_ns = most_ns
        self._expires_ns: int | None = None
        self._failed_ns: int | None = None
        self._expired_ns: int | None = None

    def refreshed(self, expires_s: int | None) -> None:
        """It was read again and is good until then, for ever where None."""
        if expires_s is None or self._expires_ns != expires_s * 10**9:
            self._expired_ns = None
        self._failed_ns = None
        self._expires_ns = None if expires_s is None else expires_s * 10**9

    def failed(self, steady_ns: int) -> None:
        """It could not be refreshed."""
        if self._failed_ns is None:
            self._failed_ns = steady_ns

    def stale_ns(self, now_ns: int, steady_ns: int) -> int:
        """For how long it has been stale, 0 where it is not."""
        if self._expires_ns is not None and self._expired_ns is None and now_ns >= self._expires_ns:
            self._expired_ns = steady_ns - (now_ns - self._expires_ns)
        since = [each for each in (self._failed_ns, self._expired_ns) if each is not None]
        return max((steady_ns - each for each in since), default=0)

    def too_old(self, now_ns: int, steady_ns: int) -> bool:
        """Whether nothing may be decided by it any more."""
        if self._expires_ns is None and self._failed_ns is None:
            return False
        return self.stale_ns(now_ns, steady_ns) > self._most_ns
