"""Circumstances: what a verdict depends on beside the runs, as it stood when it was given.

**Rules**
1. They are part of the gate's input: kept in the evidence, in the verdict's digest, and handed to
   whoever makes the verdict again.
2. What nobody asked for (no floor, no pinned tape, no age) is not there, and decides nothing.
3. Of a twin that is too old the verdict's digest has that it is, never by how much.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from sidecar.replay.pinned.told import TapeReplayed


class Stopped(Struct, frozen=True, kw_only=True):
    """A kill or freeze in force for what would be released."""

    kind: Literal["kill", "freeze"]
    scope: Literal["project", "agent", "tool"]
    subject: str
    reason: str = ""

    def text(self) -> str:
        """Which, of what."""
        of = f" {self.subject}" if self.subject else ""
        return f"{self.kind} of {self.scope}{of}"


class Circumstances(Struct, frozen=True, kw_only=True):
    """``coverage`` says each surface that is below the floor of the policy; empty of none."""

    stops: tuple[Stopped, ...] = ()
    tapes: tuple[TapeReplayed, ...] = ()
    coverage: tuple[str, ...] = ()


NONE: Final = Circumstances()


def stale(twin_state: Mapping[str, Any]) -> tuple[str, ...]:
    """The twins whose state is older than they declare, as ``TwinGroup.state_of`` tells: names."""
    return tuple(str(one).partition(":")[0] for one in twin_state.get("stale", ()))


def new_permissions(
    permissions: Mapping[str, str], before: Iterable[str], now: Iterable[str]
) -> tuple[str, ...]:
    """What the candidate's tools need and the baseline's did not; ``permissions`` by tool."""
    known = {permissions.get(tool, "") for tool in before} | {""}
    return tuple(sorted({permissions.get(tool, "") for tool in now} - known))
