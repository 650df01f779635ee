"""A service that shows somebody else's rows: the functions of a world with one foreign row let in.

Rules
1. Whose a row is, its entity's ``tenant`` field says; where an entity has none, or one tenant has
   all, nothing foreign can be shown.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sidecar.twins.declaration import Declaration
from sidecar.twins.world import World


class Foreign:
    """The functions of a world as a service without isolation evaluates them."""

    def __init__(self, declaration: Declaration, world: World) -> None:
        self._declaration = declaration
        self._world = world
        self.shown = False
        self.functions: Mapping[str, Callable[..., Any]] = {
            **world.functions,
            "row": self._row,
            "rows": self._rows,
        }

    def _row(self, entity: str, key: Any) -> Any:
        own = self._world.row(entity, key)
        return own if own is None else self._other(entity, own) or own

    def _rows(self, entity: str, wanted: Mapping[str, Any] | None = None) -> list[Any]:
        own = self._world.rows(entity, wanted)
        other = self._other(entity, own[0]) if own else None
        return own if other is None or other in own else [*own, other]

    def _other(self, entity: str, own: Mapping[str, Any]) -> Any:
        tenant = self._declaration.entities[entity].tenant
        if not tenant:
            return None
        for row in self._world.rows(entity):
            if row.get(tenant) != own.get(tenant):
                self.shown = True
                return row
        return None
