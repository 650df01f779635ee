"""What an operator asks for when an episode is opened: who acts in it, and how the world begins.

Rules
1. These records are the format of the control API; a key that is no field here is refused.
2. All that is wrong with a wish is found before anything is opened, with dotted paths.
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from processors.value import duration_ns
from sidecar.errors import Problem
from sidecar.twins import timeline
from sidecar.twins.declaration import time_problems
from sidecar.twins.group import Beginning, TwinGroup
from sidecar.twins.place import Setting
from sidecar.twins.rules import Fault, fault_problems

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_NS = 1_000_000_000
LIFE_NS_MAX = 7 * 24 * 3600 * _NS


class Wanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An episode: its name (empty: made up), whose token it is, what the caller may do, faults,
    seed and initial state as in a scenario, and how long its token holds.
    """

    name: str = ""
    agent: str = "agent"
    permissions: tuple[str, ...] = ("*",)
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    state: dict[str, tuple[dict[str, Any], ...]] = {}
    clear: tuple[str, ...] = ()
    flags: dict[str, Any] = {}
    now: str = ""
    life: str = "24h"

    def problems(self, group: TwinGroup) -> Iterator[Problem]:
        """What is wrong with it for these twins."""
        if self.name and not _NAME.match(self.name):
            yield Problem("name", f"{self.name!r} cannot be an episode's name")
        if not self.agent:
            yield Problem("agent", "is empty")
        for name, rows in self.state.items():
            yield from group.row_problems(f"state.{name}", name, rows)
        for index, name in enumerate(self.clear):
            yield from group.row_problems(f"clear.{index}", name, ())
        flags = {flag for twin in group.twins.values() for flag in twin.declaration.flags}
        for name in self.flags:
            if name not in flags:
                yield Problem(f"flags.{name}", f"there is no flag {name!r}")
        yield from fault_problems("faults", self.faults, list(group.tools))
        if self.now:
            yield from time_problems("now", self.now)
        try:
            if not 0 < duration_ns(self.life) <= LIFE_NS_MAX:
                yield Problem("life", "must be more than nothing and at most 7d")
        except ValueError as error:
            yield Problem("life", str(error))

    @property
    def setting(self) -> Setting:
        """What holds for the episode."""
        return Setting(
            agent=self.agent,
            permissions=frozenset(self.permissions),
            faults=self.faults,
            seed=self.seed,
        )

    @property
    def beginning(self) -> Beginning:
        """How the world begins."""
        return Beginning(
            rows=self.state,
            clear=self.clear,
            flags=self.flags,
            now_ns=timeline.start_ns(self.now) if self.now else None,
        )

    @property
    def life_ns(self) -> int:
        """How long the token holds."""
        return duration_ns(self.life)
