"""Kill switches and freezes: what they stop, and how they are set and lifted.

**Rules**
1. A kill stops every call in its scope, a freeze those with effects. What is stopped is decided by
   what is committed when it is asked, never by what somebody remembers.
2. One person sets a stop. A freeze is lifted by one person, a kill by two: identities count, not
   keys, and of who votes twice one vote counts.
3. Setting what is set, and lifting what is lifted, changes nothing.
"""

from typing import Literal

from msgspec import Struct

from processors.model.names import SideEffectClass
from sidecar.store.standing import person as named

StopKind = Literal["kill", "freeze"]
StopScope = Literal["project", "agent", "tool"]
BOTH: tuple[StopKind, ...] = ("kill", "freeze")
LIFTERS: dict[StopKind, int] = {"kill": 2, "freeze": 1}
CODES: dict[StopKind, str] = {"kill": "killed", "freeze": "frozen"}


class Lift(Struct, frozen=True, kw_only=True):
    """One person's word that a stop be lifted."""

    lifter: str
    reason: str
    at_ns: int


class Stop(Struct, frozen=True, kw_only=True):
    """A stop of a project, of one of its agents (``key:<id>``) or tools; ``subject`` is empty for
    the project itself. It stands until ``lifted_at_ns``."""

    stop_id: str
    project: str
    kind: StopKind
    scope: StopScope
    subject: str
    reason: str
    set_by: str
    set_at_ns: int
    lifted_at_ns: int | None = None
    lifts: tuple[Lift, ...] = ()

    def document(self) -> dict[str, str]:
        """What the audit chain keeps of its setting."""
        names = ("stop_id", "kind", "scope", "subject", "reason", "set_by")
        return {name: getattr(self, name) for name in names}


class LiftBallot(Struct, frozen=True, kw_only=True):
    """A vote to lift a stop; ``identity`` is the person, ``lifter`` the principal."""

    project: str
    stop_id: str
    lifter: str
    identity: str
    reason: str
    now_ns: int


def kinds_that_stop(class_: SideEffectClass) -> tuple[StopKind, ...]:
    """Which stops a call of this class falls under."""
    return ("kill",) if class_ == "read" else BOTH


def strongest(kinds: list[StopKind]) -> str | None:
    """The code of the strongest stop there is, or None."""
    return next((CODES[kind] for kind in BOTH if kind in kinds), None)


def why_not_lifted(stop: Stop | None) -> str | None:
    """The code of why there is nothing to lift, or None."""
    if stop is None:
        return "no_such_stop"
    return None if stop.lifted_at_ns is None else "stop_lifted"


def person(name: str, principal: str) -> str:
    """Whom a vote counts for: a person has one, whatever number of keys."""
    return named(name) or principal
