"""A run of agents over one world: at each seam (each tool call) the scheduler decides who goes on.

Rules
1. One call at a time, in the order the chooser made; the twin's virtual clock alone moves.
2. Who was refused waits until a row that the refusal read has changed; when all wait, they try in
   turn.
3. Nobody can go on when every agent left has asked the same again ``patience`` times and nothing
   changed: the run is stuck, and ended. One of more than ``calls_max`` calls is ended too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from processors.model.twin import Change
from sidecar.analyse.together.moves import (
    Asked,
    Crashed,
    Ended,
    History,
    Move,
    Stepped,
    Turn,
)
from sidecar.analyse.together.reads import watched
from sidecar.analyse.together.schedule import At, Chooser, unswitched
from sidecar.twins.company import Switch
from sidecar.twins.episode import Reply
from sidecar.twins.world import World

CallTool = Callable[..., Reply]


class Limits(Struct, frozen=True, kw_only=True):
    """How long a run may last: calls in all, and the same call again without any change."""

    calls_max: int = 200
    patience: int = 8


class Table(Struct, frozen=True, kw_only=True):
    """Where the agents sit: the worlds they share, and the way their calls take into them."""

    worlds: Mapping[str, World]
    call: CallTool


class _Player:
    def __init__(self, agents: Mapping[str, Stepped], table: Table, limits: Limits) -> None:
        self._agents = agents
        self._table = table
        self._limits = limits
        self._asks: dict[str, Asked] = {}
        self._ends: dict[str, Ended | Crashed | None] = dict.fromkeys(agents)
        self._moves: list[Move] = []
        self._waits: dict[str, tuple[str, ...]] = {}
        self._same: dict[tuple[str, str, int | None], int] = {}

    def play(
        self, requests: Mapping[str, dict[str, Any]], choose: Chooser, taken: Callable[[], Any]
    ) -> History:
        for name, agent in self._agents.items():
            self._turned(name, agent.start(requests[name]))
        switches = []
        while self._asks and not self._stuck() and len(self._moves) < self._limits.calls_max:
            at = At(able=self._able(), agents=tuple(self._agents), moves=self._moves)
            name = choose(at)
            if name != unswitched(at):
                switches.append(Switch(after=len(self._moves), run=name))
            self._move(name, at.able, taken)
        return History(
            agents=tuple(self._agents),
            moves=tuple(self._moves),
            ends=self._ends,
            switches=tuple(switches),
            stuck=self._stuck(),
        )

    def _able(self) -> tuple[str, ...]:
        live = tuple(name for name in self._agents if name in self._asks)
        free = tuple(name for name in live if name not in self._waits)
        if free:
            return free
        last = {move.agent: move.index for move in self._moves}
        return (min(live, key=lambda name: last.get(name, -1)),)

    def _move(self, name: str, able: tuple[str, ...], taken: Callable[[], Any]) -> None:
        asked = self._asks.pop(name)
        marks = {twin: world.journal.mark() for twin, world in self._table.worlds.items()}
        reply = self._table.call(asked.tool, asked.arguments, key=asked.key)
        changes = [
            change
            for twin, world in self._table.worlds.items()
            for change in world.changes(marks[twin])
        ]
        move = Move(
            index=len(self._moves),
            agent=name,
            asked=asked,
            status=reply.status,
            refused=reply.status is not None and 400 <= reply.status < 500 and reply.status != 429,
            reads=taken(),
            fields={f"{one.entity}/{one.key}": _differing(one) for one in changes},
            puts=tuple(
                row
                for twin, world in self._table.worlds.items()
                for row in _put(world, marks[twin])
            ),
            choices=able,
        )
        self._moves.append(move)
        self._noted(move)
        self._turned(name, self._agents[name].resume(reply))

    def _noted(self, move: Move) -> None:
        if move.writes:
            self._same.clear()
            changed = {*move.writes, *(f"{row.partition('/')[0]}/*" for row in move.writes)}
            self._waits = {
                name: rows for name, rows in self._waits.items() if not changed & set(rows)
            }
        again = (move.agent, _text(move.asked), move.status)
        self._same[again] = self._same.get(again, 0) + 1
        if move.refused and move.reads:
            self._waits[move.agent] = move.reads
        else:
            self._waits.pop(move.agent, None)

    def _turned(self, name: str, turn: Turn) -> None:
        if isinstance(turn, Asked):
            spoken = _spoken(turn)
            if isinstance(spoken, Asked):
                self._asks[name] = spoken
                return
            turn = spoken
        self._ends[name] = turn
        self._waits.pop(name, None)

    def _stuck(self) -> bool:
        most: dict[str, int] = {}
        for (name, _, _), times in self._same.items():
            most[name] = max(most.get(name, 0), times)
        return bool(self._asks) and all(
            most.get(name, 0) >= self._limits.patience for name in self._asks
        )


def play(
    agents: Mapping[str, Stepped],
    requests: Mapping[str, dict[str, Any]],
    table: Table,
    choose: Chooser,
    *,
    limits: Limits = Limits(),  # noqa: B008 - a frozen record
) -> History:
    """Run the agents to their ends, or until nobody can go on; all are stopped then."""
    player = _Player(agents, table, limits)
    try:
        with watched(table.worlds) as taken:
            return player.play(requests, choose, taken)
    finally:
        for agent in agents.values():
            agent.stop()


def _spoken(asked: Asked) -> Asked | Crashed:
    """What is asked as JSON says it; the end of the agent where none can."""
    try:
        arguments = msgspec.json.decode(msgspec.json.encode(asked.arguments), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError, msgspec.ValidationError) as error:
        return Crashed(kind="NotJson", detail=f"arguments of {asked.tool}: {error}")
    return structs.replace(asked, arguments=arguments)


def _text(asked: Asked) -> str:
    return f"{asked.tool} {msgspec.json.encode(asked.arguments, order='sorted').decode()}"


def _put(world: World, mark: int) -> list[str]:
    """The rows that were put since the mark, whether or not they changed."""
    names = {id(cells): name for name, cells in world.tables.items()}
    return [
        f"{names[id(entry.cells)]}/{entry.key}"
        for entry in world.journal.since(mark)
        if id(entry.cells) in names
    ]


def _differing(change: Change) -> tuple[str, ...]:
    one = change.before if isinstance(change.before, dict) else {}
    other = change.after if isinstance(change.after, dict) else {}
    return tuple(name for name in {**one, **other} if one.get(name) != other.get(name))
