"""What is known of a read after a call that may have had effects: unchanged, or nobody knows.

Rules
1. A read that shows after a call what it showed before bears that the call leaves it alone; one
   that shows something else speaks against it, for each call between that touches what it asks for,
   else for all of them.
2. Three relations are told apart: things that an argument of the call *names*, things that are
   *related* to it (its answer, or a record it names, holds their name), and all *others*.
3. Without enough support, or with anything against it, nothing is known of that relation after the
   call.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from sidecar.analyse.draft.history import History, names_of, state
from sidecar.analyse.draft.model import Support, supported
from sidecar.analyse.draft.reads import Base, LeftAlone, Lookup
from sidecar.analyse.draft.seen import Seen, leaves, names_something, spelled

Relation = Literal["named", "related", "other"]
Linked = Mapping[tuple[str, str], tuple[str, ...]]


class _Count(Struct):
    same: list[Seen]
    changed: list[Seen]


class Settled:
    """Evidence of what calls leave alone: by the tool that was called, and the tool that read."""

    def __init__(
        self, history: History, base: Base, finds: Mapping[str, Lookup], linked: Linked
    ) -> None:
        self._history, self._base, self._linked = history, base, linked
        self._names = {
            tool: frozenset().union(*map(names_of, history.of(tool)))
            for tool in history.tools()
            if history.class_of(tool) == "read"
        }
        self._counts: dict[tuple[str, str, Relation], _Count] = defaultdict(lambda: _Count([], []))
        self.unstable: dict[str, list[Seen]] = defaultdict(list)
        self._near: dict[tuple[int, int], frozenset[str]] = {}
        self._records = [
            (names_of(known.asked), _named_in(known.answer.value))
            for (tool, _), known in base.known.items()
            if tool in finds
        ]
        for run in history.runs:
            self._count(run)

    def support(self, write: str, read: str, relation: Relation) -> Support:
        """How many reads bear that the call leaves such things alone, and how many do not."""
        count = self._counts.get((write, read, relation))
        if count is None:
            return Support(n=0)
        examples = self._history.named([*count.changed, *count.same])
        return supported(len(count.same), len(count.changed), examples)

    def leaves_alone(self, support: int) -> LeftAlone:
        """Whether a call is known to leave alone what a read asks for: by so many reads, and none
        against it."""

        def alone(write: Seen, read: Seen) -> bool:
            count = self._counts.get((write.tool, read.tool, self._relation(write, read)))
            return count is not None and len(count.same) >= support and not count.changed

        return alone

    def is_possible(self, write: str, read: str, relation: Relation) -> bool:
        """Whether calls of the one tool were seen to stand so to what the other reads."""
        if relation == "other":
            return True
        universe = self._names[read]
        for one in self._history.of(write):
            if relation == "named":
                if self._named(one, read) & universe:
                    return True
            elif (self._around(one) - self._named(one, read)) & universe:
                return True
        return False

    def _count(self, run: Iterable[Seen]) -> None:
        last: dict[tuple[str, str], Seen] = {}
        for one in run:
            if self._history.class_of(one.tool) != "read" or not one.known:
                continue
            place = one.tool, one.asked
            before = last.get(place)
            last[place] = one
            known = self._base.known.get(place)
            if before is None and known is None:
                continue
            told = state(before) if before is not None else known.answer if known else None
            assert told is not None
            same = told.spelled == state(one).spelled
            self._charge(one, -1 if before is None else before.at, same=same)

    def _charge(self, one: Seen, since: int, *, same: bool) -> None:
        between = list(self._history.changing(one.run, since, one.at))
        if not between:
            if not same:
                self.unstable[one.tool].append(one)
            return
        relations = [(other, self._relation(other, one)) for other in between]
        touching = [pair for pair in relations if pair[1] != "other"]
        for other, relation in relations if same or not touching else touching:
            count = self._counts[other.tool, one.tool, relation]
            (count.same if same else count.changed).append(one)

    def _relation(self, write: Seen, read: Seen) -> Relation:
        names = names_of(read)
        if names & self._named(write, read.tool):
            return "named"
        return "related" if names & self._around(write) else "other"

    def _named(self, write: Seen, read: str) -> frozenset[str]:
        """The names that the linked arguments of a call hold."""
        linked = self._linked.get((write.tool, read), ())
        return frozenset(
            spelled(write.arguments[name]) for name in linked if name in write.arguments
        )

    def _around(self, write: Seen) -> frozenset[str]:
        """The names a call holds, and those that the records it names hold."""
        place = write.run, write.at
        if place not in self._near:
            held = self._history.holds(write)
            records = (inside for names, inside in self._records if held & names)
            self._near[place] = held.union(*records)
        return self._near[place]


def _named_in(value: Any) -> frozenset[str]:
    return frozenset(spelled(one) for _, one in leaves(value) if names_something(one))
