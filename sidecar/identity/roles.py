"""What each kind of principal may do. One table, read by every listener.

Rules
1. An agent can send telemetry and ask for calls; it can never approve, read the store, or manage
   keys.
2. An approver can decide approvals and read; it cannot call tools.
3. What is not in the table is refused.
"""

from typing import Literal

from processors.model.names import PrincipalKind
from processors.model.principal import Principal

Permission = Literal[
    "telemetry.write", "tools.call", "approvals.decide", "store.read", "keys.manage"
]

PERMISSIONS: dict[PrincipalKind, frozenset[Permission]] = {
    "agent": frozenset({"telemetry.write", "tools.call"}),
    "episode": frozenset({"telemetry.write", "tools.call"}),
    "approver": frozenset({"approvals.decide", "store.read"}),
    "reader": frozenset({"store.read"}),
    "admin": frozenset({"store.read", "keys.manage"}),
}


class Forbidden(Exception):
    """The principal is known and may not do this."""


def require(principal: Principal, permission: Permission) -> None:
    """Raises Forbidden unless the principal's kind has the permission."""
    if permission not in PERMISSIONS[principal.kind]:
        raise Forbidden(f"a credential of kind {principal.kind} has no permission {permission}")
