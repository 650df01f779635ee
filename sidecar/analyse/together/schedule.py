"""Whose turn it is: how interleavings of several agents are chosen.

Rules
1. A chooser sees the agents that can move and the moves so far, and names one of them; with a
   seed it is a function of nothing else.
2. Left alone, an agent goes on until it is refused or ends, then the next in order moves: a run
   differs from that by its switches alone, and so is made again by them.
3. PCT: each agent has a random priority and the highest moves; at ``depth - 1`` random places the
   one that would move falls below all. A bug of depth d among n agents and k moves is met with
   probability at least 1/(n k^(d-1)) (Burckhardt et al., ASPLOS 2010).
4. What conflicts (two agents, one row, one of them changing it) is worth the other order: the rest
   of partial-order reduction (Flanagan and Godefroid, POPL 2005) is left out, hence "lite".
"""

import hmac
from collections.abc import Callable, Sequence

from msgspec import Struct

from sidecar.analyse.together.moves import History, Move
from sidecar.twins.company import Switch

_SCALE = 2**64


class At(Struct, frozen=True, kw_only=True):
    """A place where somebody must move: ``able`` in order of the scenario, never empty."""

    able: tuple[str, ...]
    agents: tuple[str, ...]
    moves: Sequence[Move]


Chooser = Callable[[At], str]


def unswitched(at: At) -> str:
    """Who moves when nothing switches."""
    if not at.moves:
        return at.able[0]
    last = at.moves[-1]
    if last.agent in at.able and not last.refused:
        return last.agent
    place = at.agents.index(last.agent)
    following = (*at.agents[place + 1 :], *at.agents[: place + 1])
    return next(name for name in following if name in at.able)


def switching(switches: Sequence[Switch]) -> Chooser:
    """The run that these switches make; one to an agent that cannot move is passed over."""
    there = {one.after: one.run for one in switches}

    def choose(at: At) -> str:
        wanted = there.get(len(at.moves))
        return wanted if wanted in at.able else unswitched(at)

    return choose


def at_random(seed: int) -> Chooser:
    """Each move uniformly among those who can."""

    def choose(at: At) -> str:
        return at.able[int(_drawn(seed, f"turn|{len(at.moves)}") * len(at.able))]

    return choose


def by_priority(seed: int, *, depth: int, length: int) -> Chooser:
    """PCT with bug depth ``depth`` for runs of about ``length`` moves."""
    falls = {
        int(_drawn(seed, f"fall|{number}") * max(1, length)): -number for number in range(1, depth)
    }
    fallen: dict[str, int] = {}
    handled: set[int] = set()

    def rank(name: str) -> float:
        return fallen.get(name, 0) or _drawn(seed, f"priority|{name}") + 1

    def choose(at: At) -> str:
        place = len(at.moves)
        best = max(at.able, key=rank)
        if place in falls and place not in handled:
            handled.add(place)
            fallen[best] = falls[place]
            best = max(at.able, key=rank)
        return best

    return choose


def reversals(history: History) -> list[tuple[Switch, ...]]:
    """Switches that try each conflict of the run in the other order, the latest first."""
    found: dict[tuple[Switch, ...], None] = {}
    for later in reversed(history.moves):
        earlier = _conflicting(history.moves[: later.index], later)
        if earlier is not None and later.agent in earlier.choices:
            kept = tuple(one for one in history.switches if one.after < earlier.index)
            found[*kept, Switch(after=earlier.index, run=later.agent)] = None
    return list(found)


def conflict(one: Move, other: Move) -> bool:
    """Whether two calls touch one row and at least one of them changes it."""
    return _meets(one.writes, (*other.reads, *other.writes)) or _meets(other.writes, one.reads)


def _conflicting(moves: Sequence[Move], later: Move) -> Move | None:
    for move in reversed(moves):
        if move.agent != later.agent and conflict(move, later):
            return move
    return None


def _meets(written: Sequence[str], touched: Sequence[str]) -> bool:
    known = set(touched)
    return any(row in known or f"{row.partition('/')[0]}/*" in known for row in written)


def _drawn(seed: int, name: str) -> float:
    mac = hmac.digest(str(seed).encode(), name.encode(), "sha256")
    return int.from_bytes(mac[:8], "big") / _SCALE
