"""What each run shows of the world in order: which calls may have changed it, and what was read.

Rules
1. A tool is a read where a registry says so, else where its name begins as a read's does; anything
   else may have effects.
2. A call that was refused changed nothing; one of which nobody knows the end may have.
3. A call touches a thing when its arguments or its answer hold the thing's name. What a call
   touches is not as it was before; what it does not touch is judged by what was read afterwards.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from processors.model.names import SideEffectClass
from sidecar.analyse.draft.model import Asked
from sidecar.analyse.draft.seen import Seen, leaves, names_something, spelled

_READS = frozenset(
    {
        *("get", "list", "search", "find", "read", "fetch", "lookup", "query", "show"),
        *("describe", "check", "count", "view", "retrieve", "browse", "calculate", "compute"),
        *("preview", "validate"),
    }
)
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


class Answer(Struct, frozen=True):
    """One state of something that is read: whether it was refused, with which status, and what."""

    ended: str
    status: int | None
    value: Any

    @property
    def spelled(self) -> str:
        """The same text for the same answer."""
        return spelled([self.ended, self.status, self.value])


class History:
    """All runs; names are ``run#seq`` as examples give them."""

    def __init__(
        self, runs: Sequence[Sequence[Seen]], names: Sequence[str], asked: Mapping[str, Asked]
    ) -> None:
        self.runs = runs
        self._names = names
        self._asked = asked
        self._held: dict[tuple[int, int], frozenset[str]] = {}
        self._of: dict[str, list[Seen]] = {}
        for run in runs:
            for one in run:
                self._of.setdefault(one.tool, []).append(one)

    def tools(self) -> list[str]:
        """Every tool that was called, in order of its name."""
        return sorted(self._of)

    def class_of(self, tool: str) -> SideEffectClass:
        """``read``, or what a tool that may have effects is."""
        known = self._asked.get(tool)
        if known is not None and known.class_ is not None:
            return known.class_
        first = next(iter(_WORDS.findall(tool)), "").lower()
        return "read" if first in _READS else "irreversible"

    def of(self, tool: str) -> list[Seen]:
        """The calls of a tool, in order of runs."""
        return self._of.get(tool, [])

    def named(self, some: Iterable[Seen]) -> list[str]:
        """The calls as examples."""
        return [f"{self._names[one.run]}#{one.at}" for one in some]

    def may_change(self, one: Seen) -> bool:
        """Whether the call may have changed something."""
        return self.class_of(one.tool) != "read" and one.ended != "refused"

    def changing(self, run: int, after: int, before: int) -> Iterator[Seen]:
        """The calls of a run between two places that may have changed something."""
        return (one for one in self.runs[run] if after < one.at < before and self.may_change(one))

    def holds(self, one: Seen) -> frozenset[str]:
        """The names (spelled) that a call's arguments and answer hold."""
        place = one.run, one.at
        if place not in self._held:
            found = (*leaves(one.arguments), *_members(one.answer), *leaves(one.answer))
            self._held[place] = frozenset(
                spelled(value) for _, value in found if names_something(value)
            )
        return self._held[place]

    def touches(self, one: Seen, names: frozenset[str]) -> bool:
        """Whether a call touches one of the things; whatever has no name may be touched by all."""
        return not names or not names.isdisjoint(self.holds(one))


def state(one: Seen) -> Answer:
    """What a read showed."""
    return Answer(one.ended, one.status, one.answer)


def names_of(one: Seen) -> frozenset[str]:
    """The names in a read's arguments."""
    return frozenset(spelled(value) for _, value in leaves(one.arguments) if names_something(value))


def _members(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Names of members may be names of things too: records by their key."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield (), name
            yield from _members(item)
    elif isinstance(value, list):
        for item in value:
            yield from _members(item)
