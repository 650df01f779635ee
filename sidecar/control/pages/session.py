"""Who is signed in to the pages: sessions in memory, each with the credential it was opened with.

**Rules**
1. A session's id is random, lives in a cookie alone, and only its digest is kept here.
2. It proves nothing by itself: its credential is looked at again for every page and every vote, so
   that a key revoked meanwhile opens nothing.
3. It ends after a while unused, and after a longer while whatever is done; the oldest gives way
   where there are too many. A restart ends all.
4. What changes anything carries the session's form token, which no other site can read.
"""

import hashlib
import hmac
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from processors.model.principal import Presented

SESSIONS_MAX = 256
IDLE_NS = 15 * 60 * 10**9
LIFETIME_NS = 8 * 3600 * 10**9
_TOKEN_BYTES = 32


class Session(Struct, frozen=True, kw_only=True):
    """One person's; times in nanoseconds."""

    presented: Presented
    form_token: str
    opened_at_ns: int
    used_at_ns: int

    def ended(self, now_ns: int) -> bool:
        """Whether its time is over."""
        return now_ns - self.used_at_ns >= IDLE_NS or now_ns - self.opened_at_ns >= LIFETIME_NS

    def fits(self, form_token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.form_token.encode(), form_token.encode())


class Sessions:
    """All that are open. ``random`` gives so many bytes."""

    def __init__(self, random: Callable[[int], bytes]) -> None:
        self._random = random
        self._open: dict[str, Session] = {}

    def open(self, presented: Presented, now_ns: int) -> str:
        """A new session's id."""
        for name in [name for name, each in self._open.items() if each.ended(now_ns)]:
            del self._open[name]
        while len(self._open) >= SESSIONS_MAX:
            del self._open[min(self._open, key=lambda name: self._open[name].used_at_ns)]
        text = self._random(_TOKEN_BYTES).hex()
        self._open[_digest(text)] = Session(
            presented=presented,
            form_token=self._random(_TOKEN_BYTES).hex(),
            opened_at_ns=now_ns,
            used_at_ns=now_ns,
        )
        return text

    def find(self, text: str | None, now_ns: int) -> Session | None:
        """The session of an id, used now; None where there is none any more."""
        if not text:
            return None
        name = _digest(text)
        found = self._open.get(name)
        if found is None:
            return None
        if found.ended(now_ns):
            del self._open[name]
            return None
        used = self._open[name] = replace(found, used_at_ns=now_ns)
        return used

    def close(self, text: str | None) -> None:
        """End one."""
        if text:
            self._open.pop(_digest(text), None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
