"""Base: a scenario that passes as it is, and what its own run showed of where to strike.

Rules
1. Operators aim at what the agent touches: rows it read, tools it called, how often.
2. What an operator needs and the scenario has not (a text, a second errand) it does not invent.
"""

from typing import Any

from msgspec import Struct

from sidecar.analyse.fuzz.draft import Draft
from sidecar.analyse.together.moves import History
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Scenario


class Base(Struct, frozen=True, kw_only=True):
    """``peers`` are the suite's other scenarios with their tables, ``calls`` the tools with the
    number of their calls in the run as it is.
    """

    draft: Draft
    group: TwinGroup
    history: History
    peers: tuple[tuple[Scenario, dict[str, dict[str, Any]]], ...] = ()

    @property
    def name(self) -> str:
        """The scenario's id."""
        return self.draft.scenario.id

    @property
    def calls(self) -> dict[str, int]:
        """How often each tool was called."""
        found: dict[str, int] = {}
        for move in self.history.moves:
            found[move.asked.tool] = found.get(move.asked.tool, 0) + 1
        return found

    def rows(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Entity, key and row of what the run read, else of the whole world."""
        read = {row for move in self.history.moves for row in move.reads}
        every = [
            (entity, key, row)
            for entity, rows in self.draft.tables.items()
            for key, row in rows.items()
        ]
        near = [one for one in every if f"{one[0].rpartition('.')[2]}/{one[1]}" in read]
        return near or every

    def fits(self, entity: str, row: dict[str, Any]) -> bool:
        """Whether the row may stand in that table."""
        return not self.group.row_problems("", entity, [row])
