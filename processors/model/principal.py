"""Principal: who is calling. The tenant of everything a caller does is the credential's project."""

from typing import Literal

from msgspec import Struct

from processors.model.names import PrincipalKind

KeyKind = Literal["agent", "approver", "reader", "admin"]
Role = Literal["owner", "admin", "engineer", "reviewer", "viewer"]
"""What a person or a CI job is in a project; an agent has none."""


class Presented(Struct, frozen=True, kw_only=True):
    """What a caller shows: its ``Authorization`` value, and the names of a client certificate that
    the TLS handshake has verified, as ``uri:spiffe://…`` or ``dns:agent.internal``.

    ``audiences``: who it was shown to, as tokens name it; empty: what each provider is told."""

    authorization: str | None = None
    certificate: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()


class Grant(Struct, frozen=True, kw_only=True):
    """A role in one project."""

    project: str
    role: Role


class Principal(Struct, frozen=True, kw_only=True):
    """An authenticated caller; ``id`` is stable and public, the secret is nowhere.

    ``on_behalf_of``: the user an agent acts for, as its identity provider has said; empty where
    nobody has. ``role`` is None where the kind alone says it. ``owner``: who answers for an agent,
    by name, and never approves its calls. ``tools``: the only ones it may call, all where empty.
    ``grants``: the projects it may choose to act in, where there are more than ``project``.
    """

    id: str
    kind: PrincipalKind
    project: str
    name: str = ""
    episode: str | None = None
    role: Role | None = None
    tools: tuple[str, ...] = ()
    owner: str = ""
    on_behalf_of: str = ""
    grants: tuple[Grant, ...] = ()


class StoredKey(Struct, frozen=True, kw_only=True):
    """A key as the store keeps it.

    A key of an ``organisation`` has no project of its own. After a rotation the secret before it,
    ``previous_sha256``, opens until ``previous_until_ns``.
    """

    key_id: str
    kind: KeyKind
    project: str
    name: str
    secret_sha256: str
    created_at_ns: int
    revoked_at_ns: int | None = None
    role: Role | None = None
    organisation: str | None = None
    tools: tuple[str, ...] = ()
    expires_at_ns: int | None = None
    previous_sha256: str | None = None
    previous_until_ns: int | None = None
    owner: str = ""
