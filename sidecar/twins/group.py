"""The twins of one suite as one world: tools, entities and expressions by name across them.

Rules
1. A tool's name is unique in a group; an entity is ``twin.entity``, or plainly where that is
   unique.
2. Twins share one virtual clock per episode only in name: each moves its own by its own calls.
3. Events of all twins stand in one list, in the order they happened.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from processors.model.names import SideEffectClass
from processors.model.twin import Change, TwinEvent
from sidecar.errors import Problem
from sidecar.twins import decimals
from sidecar.twins.episode import Call, Episode, Reply, Setting
from sidecar.twins.twin import Twin
from sidecar.twins.world import NoSuchEntity, World


class Beginning(Struct, frozen=True, kw_only=True):
    """The initial state of an episode, by entity name as the suite writes it."""

    rows: dict[str, tuple[dict[str, Any], ...]] = {}
    clear: tuple[str, ...] = ()
    flags: dict[str, Any] = {}
    now_ns: int | None = None


class TwinGroup:
    """Compiled twins, immutable."""

    def __init__(self, twins: Sequence[Twin]) -> None:
        self.twins = {twin.name: twin for twin in twins}
        self._owner: dict[str, Twin] = {tool: twin for twin in twins for tool in twin.tools}
        names = Counter(name for twin in twins for name in twin.declaration.entities)
        self._entities: dict[str, tuple[str, str]] = {}
        for twin in twins:
            for name in twin.declaration.entities:
                self._entities[f"{twin.name}.{name}"] = (twin.name, name)
                if names[name] == 1:
                    self._entities[name] = (twin.name, name)

    @property
    def tools(self) -> dict[str, SideEffectClass]:
        """Every tool and its class."""
        return {
            name: tool.declared.class_
            for twin in self.twins.values()
            for name, tool in twin.tools.items()
        }

    def owner(self, tool: str) -> Twin | None:
        """The twin that declares the tool."""
        return self._owner.get(tool)

    def entity(self, name: str) -> tuple[str, str]:
        """Twin and entity of a name. Raises NoSuchEntity."""
        try:
            return self._entities[name]
        except KeyError:
            known = ", ".join(self._entities) or "none"
            raise NoSuchEntity(f"there is no entity {name!r}; known: {known}") from None

    def problems(self) -> list[Problem]:
        """Names that collide across twins."""
        tools = Counter(tool for twin in self.twins.values() for tool in twin.tools)
        return [
            Problem("twins", f"the tool {tool!r} is declared by {count} twins")
            for tool, count in tools.items()
            if count > 1
        ]

    def row_problems(self, path: str, name: str, rows: Sequence[Any]) -> list[Problem]:
        """What is wrong with rows meant for the entity of that name."""
        try:
            twin, entity = self.entity(name)
        except NoSuchEntity as error:
            return [Problem(path, str(error))]
        return self.twins[twin].row_problems(path, entity, rows)

    def open(self) -> dict[str, World]:
        """A new world of each twin."""
        return {name: World(twin.declaration) for name, twin in self.twins.items()}

    def digests(self) -> dict[str, str]:
        """The digest of each twin."""
        return {name: twin.digest() for name, twin in self.twins.items()}

    def code(self) -> dict[str, str]:
        """Of each twin written in Python, its code and that code's digest."""
        return {
            name: f"{twin.code.name} {twin.code.digest}"
            for name, twin in self.twins.items()
            if twin.code is not None
        }


class GroupEpisode:
    """One agent's run over the worlds of a group."""

    def __init__(self, group: TwinGroup, worlds: Mapping[str, World], setting: Setting) -> None:
        self.group = group
        self.events: list[TwinEvent] = []
        self.episodes = {
            name: Episode(twin, worlds[name], setting, self.events)
            for name, twin in group.twins.items()
        }

    def begin(self, beginning: Beginning) -> None:
        """Put the initial state into the worlds. Raises NoSuchEntity."""
        rows: dict[str, dict[str, tuple[dict[str, Any], ...]]] = {}
        clear: dict[str, list[str]] = {}
        for name, some in beginning.rows.items():
            twin, entity = self.group.entity(name)
            rows.setdefault(twin, {})[entity] = some
        for name in beginning.clear:
            twin, entity = self.group.entity(name)
            clear.setdefault(twin, []).append(entity)
        for name, episode in self.episodes.items():
            known = episode.world.flags
            episode.begin(
                rows.get(name, {}),
                clear=clear.get(name, ()),
                flags={flag: value for flag, value in beginning.flags.items() if flag in known},
                now_ns=beginning.now_ns,
            )

    def call(self, call: Call) -> Reply:
        """Answer one call by the twin that declares the tool."""
        twin = self.group.owner(call.tool)
        if twin is None:
            return self.gap(call.tool, f"no twin declares the tool {call.tool!r}", call.call_id)
        return self.episodes[twin.name].call(call)

    def gap(self, tool: str, detail: str, call_id: str = "") -> Reply:
        """Record that something no twin declares was asked for."""
        return next(iter(self.episodes.values())).gap(tool, detail, call_id=call_id)

    def changes(self) -> tuple[Change, ...]:
        """What differs from the start, over all twins."""
        return tuple(change for one in self.episodes.values() for change in one.changes())

    def close(self) -> bool:
        """Take everything back; whether every world is as it was before."""
        clean = [one.close() for one in self.episodes.values()]  # every one, leak or not
        return all(clean)

    def view(self) -> "GroupView":
        """The worlds as expectations see them."""
        return GroupView(self.group, {name: one.world for name, one in self.episodes.items()})


class GroupView:
    """The worlds of a group behind the functions of expressions."""

    def __init__(self, group: TwinGroup, worlds: Mapping[str, World]) -> None:
        self._group = group
        self._worlds = worlds
        self.functions: Mapping[str, Callable[..., Any]] = {
            "row": self.row,
            "rows": self._rows,
            "count": self._count,
            "sum": self._sum,
            "add": decimals.add,
            "subtract": decimals.subtract,
            "compare": decimals.compare,
            "text": decimals.text,
        }

    @property
    def flags(self) -> Mapping[str, Any]:
        """The flags of all twins."""
        return {
            name: value for world in self._worlds.values() for name, value in world.flags.items()
        }

    def row(self, entity: str, key: Any) -> Any:
        """The row, or None. Raises NoSuchEntity."""
        world, name = self._at(entity)
        return world.row(name, key)

    def _rows(self, entity: str, wanted: Mapping[str, Any] | None = None) -> Any:
        world, name = self._at(entity)
        return world.rows(name, wanted)

    def _count(self, entity: str, wanted: Mapping[str, Any] | None = None) -> int:
        world, name = self._at(entity)
        return world.count(name, wanted)

    def _sum(self, entity: str, field: str, wanted: Mapping[str, Any] | None = None) -> Any:
        world, name = self._at(entity)
        return world.sum(name, field, wanted)

    def _at(self, entity: str) -> tuple[World, str]:
        twin, name = self._group.entity(entity)
        return self._worlds[twin], name
