"""Keys of callers: made, rotated, revoked."""

from processors.model.principal import StoredKey
from sidecar import clock
from sidecar.identity.keys import KeyTerms, mint_key, rotated
from sidecar.store.backend import (
    KeyBook,
)


def create_key(keys: KeyBook, terms: KeyTerms) -> tuple[str, StoredKey]:
    """A new key's text, shown once, and its stored row."""
    text, row = new_key(terms)
    keys.add_key(row)
    return text, row


def rotate_key(keys: KeyBook, key_id: str, overlap_ns: int) -> tuple[str, StoredKey] | None:
    """A key's new text, shown once, and its row; None where there is none to rotate."""
    found = keys.find_key(key_id)
    if found is None:
        return None
    until_ns = clock.now_ns() + overlap_ns
    text, row = rotated(found, secret_bytes=clock.random_bytes(32), until_ns=until_ns)
    return (text, row) if keys.rotate_key(key_id, row.secret_sha256, until_ns) else None


def new_key(terms: KeyTerms) -> tuple[str, StoredKey]:
    """A key that no store knows yet: its text and its row."""
    return mint_key(
        terms,
        id_bytes=clock.random_bytes(8),
        secret_bytes=clock.random_bytes(32),
        now_ns=clock.now_ns(),
    )


def revoke_key(keys: KeyBook, key_id: str) -> bool:
    """Revoke now; False when there is no such key."""
    return keys.revoke_key(key_id, clock.now_ns())
