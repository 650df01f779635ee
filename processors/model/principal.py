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


class Authn(Struct, frozen=True, kw_only=True):
    """How a caller proved who they are. ``acr``, ``amr``, ``auth_time_ns``: how and when a person
    signed in, as their identity provider says (OpenID Connect Core §2); a key says none of it."""

    method: Literal["key", "certificate", "token"] = "key"
    acr: str | None = None
    amr: tuple[str, ...] = ()
    auth_time_ns: int | None = None


class StepUp(Struct, frozen=True, kw_only=True):
    """What a vote demands of its voter's sign-in: an ``acr`` that is one of these, an ``amr`` that
    has all of these, at most ``max_age_s`` ago. What is empty is not demanded."""

    acr: tuple[str, ...] = ()
    amr: tuple[str, ...] = ()
    max_age_s: int | None = None


class Grant(Struct, frozen=True, kw_only=True):
    """A role in one project."""

    project: str
    role: Role


class Principal(Struct, frozen=True, kw_only=True):
    """An authenticated caller; ``id`` is stable and public, the secret is nowhere.

    ``on_behalf_of``: the person an agent acts for, by name, as its credential says, who never
    approves its calls; empty where it names nobody. ``role`` is None where the kind alone says it.
    ``owner``: who answers for an agent, by name, and never approves its calls. ``tools``: the only
    ones it may call, all where empty. ``grants``: the projects it may choose to act in, where there
    are more than ``project``.
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
    authn: Authn = Authn()


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
    on_behalf_of: str = ""
