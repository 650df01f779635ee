"""Signing keys that follow one another: which of them signs, and what may still be signed by whom.

**Rules**
1. A new key is told of before it signs, by more than any process takes to look (``LOOK_SECONDS``):
   whoever reads a signature knows its key already.
2. The key that signs is the newest of those whose time has come and that are not revoked.
3. Only a key that another has followed for a while can be revoked. From then on nothing that it
   signed is committed, and an entry after its revocation that it signed is a fault of the chain.
"""

from collections.abc import Sequence

from msgspec import Struct

LOOK_SECONDS = 10.0
"""How often a process looks which key signs."""
AHEAD_SECONDS = 30.0
"""How long a new key is known before it signs, and signs before the one it follows can be revoked;
at the least ``2 * LOOK_SECONDS``."""


class KnownKey(Struct, frozen=True, kw_only=True):
    """A signing key as everybody may know it; ``public`` is 32 raw bytes."""

    kid: str
    public: bytes
    created_at_ns: int
    signs_from_ns: int
    revoked_at_ns: int | None

    @property
    def revoked(self) -> bool:
        """Whether nothing is signed with it any more, and no token of it is good."""
        return self.revoked_at_ns is not None


def signing(keys: Sequence[KnownKey], now_ns: int) -> KnownKey | None:
    """The key that signs now; None where there is none."""
    able = [key for key in keys if not key.revoked and key.signs_from_ns <= now_ns]
    return max(able, key=lambda key: (key.signs_from_ns, key.created_at_ns), default=None)
