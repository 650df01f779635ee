"""Who is signed in to the pages: a session, with the credential it was opened with.

**Rules**
1. A session's id is random and lives in a cookie alone; the store has its digest. What it holds is
   sealed there, so that every sidecar on the store knows it, and nobody who reads the store does.
2. It proves nothing by itself: its credential is looked at again for every page and every vote, so
   that a key revoked meanwhile opens nothing.
3. It ends after a while unused, and after a longer while whatever is done; the least lately used
   give way where there are too many.
4. What changes anything carries the session's form token, which no other site can read.
"""

import hashlib
import hmac

import msgspec
from msgspec import Struct

from processors.model.principal import Presented

SESSIONS_MAX = 1024
IDLE_NS = 15 * 60 * 10**9
LIFETIME_NS = 8 * 3600 * 10**9
NOTED_NS = 60 * 10**9
"""How often it is noted that a session is used."""
TOKEN_BYTES = 32


class Session(Struct, frozen=True, kw_only=True):
    """One person's; times in nanoseconds."""

    presented: Presented
    form_token: str
    opened_at_ns: int

    def fits(self, form_token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(self.form_token.encode(), form_token.encode())

    def expires_at_ns(self, now_ns: int) -> int:
        """When it ends, used now and no more."""
        return min(now_ns + IDLE_NS, self.opened_at_ns + LIFETIME_NS)


def encode(session: Session) -> bytes:
    """A session as it is sealed."""
    return msgspec.msgpack.encode(session)


def decode(content: bytes) -> Session:
    """The session of what was sealed."""
    return msgspec.msgpack.decode(content, type=Session)


def digest_of(text: str) -> str:
    """What a session is found by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
