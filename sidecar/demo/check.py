"""Check and Act: what the demo shows, as data, and whether it really held.

Rules
1. Nothing is shown that is not checked: an act is the facts it rests on.
2. A check that fails is named and fails the demo; one that an option rules out is *waived*, with
   the option and the consequence in its detail.
"""

from msgspec import Struct


class Check(Struct, frozen=True, kw_only=True):
    """One fact. ``held`` None = waived: an option of the demo has another consequence."""

    name: str
    held: bool | None
    detail: str = ""


class Ids(Struct, frozen=True, kw_only=True):
    """What an act left behind, to be looked up with ``show``."""

    traces: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    approvals: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()


class Act(Struct, frozen=True, kw_only=True):
    """One scene of the demo: what happened, in plain sentences, the facts, and the ids."""

    name: str
    story: tuple[str, ...]
    checks: tuple[Check, ...]
    ids: Ids = Ids()

    @property
    def held(self) -> bool:
        """Whether no check failed."""
        return all(check.held is not False for check in self.checks)
