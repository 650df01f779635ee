"""Whether the sidecar is ready: asked of its parts, each time, and told in words.

**Rules**
1. Ready is what is true now: each check asks the part itself. A check that fails, or takes longer
   than ``CHECK_SECONDS``, is a reason against it.
2. Whoever asks often is told the answer of a moment ago: asking costs a commit in each store.
3. A reason names the part and what is wrong, no content and no key.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from sidecar import clock
from sidecar.errors import SidecarError, told

CHECK_SECONDS = 5.0
STUCK_SECONDS = 60.0
_KEPT_SECONDS = 1.0
_ASKED_AGAIN_SECONDS = 30.0

Check = Callable[[], Awaitable[str | None]]
"""What is wrong with one part, or None. May raise."""


def _now() -> float:
    return clock.monotonic_ns() / 1e9


class Readiness:
    """The checks of a sidecar's parts, by name."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._turn = asyncio.Lock()
        self._found: list[str] = []
        self._found_at = float("-inf")

    async def reasons(self) -> list[str]:
        """Why it is not ready; none when it is."""
        async with self._turn:
            if _now() - self._found_at >= _KEPT_SECONDS:
                told_each = await asyncio.gather(*map(self._ask, self._checks))
                self._found = [reason for reason in told_each if reason is not None]
                self._found_at = _now()
            return self._found

    async def _ask(self, name: str) -> str | None:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                wrong = await self._checks[name]()
        except TimeoutError:
            wrong = f"no answer within {CHECK_SECONDS:.0f} s"
        except Exception as error:
            wrong = error.what if isinstance(error, SidecarError) else told(error)
        return None if wrong is None else f"{name}: {wrong}"


class CursorWatch:
    """Whether a reader's cursor moves while something waits for it."""

    def __init__(
        self,
        waiting: Callable[[], int],
        cursor: Callable[[], int],
        now: Callable[[], float] = _now,
    ) -> None:
        self._waiting = waiting
        self._cursor = cursor
        self._now = now
        self._seen: int | None = None
        self._since = self._asked = 0.0

    async def check(self) -> str | None:
        """A ``Check``: it stood still for ``STUCK_SECONDS``, as far as was asked meanwhile."""
        now, place = self._now(), self._cursor()
        moved = place != self._seen or not self._waiting()
        if moved or now - self._asked > _ASKED_AGAIN_SECONDS:
            self._seen, self._since = place, now
        self._asked = now
        still = now - self._since
        return f"stands still for {still:.0f} s" if still >= STUCK_SECONDS else None


def holds(condition: Callable[[], bool], wrong: str) -> Check:
    """A check of what is known without asking."""

    async def check() -> str | None:
        return None if condition() else wrong

    return check


def answers(question: Callable[[], Awaitable[None]]) -> Check:
    """A check that raises when something is wrong."""

    async def check() -> str | None:
        await question()
        return None

    return check
