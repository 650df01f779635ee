"""Several agents in one scenario: who they are, and whose turn it is.

Rules
1. Agents of a scenario share its world, its seed and its faults; each has an input of its own.
2. Left alone, an agent goes on until a call is refused or it ends; ``schedule`` says where another
   goes on instead.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from sidecar.errors import Problem


class AgentTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent's errand; its request names it as ``agent``."""

    name: str
    input: Any = ""
    messages: tuple[dict[str, Any], ...] = ()


class Switch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After so many calls of the run, it is the turn of the agent ``run``."""

    after: int
    run: str


def company_problems(
    path: str, agents: Sequence[AgentTask], schedule: Sequence[Switch]
) -> Iterator[Problem]:
    """What is wrong with the agents of a scenario and their turns."""
    names = [one.name for one in agents]
    if len(agents) == 1:
        yield Problem(f"{path}.agents", "one agent needs no list: give its input to the scenario")
    for index, name in enumerate(names):
        if not name or name in names[:index]:
            yield Problem(f"{path}.agents.{index}.name", f"{name!r} is empty or stands twice")
    last = -1
    for index, switch in enumerate(schedule):
        where = f"{path}.schedule.{index}"
        if switch.run not in names:
            known = ", ".join(names) or "none"
            yield Problem(f"{where}.run", f"there is no agent {switch.run!r}; known: {known}")
        if switch.after <= last:
            yield Problem(f"{where}.after", "must grow from one switch to the next, from 0")
        last = switch.after
