"""News of approvals within one process: who waits is told that a request may have changed.

**Rules**
1. News says that something may have changed, never what: who is told looks for themselves.
2. It is told after the change is committed, so that who looks then sees it; and who begins to watch
   before they look misses nothing.
3. Telling may happen in any thread; each watcher wakes in its own event loop. Nobody is waited for.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Watch:
    """One watcher's end; ``moved`` is for the loop it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    async def moved(self, seconds: float) -> None:
        """Returns as soon as there is news since the last return, at the latest after a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()

    def tell(self) -> None:
        """Wake it, from any thread."""
        with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
            self._loop.call_soon_threadsafe(self._event.set)


class News:
    """Who watches what."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watching: dict[str | None, set[Watch]] = {}

    @contextmanager
    def watch(self, approval_id: str | None = None) -> Iterator[Watch]:
        """Watch one request, or all of them."""
        made = Watch()
        with self._lock:
            self._watching.setdefault(approval_id, set()).add(made)
        try:
            yield made
        finally:
            with self._lock:
                watching = self._watching[approval_id]
                watching.discard(made)
                if not watching:
                    del self._watching[approval_id]

    def tell(self, approval_id: str | None) -> None:
        """A request may have changed; None: any may have."""
        with self._lock:
            names = self._watching if approval_id is None else (approval_id, None)
            told = [each for name in names for each in self._watching.get(name, ())]
        for each in told:
            each.tell()
