"""Rotation of data keys, of the keys of digests and of the keys that sign."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from processors.redact.masker import digest
from processors.redact.terms import Kind, RedactionKey
from sidecar import clock
from sidecar.app.opening import open_keys
from sidecar.app.sealing import check_keyring, keyring, master_key, redaction_keys
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.gateway import signing
from sidecar.store.redaction import RedactionKeys
from sidecar.store.sealing import GATEWAY_SEAL, seal_key
from sidecar.store.signing import AHEAD_SECONDS


class Digests(Struct, frozen=True, kw_only=True):
    """How a value looks under one key; ``retires_at_ns`` is None for the key in use."""

    key_id: str
    token: str
    hash: str
    retires_at_ns: int | None


@contextmanager
def open_redaction_keys(loaded: Loaded) -> Iterator[RedactionKeys]:
    """The keys of digests, opened with the seal key. Raises SidecarError."""
    with open_keys(loaded) as keys:
        yield redaction_keys(keys, keyring(keys, master_key(loaded)))


def rotate_redaction_key(loaded: Loaded, project: str, overlap_ns: int) -> RedactionKey:
    """Make a project's digests with a new key from now on; the one before stays for a while."""
    with open_redaction_keys(loaded) as keys:
        return keys.rotate(project, overlap_ns=overlap_ns, now_ns=clock.now_ns())


def rotate_data_key(loaded: Loaded, project: str) -> int:
    """Seal a project's operational bytes with a new key from now on; its number."""
    with open_keys(loaded) as keys:
        ring = keyring(keys, master_key(loaded))
        check_keyring(ring, [project], loaded)
        return ring.rotate(project, clock.now_ns())


def rotate_signing_key(loaded: Loaded, ahead_ns: int) -> tuple[str, int]:
    """Make a key known that signs from then on; its id, and from when. Raises SidecarError."""
    with open_keys(loaded, make=False) as keys:
        sealer = keyring(keys, master_key(loaded))(GATEWAY_SEAL)
        now_ns = clock.now_ns()
        made = signing.make(clock.random_bytes(signing.PRIVATE_BYTES), now_ns)
        if not keys.add_signing_key(seal_key(made, sealer), now_ns + ahead_ns):
            raise SidecarError(
                "there is no signing key that another could follow",
                do="Start a sidecar on this store first: it makes one.",
            )
    return made.kid, now_ns + ahead_ns


def revoke_signing_key(loaded: Loaded, kid: str) -> bool:
    """Revoke a signing key that another has followed for long enough; False where none has."""
    with open_keys(loaded, make=False) as keys:
        now_ns = clock.now_ns()
        return keys.revoke_signing_key(kid, now_ns, now_ns - int(AHEAD_SECONDS * 1e9))


def digests_of(loaded: Loaded, project: str, kind: Kind, value: str) -> list[Digests]:
    """What a value's digests are under each live key, that in use first."""
    with open_redaction_keys(loaded) as keys:
        live = keys.live(project, clock.now_ns())
    return [
        Digests(
            key_id=each.key.key_id,
            token=digest("tokenise", kind, value, each.key),
            hash=digest("hash", kind, value, each.key),
            retires_at_ns=each.retires_at_ns,
        )
        for each in live
    ]
