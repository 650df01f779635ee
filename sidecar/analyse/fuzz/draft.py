"""A scenario while it is mutated: every row of its worlds in reach, and a scenario again after.

Rules
1. A draft is never edited in place; ``replace`` makes the next one.
2. What comes out is a scenario as a suite writes it: nothing of a mutation is known to the engine.
3. Only entities that a mutation touched are written out, so that a finding stays readable. The
   path that a scenario gives as one way to pass is none of the mutated one, and left out.
"""

from typing import Any

from msgspec import Struct, structs

from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Scenario

Rows = dict[str, dict[str, Any]]


class Draft(Struct, frozen=True, kw_only=True):
    """``tables`` is entity name (as the suite writes it) -> key -> row, after all mutations."""

    scenario: Scenario
    tables: dict[str, Rows]
    touched: tuple[str, ...] = ()

    def keys(self) -> frozenset[str]:
        """The keys of all rows."""
        return frozenset(key for rows in self.tables.values() for key in rows)

    def with_rows(self, entity: str, rows: Rows) -> "Draft":
        """The same with these rows in an entity."""
        return structs.replace(
            self,
            tables={**self.tables, entity: rows},
            touched=tuple(dict.fromkeys((*self.touched, entity))),
        )

    def with_(self, **fields: Any) -> "Draft":
        """The same with other fields of the scenario."""
        return structs.replace(self, scenario=structs.replace(self.scenario, **fields))

    def written(self) -> Scenario:
        """The scenario with its worlds in it."""
        state, clear = dict(self.scenario.state), list(self.scenario.clear)
        for entity in self.touched:
            state[entity] = tuple(self.tables[entity].values())
            if entity not in clear:
                clear.append(entity)
        return structs.replace(self.scenario, state=state, clear=tuple(clear), reference=None)


def draft(scenario: Scenario, group: TwinGroup) -> Draft:
    """The scenario with the rows that its world begins with."""
    tables: dict[str, Rows] = {}
    for name in names(group):
        twin, entity = group.entity(name)
        declared = group.twins[twin].declaration.entities[entity]
        given = scenario.clear
        rows = () if name in given or f"{twin}.{entity}" in given else declared.rows
        added = (*scenario.state.get(name, ()), *scenario.state.get(f"{twin}.{entity}", ()))
        tables[name] = {str(row[declared.key]): row for row in (*rows, *added)}
    return Draft(scenario=scenario, tables=tables)


def names(group: TwinGroup) -> tuple[str, ...]:
    """Every entity by the shortest name that is its own."""
    plain = [name for twin in group.twins.values() for name in twin.declaration.entities]
    return tuple(
        name if plain.count(name) == 1 else f"{twin.name}.{name}"
        for twin in group.twins.values()
        for name in twin.declaration.entities
    )
