"""What the strict replay of a pinned tape came to, from what the command tells.

**Rules**
1. Only "as recorded" is good. A replay that could not be made, or was ended, tells nothing of the
   candidate: it is unreplayable, never good and never a drift.
2. A candidate that crashes on its tape has left it.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Replay = Literal["as_recorded", "declared", "drifted", "unreplayable"]
_LEFT = ("miss", "diverged", "target_crash")


class TapeReplayed(Struct, frozen=True, kw_only=True):
    """The candidate's strict replay of a tape that the suite pins. ``sha256`` is the tape's,
    ``kind`` that of its drift; one that the suite declares is ``declared``."""

    tape: str
    came_to: Replay
    sha256: str = ""
    kind: str = ""
    detail: str = ""

    def text(self) -> str:
        """Which tape, and why not."""
        why = ": ".join(one for one in (self.kind, self.detail) if one)
        return f"{self.tape}: {why or self.came_to}"


def came_to(
    tape: str, sha256: str, told: Mapping[str, Any], declared: tuple[str, ...]
) -> TapeReplayed:
    """From the JSON of ``sidecar tape replay --output json``."""
    outcome, drift = str(told.get("outcome", "")), told.get("drift") or {}
    kind, detail = str(drift.get("kind", "")), str(told.get("title", ""))
    if outcome == "ok":
        return TapeReplayed(tape=tape, sha256=sha256, came_to="as_recorded")
    if outcome not in _LEFT or kind == "INCOMPARABLE":
        return TapeReplayed(tape=tape, sha256=sha256, came_to="unreplayable", detail=detail)
    return TapeReplayed(
        tape=tape,
        sha256=sha256,
        came_to="declared" if kind in declared else "drifted",
        kind=kind or "CRASH",
        detail=str(drift.get("reason", "")) or detail,
    )
