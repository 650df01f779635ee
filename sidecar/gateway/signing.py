"""Ed25519 keys of the gateway: they sign receipts, approval tokens and audit heads.

**Rules**
1. One algorithm, Ed25519 (RFC 8032); a key's id is a digest of its public half.
2. Verifying never raises: a signature is good or it is not.
"""

import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sidecar.store.ledger import StoredSigningKey

PRIVATE_BYTES = 32


class SigningKey:
    """A key that signs; safe to share between threads."""

    def __init__(self, stored: StoredSigningKey) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(stored.private)
        self._kid = stored.kid
        self.public = stored.public

    @property
    def kid(self) -> str:
        """The key's id."""
        return self._kid

    def sign(self, data: bytes) -> bytes:
        """64 bytes over ``data``."""
        return self._private.sign(data)


class CurrentKey:
    """The key that signs at the moment, in one thread; another can take its place (``use``)."""

    def __init__(self) -> None:
        self._key: SigningKey | None = None

    def use(self, key: SigningKey) -> None:
        """Sign with this key from now on."""
        self._key = key

    @property
    def key(self) -> SigningKey:
        """The key itself, for who shares it with other threads."""
        assert self._key is not None, "a key is there before anything is signed"
        return self._key

    @property
    def kid(self) -> str:
        """The key's id."""
        return self.key.kid

    def sign(self, data: bytes) -> bytes:
        """64 bytes over ``data``."""
        return self.key.sign(data)


def make(private: bytes, now_ns: int) -> StoredSigningKey:
    """The key of 32 random bytes."""
    assert len(private) == PRIVATE_BYTES
    public = Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    return StoredSigningKey(
        kid=key_id(public), public=public, private=private, created_at_ns=now_ns
    )


def key_id(public: bytes) -> str:
    """The id of a public key: a digest of it."""
    return "ed25519-" + hashlib.sha256(public).hexdigest()[:16]


def verify(public: bytes, signature: bytes, data: bytes) -> bool:
    """Whether the public key's owner signed ``data``."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
