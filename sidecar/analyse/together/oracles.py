"""What can go wrong between agents that each do right: read off the history of a run.

Rules
1. An oracle needs no scenario that mentions it: it looks at who read and changed which row.
2. Deadlock: the run is stuck and the wait-for graph has a cycle (Coffman et al., 1971). One waits
   for who last changed a row that its refused (or repeated) call reads.
3. Lost update: a row that one read, another changed, and the first then changed in the same field
   to a value that came from its own arguments, by a tool that does not look at the field before.
4. Double booking: two agents' effects under one ``effect_key`` that the tool declares.
5. Starvation: refused ``bound`` times in a row while others went on.
6. Not serialisable: all ended, and no order of running them one after another ends in that state.
7. A conflict's cause is who took part and over what: two deadlocks of different causes stay two.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec
from msgspec import Struct

from processors.model.twin import TwinEvent
from sidecar.analyse.together.moves import History, Move
from sidecar.twins.declaration import MergeEffect, SetEffect
from sidecar.twins.group import TwinGroup

ConflictKind = Literal[
    "deadlock",
    "abandoned_resource",
    "livelock",
    "lost_update",
    "double_booking",
    "starvation",
    "not_serialisable",
]


_MEMBER = re.compile(r"(\w+)\.(\w+)")
_OWN = frozenset({"arguments", "caller", "call", "flags"})


class Conflict(Struct, frozen=True, kw_only=True):
    """One thing that went wrong between agents; ``moves`` are the calls that show it."""

    kind: ConflictKind
    agents: tuple[str, ...]
    resources: tuple[str, ...]
    detail: str
    moves: tuple[int, ...] = ()

    @property
    def cause(self) -> str:
        """The same for the same conflict, however it came about."""
        return f"{self.kind}:{'+'.join(sorted(self.agents))}:{'+'.join(sorted(self.resources))}"


def conflicts(
    history: History, events: Sequence[TwinEvent], group: TwinGroup, *, bound: int = 12
) -> tuple[Conflict, ...]:
    """All but serialisability, which needs other runs (``unserialised``)."""
    if len(history.agents) < 2:
        return ()
    return (
        *_stuck(history),
        *_double_bookings(history, events, group),
        *_lost_updates(history, group),
        *_starved(history, bound),
    )


def unserialised(
    history: History, end: object, serial: Mapping[tuple[str, ...], object]
) -> tuple[Conflict, ...]:
    """Whether the state after the run is that of no serial order; ``serial`` are theirs."""
    if history.stuck or None in history.ends.values() or any(end == one for one in serial.values()):
        return ()
    written = sorted({row for move in history.moves for row in move.writes})
    return (
        Conflict(
            kind="not_serialisable",
            agents=history.agents,
            resources=tuple(sorted({row.partition("/")[0] for row in written})),
            detail=f"the end is that of none of {len(serial)} orders one after another",
        ),
    )


def _stuck(history: History) -> list[Conflict]:
    if not history.stuck:
        return []
    waits = {name: _waits_for(history, name) for name, end in history.ends.items() if end is None}
    cycle = _cycle({name: list(held) for name, held in waits.items()})
    if cycle:
        ring = [*cycle, cycle[0]]
        rows = [waits[one][other] for one, other in pairwise(ring)]
        said = ", ".join(f"{one} waits for {row}" for one, row in zip(cycle, rows, strict=True))
        return [
            Conflict(
                kind="deadlock",
                agents=tuple(cycle),
                resources=tuple(rows),
                detail=f"nobody can go on: {said}",
                moves=tuple(_last(history, name).index for name in cycle),
            )
        ]
    return [_waiting(history, name, held) for name, held in waits.items()]


def _waiting(history: History, name: str, held: Mapping[str, str]) -> Conflict:
    if held:
        others, rows = tuple(held), tuple(held.values())
        return Conflict(
            kind="abandoned_resource",
            agents=(name, *others),
            resources=rows,
            detail=f"{name} waits for {', '.join(rows)}, last changed by {', '.join(others)}, "
            "who will not change it any more",
            moves=(_last(history, name).index,),
        )
    last = _last(history, name)
    return Conflict(
        kind="livelock",
        agents=(name,),
        resources=last.reads,
        detail=f"{name} asks {last.asked.tool} again and again, and nothing changes",
        moves=(last.index,),
    )


def _waits_for(history: History, name: str) -> dict[str, str]:
    """Whom an agent waits for, and over which row."""
    own = [move for move in history.moves if move.agent == name]
    last = own[-1] if own else None
    if last is None:
        return {}
    found: dict[str, str] = {}
    for row in last.reads:
        holder = next((move.agent for move in reversed(history.moves) if row in move.writes), None)
        if holder is not None and holder != name:
            found.setdefault(holder, row)
    return found


def _cycle(graph: Mapping[str, Sequence[str]]) -> list[str]:
    for start in graph:
        path = [start]
        while True:
            following = next((one for one in graph.get(path[-1], ()) if one in graph), None)
            if following is None:
                break
            if following in path:
                return path[path.index(following) :]
            path.append(following)
    return []


def _last(history: History, name: str) -> Move:
    return next(move for move in reversed(history.moves) if move.agent == name)


def _double_bookings(
    history: History, events: Sequence[TwinEvent], group: TwinGroup
) -> list[Conflict]:
    keys = {event.call_id: event.effect_key for event in events if event.effect_key is not None}
    first: dict[tuple[str, str], Move] = {}
    found = []
    for move in history.moves:
        twin, key = group.owner(move.asked.tool), keys.get(move.call_id)
        if key is None or twin is None:
            continue
        if twin.tools[move.asked.tool].declared.effect_key is None:
            continue
        place = (move.asked.tool, key)
        earlier = first.setdefault(place, move)
        if earlier.agent != move.agent:
            found.append(
                Conflict(
                    kind="double_booking",
                    agents=(earlier.agent, move.agent),
                    resources=(f"{move.asked.tool} {key}",),
                    detail=f"{earlier.agent} and {move.agent} both had {move.asked.tool} of {key}",
                    moves=(earlier.index, move.index),
                )
            )
    return found


def _lost_updates(history: History, group: TwinGroup) -> list[Conflict]:
    found = []
    for move in history.moves:
        for row in dict.fromkeys(move.puts):
            given = _given(group, move.asked.tool, row.partition("/")[0])
            if row in move.reads:
                given -= _guarded(group, move.asked.tool)
            lost = _overwritten(history.moves[: move.index], move.agent, row, given)
            if lost is not None:
                found.append(
                    Conflict(
                        kind="lost_update",
                        agents=(lost.agent, move.agent),
                        resources=(row,),
                        detail=f"{move.agent} had read {row} before {lost.agent} changed it, "
                        f"and put {', '.join(sorted(given & set(lost.fields[row])))} over it",
                        moves=(lost.index, move.index),
                    )
                )
    return found


def _overwritten(moves: Sequence[Move], agent: str, row: str, given: set[str]) -> Move | None:
    """The change that came between the agent's last look at the row and now, if any."""
    lost = None
    for move in reversed(moves):
        if move.agent == agent and (row in move.reads or row in move.writes):
            return lost
        if move.agent != agent and given & set(move.fields.get(row, ())):
            lost = move
    return None  # never read: put blindly, and not because of what it saw


