"""Principal: who is calling. The tenant of everything a caller does is the credential's project."""

from typing import Literal

from msgspec import Struct

from processors.model.names import PrincipalKind

KeyKind = Literal["agent", "approver", "reader", "admin"]


class Principal(Struct, frozen=True, kw_only=True):
    """An authenticated caller; ``id`` is stable and public, the secret is nowhere."""

    id: str
    kind: PrincipalKind
    project: str
    name: str = ""
    episode: str | None = None


class StoredKey(Struct, frozen=True, kw_only=True):
    """A key as the store keeps it."""

    key_id: str
    kind: KeyKind
    project: str
    name: str
    secret_sha256: str
    created_at_ns: int
    revoked_at_ns: int | None = None
