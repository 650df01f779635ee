"""The twins of one suite as one world: tools, entities and expressions by name across them.

Rules
1. A tool's name is unique in a group; an entity is ``twin.entity``, or plainly where that is
   unique.
2. The twins of an episode have one clock, which starts at the latest start any of them declares,
   and one journal: going back takes all of them back.
3. Events of all twins stand in one list, in the order they happened.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from processors.model.names import SideEffectClass
from processors.model.twin import Change, TwinEvent
from processors.value import duration_ns
from sidecar.errors import Problem
from sidecar.twins import decimals, timeline
from sidecar.twins.claimed import secret_fields, why_unfaithful
from sidecar.twins.episode import Call, Episode, Position, Reply, Setting
from sidecar.twins.governed import same_requests
from sidecar.twins.journal import Journal
from sidecar.twins.names import FLAGS, RECORDED
from sidecar.twins.snapshot import Snapshot, why_stale
from sidecar.twins.twin import Twin
from sidecar.twins.world import NoSuchEntity, World

_DAY_NS = 86_400 * 1_000_000_000
LEAKED = "twin_leak: the world was not as before"


def void(events: Sequence[TwinEvent]) -> str | None:
    """Why nothing may be concluded from these events; None where something may."""
    found = next((event for event in events if event.kind in ("gap", "error")), None)
    if found is None:
        return None
    code = "twin_gap" if found.kind == "gap" else "twin_error"
    return f"{code}: {found.tool}: {found.detail}"


def _age_within(as_of: str, age_max: str, now_ns: int) -> bool:
    """Whether what a twin was drafted from is no older than that, nor of a day yet to come."""
    return -_DAY_NS <= now_ns - timeline.start_ns(as_of) <= duration_ns(age_max)


class Beginning(Struct, frozen=True, kw_only=True):
    """The initial state of an episode, by entity name as the suite writes it."""

    rows: dict[str, tuple[dict[str, Any], ...]] = {}
    clear: tuple[str, ...] = ()
    flags: dict[str, Any] = {}
    now_ns: int | None = None


class TwinGroup:
    """Compiled twins, immutable; ``state`` is the snapshot their rows are of, if of one."""

    def __init__(self, twins: Sequence[Twin], state: Snapshot | None = None) -> None:
        self.state = state
        self._given = tuple(twins)
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

    @property
    def has_state(self) -> bool:
        """Whether the worlds say what came of a call: a recording's answers do not."""
        return any(name != RECORDED for name in self.twins)

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

    def told_entity(self, twin: str, entity: str) -> str:
        """How an entity is called among those of the group: plainly where that is enough."""
        plain = entity in self._entities or entity == FLAGS
        return entity if plain else f"{twin}.{entity}"

    @property
    def secrets(self) -> dict[str, tuple[str, ...]]:
        """The fields that twins declare secret, by entity as the suite writes it."""
        return {
            self.told_entity(name, entity): fields
            for name, twin in self.twins.items()
            for entity, fields in secret_fields(twin.declaration.secrets).items()
        }

    def why_unfaithful(self, name: str) -> str | None:
        """Why an expectation may not be about ``entity.field`` (or ``flags``); None where it may.

        Of several twins' flags each has to be faithful. Raises NoSuchEntity.
        """
        if name == FLAGS:
            said = (why_unfaithful(twin.declaration.fidelity, name) for twin in self.twins.values())
            return next((why for why in said if why is not None), None)
        twin, rest = self._property(name)
        declared = self.twins[twin].declaration
        entity, _, field = rest.partition(".")
        # The key is how a row is named: whoever is faithful about rows has it.
        asked = entity if field == declared.entities[entity].key else rest
        return why_unfaithful(declared.fidelity, asked)

    def _property(self, name: str) -> tuple[str, str]:
        first, _, more = name.partition(".")
        if first in self._entities:
            twin, entity = self._entities[first]
            return twin, f"{entity}.{more}".rstrip(".")
        second, _, field = more.partition(".")
        twin, entity = self.entity(f"{first}.{second}" if second else first)
        return twin, f"{entity}.{field}".rstrip(".")

    def problems(self) -> list[Problem]:
        """Names, and requests, that collide across twins."""
        names = Counter(twin.name for twin in self._given)
        tools = Counter(tool for twin in self._given for tool in twin.tools)
        found = [
            *(f"{count} twins are called {name!r}" for name, count in names.items() if count > 1),
            *(
                f"the tool {one!r} is declared by {count} twins"
                for one, count in tools.items()
                if count > 1
            ),
        ]
        declared = [twin.declaration for twin in self._given]
        return [Problem("twins", text) for text in found or same_requests(declared)]

    def row_problems(self, path: str, name: str, rows: Sequence[Any]) -> list[Problem]:
        """What is wrong with rows meant for the entity of that name."""
        try:
            twin, entity = self.entity(name)
        except NoSuchEntity as error:
            return [Problem(path, str(error))]
        return self.twins[twin].row_problems(path, entity, rows)

    def open(self) -> dict[str, World]:
        """A new world of each twin."""
        starts = (timeline.start_ns(one.declaration.clock.start) for one in self.twins.values())
        journal = Journal()
        clock = timeline.Timeline(journal, max(starts, default=0))
        return {name: World(twin.declaration, journal, clock) for name, twin in self.twins.items()}

    def digests(self) -> dict[str, str]:
        """The digest of each twin."""
        return {name: twin.digest() for name, twin in self.twins.items()}

    def stale(self, now_ns: int) -> list[str]:
        """Of each twin whose state is older than it declares, that and how old."""
        found = []
        for name, twin in self.twins.items():
            age_max = twin.declaration.state.age_max
            if age_max and self.state is None:
                as_of = twin.declaration.as_of
                if as_of and _age_within(as_of, age_max, now_ns):
                    continue
                found.append(f"{name}: it declares state.age_max, and its state is of no snapshot")
            elif self.state is not None:
                why = why_stale(self.state, age_max, now_ns)
                found += [f"{name}: {why}"] if why is not None else []
        return found

    def state_of(self, now_ns: int) -> dict[str, Any]:
        """What evidence says of the state: nothing where it is of no snapshot and none is asked
        for, else version, time, digest and age in seconds, and which twins it is too old for.
        """
        stale = self.stale(now_ns)
        if self.state is None:
            return {"stale": stale} if stale else {}
        return {
            "version": self.state.version,
            "taken_at": self.state.taken_at,
            "digest": self.state.digest,
            "age_seconds": max(0, now_ns - self.state.taken_at_ns) // 1_000_000_000,
            "stale": stale,
        }

    @property
    def permissions(self) -> dict[str, str]:
        """The permission that each tool needs, where it needs one."""
        return {
            name: tool.declared.permission
            for twin in self.twins.values()
            for name, tool in twin.tools.items()
            if tool.declared.permission
        }

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
        for episode in self.episodes.values():
            episode.company = self.episodes
        self._any = next(iter(self.episodes.values()))
        self._positions: list[Position] = []
        self._start = self._any.position()

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
        self._start = self._any.position()

    def call(self, call: Call) -> Reply:
        """Answer one call by the twin that declares the tool."""
        twin = self.group.owner(call.tool)
        if twin is None:
            return self.gap(call.tool, f"no twin declares the tool {call.tool!r}", call.call_id)
        self._positions.append(self._any.position())
        return self.episodes[twin.name].call(call)

    def gap(self, tool: str, detail: str, call_id: str = "") -> Reply:
        """Record that something no twin declares was asked for."""
        return self._any.gap(tool, detail, call_id=call_id)

    def finish(self) -> None:
        """Let what is still on its way happen, before the world is judged."""
        for episode in self.episodes.values():
            episode.deliver_held()
        settle_ns = max(episode.twin.settle_ns for episode in self.episodes.values())
        self._any.settle(self.now_ns + settle_ns)

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self._any.world.now_ns

    def wait_for_person(self, tool: str) -> int:
        """Move time on by what a person takes to decide on a call; see Episode."""
        twin = self.group.owner(tool)
        return 0 if twin is None else self.episodes[twin.name].wait_for_person(tool)

    def pause(self) -> None:
        """From now on calls take no time."""
        self._any.pause()

    def resume(self) -> None:
        """Let time run again."""
        self._any.resume()

    def step(self) -> bool:
        """Go to the next timer of any twin; whether there was one."""
        return self._any.step()

    def fast_forward(self, by_ns: int) -> None:
        """Move time on; what is due until then happens."""
        self._any.fast_forward(by_ns)

    def position(self) -> Position:
        """Where the episode is now."""
        return self._any.position()

    def before(self, calls: int) -> Position:
        """Where the episode was before its last ``calls`` calls, at the furthest its start."""
        if calls <= 0:
            return self.position()
        return self._positions[-calls] if calls <= len(self._positions) else self._start

    def rewind(self, position: Position) -> None:
        """Go back, in all twins: what happened since did not happen, and is not recorded."""
        for episode in self.episodes.values():
            episode.rewind(position)
        while self._positions and self._positions[-1].mark >= position.mark:
            self._positions.pop()

    def changes(self) -> tuple[Change, ...]:
        """What differs from the start, over all twins; an entity has its twin's name in front
        where two twins have one of that name."""
        return tuple(
            structs.replace(change, entity=self.group.told_entity(name, change.entity))
            for name, one in self.episodes.items()
            for change in one.changes()
        )

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
            "waiting": self._waiting,
            "add": decimals.add,
            "subtract": decimals.subtract,
            "compare": decimals.compare,
            "text": decimals.text,
        }

    @property
    def secrets(self) -> Mapping[str, tuple[str, ...]]:
        """The fields declared secret, by entity."""
        return self._group.secrets

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

    def _waiting(self, queue: str) -> list[Any]:
        twin, _, name = queue.rpartition(".")
        for world in [self._worlds[twin]] if twin in self._worlds else self._worlds.values():
            if name in world.queues:
                return world.waiting(name)
        raise NoSuchEntity(f"there is no queue {queue!r}")

    def _at(self, entity: str) -> tuple[World, str]:
        twin, name = self._group.entity(entity)
        return self._worlds[twin], name