def _given(group: TwinGroup, tool: str, entity: str) -> set[str]:
    """The fields that a tool sets to what the caller says, whatever stood there."""
    twin = group.owner(tool)
    if twin is None:
        return set()
    found: set[str] = set()
    for effect in twin.tools[tool].declared.effects:
        if not isinstance(effect, SetEffect | MergeEffect) or effect.entity != entity:
            continue
        values: Any = effect.values
        if isinstance(values, dict):
            found |= {name for name, value in values.items() if "arguments" in str(value)}
    return found


def _guarded(group: TwinGroup, tool: str) -> set[str]:
    """The fields that a tool's preconditions look at before it changes anything."""
    twin = group.owner(tool)
    if twin is None:
        return set()
    texts = (one.require for one in twin.tools[tool].declared.preconditions)
    return {name for text in texts for owner, name in _MEMBER.findall(text) if owner not in _OWN}


def _starved(history: History, bound: int) -> list[Conflict]:
    if history.stuck:
        return []
    found = []
    for name in history.agents:
        refused: list[Move] = []
        others = 0
        for move in history.moves:
            if move.agent != name:
                others += bool(refused and move.writes)
            elif move.refused:
                refused.append(move)
            else:
                refused, others = [], 0
            if len(refused) >= bound and others >= bound:
                found.append(_starving(name, refused))
                break
    return found


def _starving(name: str, refused: Sequence[Move]) -> Conflict:
    last = refused[-1]
    return Conflict(
        kind="starvation",
        agents=(name,),
        resources=last.reads,
        detail=f"{name} was refused {last.asked.tool} {len(refused)} times in a row "
        "while others went on",
        moves=tuple(move.index for move in refused),
    )


def end_of(events: Sequence[TwinEvent]) -> str:
    """The world after a run as text that is equal for equal ends; generated keys do not count."""
    rows: dict[tuple[str, str], tuple[bool, Any]] = {}
    for event in events:
        for change in event.changes:
            place = (f"{event.twin}.{change.entity}", change.key)
            new = rows[place][0] if place in rows else change.before is None
            rows[place] = (new, change.after)
    told = sorted(
        msgspec.json.encode(
            [place[0], None if new else place[1], _keyless(after, place[1]) if new else after],
            order="sorted",
        )
        for place, (new, after) in rows.items()
    )
    return b"\n".join(told).decode()


def _keyless(row: Any, key: str) -> Any:
    if not isinstance(row, dict):
        return row
    return {name: value for name, value in row.items() if value != key}
