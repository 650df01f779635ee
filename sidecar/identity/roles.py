"""What each role may do, as one table that every listener reads; and in which project.

Rules
1. An agent can send telemetry and ask for calls; it can never approve, read the store, or manage
   keys.
2. A reviewer can decide approvals, say what became of calls nobody knows of, and read; nobody who
   decides can call tools.
3. What is not in the table is refused.
4. A caller acts in one project at a time, one that its credential names; an agent names none.
"""

from typing import Literal

from msgspec.structs import replace

from processors.model.names import PrincipalKind
from processors.model.principal import Grant, KeyKind, Principal, Role

Permission = Literal[
    "telemetry.write",
    "tools.call",
    "store.read",
    "approvals.decide",
    "calls.stop",
    "calls.resume",
    "calls.resolve",
    "keys.agents",
    "keys.people",
    "keys.owners",
]
Actor = Literal["agent"] | Role
"""A row's name: a role, or an agent, which has none."""

ROLES: tuple[Role, ...] = ("owner", "admin", "engineer", "reviewer", "viewer")

PERMISSIONS: dict[Permission, frozenset[Actor]] = {
    "telemetry.write": frozenset({"agent"}),
    "tools.call": frozenset({"agent"}),
    "store.read": frozenset({"owner", "admin", "engineer", "reviewer", "viewer"}),
    "approvals.decide": frozenset({"owner", "reviewer"}),
    "calls.stop": frozenset({"owner", "admin", "engineer", "reviewer"}),
    "calls.resume": frozenset({"owner", "admin", "reviewer"}),
    "calls.resolve": frozenset({"owner", "reviewer"}),
    "keys.agents": frozenset({"owner", "admin", "engineer"}),
    "keys.people": frozenset({"owner", "admin"}),
    "keys.owners": frozenset({"owner"}),
}

ACTOR_OF_KIND: dict[PrincipalKind, Actor] = {
    "agent": "agent",
    "episode": "agent",
    "approver": "reviewer",
    "reader": "viewer",
    "admin": "admin",
}
KIND_OF_ROLE: dict[Role, KeyKind] = {
    "owner": "admin",
    "admin": "admin",
    "engineer": "reader",
    "reviewer": "approver",
    "viewer": "reader",
}


class Forbidden(Exception):
    """The principal is known and may not do this."""


def actor(principal: Principal) -> Actor:
    """Which row of the table a principal is."""
    if principal.kind in ("agent", "episode") or principal.role is None:
        return ACTOR_OF_KIND[principal.kind]
    return principal.role


def allows(principal: Principal, permission: Permission) -> bool:
    """Whether the principal may do this in the project it acts in."""
    return actor(principal) in PERMISSIONS[permission]


def require(principal: Principal, permission: Permission) -> None:
    """Raises Forbidden unless the principal has the permission."""
    if not allows(principal, permission):
        raise Forbidden(f"a credential of {_told(principal)} has no permission {permission}")


def acting_in(principal: Principal, project: str | None) -> Principal:
    """The principal as it acts in a project that it names, or in its own.

    Raises Forbidden for a project that it has no part in, whether there is one of that name or not,
    and for an agent that names any.
    """
    if project is None:
        return principal
    if actor(principal) == "agent":
        raise Forbidden("an agent's project is its credential's; it names none")
    grant = _grant(principal, project)
    if grant is None:
        raise Forbidden("the credential has no part in that project")
    return replace(principal, project=project, role=grant.role, kind=KIND_OF_ROLE[grant.role])


def projects_of(principal: Principal) -> tuple[str, ...]:
    """Every project the principal may act in, its own first."""
    return tuple(dict.fromkeys((principal.project, *(each.project for each in principal.grants))))


def _grant(principal: Principal, project: str) -> Grant | None:
    for each in principal.grants:
        if each.project == project:
            return each
    role = actor(principal)
    if project == principal.project and role != "agent":
        return Grant(project=project, role=role)
    return None


def _told(principal: Principal) -> str:
    of = f"kind {principal.kind}"
    return of if principal.role is None else f"{of} and role {principal.role}"
