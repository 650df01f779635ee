"""What a person asks of a new key, made into its terms or into what is wrong with it.

Rules
1. A key has a kind or a role, and a project or an organisation, one of each.
2. An agent's key is of one project; only an agent's key is for some tools only.
"""

import re
from collections.abc import Collection

from msgspec import Struct

from processors.model.principal import KeyKind, Role, StoredKey
from sidecar.errors import SidecarError
from sidecar.identity.keys import KeyTerms
from sidecar.identity.projects import project_name
from sidecar.identity.roles import KIND_OF_ROLE

_TOOL = re.compile(r"[^,\s][^,]{0,255}\Z")


class Wanted(Struct, frozen=True, kw_only=True):
    """The words of the one who asks."""

    kind: KeyKind | None = None
    role: Role | None = None
    project: str | None = None
    organisation: str | None = None
    name: str = ""
    tools: tuple[str, ...] = ()
    owner: str = ""
    on_behalf_of: str = ""


def key_terms(
    wanted: Wanted, *, organisations: Collection[str], expires_at_ns: int | None
) -> KeyTerms:
    """The terms of the key. Raises SidecarError."""
    if (wanted.kind is None) == (wanted.role is None):
        raise SidecarError("a key has a kind or a role", where="--kind, --role", do="Name one.")
    kind = wanted.kind or KIND_OF_ROLE[_present(wanted.role)]
    if (wanted.project is None) == (wanted.organisation is None):
        raise SidecarError(
            "a key is of a project or of an organisation",
            where="--project, --organisation",
            do="Name one, e.g. --project default.",
        )
    if wanted.project is not None:
        project_name(wanted.project, where="--project")
    elif wanted.organisation is None or wanted.organisation not in organisations:
        raise SidecarError(
            f"there is no organisation {(wanted.organisation or '')[:80]!r} in the configuration",
            where="--organisation",
            do="Name one of the key organisations.",
        )
    elif kind == "agent":
        raise SidecarError("an agent's key is of one project", where="--organisation")
    if wanted.tools and kind != "agent":
        raise SidecarError("only an agent's key is for some tools", where="--tool")
    if wanted.owner and kind != "agent":
        raise SidecarError("only an agent has an owner; a person's key has a name", where="--owner")
    if wanted.on_behalf_of and kind != "agent":
        raise SidecarError("only an agent acts on behalf of a person", where="--on-behalf-of")
    if not all(map(_TOOL.match, wanted.tools)):
        raise SidecarError("is no tool's name", where="--tool", do="Name it as in gateway.tools.")
    return KeyTerms(
        kind=kind,
        role=wanted.role,
        project=wanted.project or "",
        organisation=wanted.organisation,
        name=wanted.name,
        tools=wanted.tools,
        expires_at_ns=expires_at_ns,
        owner=wanted.owner,
        on_behalf_of=wanted.on_behalf_of,
    )


def key_state(row: StoredKey, now_ns: int) -> str:
    """A word for people: active, expired, revoked, or rotating while two secrets open it."""
    if row.revoked_at_ns is not None:
        return "revoked"
    if row.expires_at_ns is not None and row.expires_at_ns <= now_ns:
        return "expired"
    overlapping = row.previous_until_ns is not None and now_ns < row.previous_until_ns
    return "rotating" if overlapping else "active"


def _present(role: Role | None) -> Role:
    assert role is not None, "without a kind there is a role"
    return role
