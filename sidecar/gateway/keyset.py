"""The public halves of signing keys as a file: a JSON Web Key Set (RFC 7517, RFC 8037).

**Rules**
1. A key's id is the digest of its public half, whatever the file says: no file can pass one key off
   as another.
2. Revoked keys are in it, with when: what they signed before is still good, and the chain says what
   came after.
"""

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from sidecar.gateway.signing import key_id
from sidecar.store.signing import KnownKey

_PUBLIC_BYTES = 32


class NotAKeySet(ValueError):
    """A text that is none."""


def document(keys: Iterable[KnownKey]) -> dict[str, Any]:
    """The key set of these keys, in their order."""
    return {"keys": [_shown(each) for each in keys]}


def read(text: str) -> dict[str, bytes]:
    """The public keys of a set, by id. Raises NotAKeySet."""
    try:
        said: Any = json.loads(text)
        found = [_public(each) for each in said["keys"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise NotAKeySet("not a set of Ed25519 keys") from None
    if not found:
        raise NotAKeySet("no key is in it")
    return {key_id(public): public for public in found}


def _shown(key: KnownKey) -> dict[str, Any]:
    shown = {
        "kty": "OKP",
        "crv": "Ed25519",
        "use": "sig",
        "kid": key.kid,
        "x": base64.urlsafe_b64encode(key.public).rstrip(b"=").decode(),
        "signs_from_ns": str(key.signs_from_ns or key.created_at_ns),
    }
    return shown | ({"revoked_at_ns": str(key.revoked_at_ns)} if key.revoked else {})


def _public(said: Any) -> bytes:
    if said["kty"] != "OKP" or said["crv"] != "Ed25519":
        raise ValueError("another kind of key")
    text = said["x"]
    public = base64.b64decode(
        text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True
    )
    if len(public) != _PUBLIC_BYTES:
        raise ValueError("wrong length")
    return public
