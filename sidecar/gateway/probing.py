"""An agent that tries policy's denials one after the other: how many different calls of one tool
were denied of late.

**Rules**
1. Counted are different actions: the same call again, however often, is no new try. Denials that
   are not policy's word (no answer, no room, no approval yet) are not counted.
2. What is remembered is bounded in agents, tools and calls; what is remembered longest goes first.
3. Time is one that only goes on.

Source: gateway.md §6.14.
"""

from collections import OrderedDict

from msgspec import Struct

WATCHED_MAX = 10_000
"""Pairs of an agent and a tool that are remembered at once."""


class Rules(Struct, frozen=True, kw_only=True):
    """``denials`` different calls of a tool within ``window_ns`` are probing; 0: nothing is."""

    denials: int = 0
    window_ns: int = 0


class Probing:
    """What was denied of late. One a gateway, in one event loop."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._denied: OrderedDict[tuple[str, str, str], dict[str, int]] = OrderedDict()

    def probes(self, project: str, agent: str, tool: str, action_hash: str, steady_ns: int) -> bool:
        """Remember a denial; whether it makes the agent one that probes. It is forgotten then."""
        if not self._rules.denials:
            return False
        whose = (project, agent, tool)
        since_ns = steady_ns - self._rules.window_ns
        seen = self._denied.pop(whose, {})
        recent = {hash_: at_ns for hash_, at_ns in seen.items() if at_ns > since_ns}
        recent[action_hash] = steady_ns
        if len(recent) >= self._rules.denials:
            return True
        self._denied[whose] = recent
        if len(self._denied) > WATCHED_MAX:
            self._denied.popitem(last=False)
        return False
