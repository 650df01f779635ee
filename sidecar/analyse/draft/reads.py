"""How tools that read are answered: by a row of a thing, or by what was asked before.

Rules
1. A tool of one argument whose answers are objects looks a thing up: its rows are the records, by
   the member that is the argument, or by the argument where no member is.
2. A tool that answers the same to enough different questions always answers so. Any other is
   answered from what was asked and answered before, word for word.
3. What is read is as it was at first where every run that read it, before anything may have changed
   it, saw the same. Where they did not, it is not known, and is left out.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from sidecar.analyse.draft import words
from sidecar.analyse.draft.history import Answer, History, state
from sidecar.analyse.draft.seen import Seen, is_masked, names_something, spelled

LeftAlone = Callable[[Seen, Seen], bool]
"""Whether a call with effects is known to leave alone what a read after it asks for."""


class Lookup(Struct, frozen=True, kw_only=True):
    """Rows of ``entity`` by ``argument``; ``key`` is the member that names them.

    ``wrapper``: the member of the answer that holds the record. ``whole``: the record does not hold
    its own name, and stands in the row as ``record``.
    """

    tool: str
    entity: str
    argument: str
    key: str
    wrapper: str = ""
    whole: bool = False

    def record(self, answer: Any) -> Any:
        """The record in an answer."""
        return answer[self.wrapper] if self.wrapper else answer

    def row(self, key: Any, record: Any) -> dict[str, Any]:
        """The row of a record."""
        return {self.key: key, "record": record} if self.whole else dict(record)


class Known(Struct, frozen=True, kw_only=True):
    """What a read showed at first: ``asked`` the call, ``answer``, ``of`` the calls that saw it."""

    asked: Seen
    answer: Answer
    of: tuple[Seen, ...]


class Doubtful(Struct, frozen=True, kw_only=True):
    """A question that was answered in several ways though nothing touched what it asks for."""

    asked: Seen
    of: tuple[Seen, ...]


class Base:
    """What reads showed at first, by tool and question: before any call that may have changed
    something, or after calls that are known to leave it alone.
    """

    def __init__(self, history: History, alone: LeftAlone | None = None) -> None:
        self.known: dict[tuple[str, str], Known] = {}
        self.doubtful: list[Doubtful] = []
        first: dict[tuple[str, str], list[Seen]] = defaultdict(list)
        for run in history.runs:
            for one in run:
                if history.class_of(one.tool) != "read" or not one.known:
                    continue
                before = history.changing(one.run, -1, one.at)
                if all(alone is not None and alone(other, one) for other in before):
                    first[one.tool, one.asked].append(one)
        for place, some in first.items():
            if len({state(one).spelled for one in some}) > 1:
                self.doubtful.append(Doubtful(asked=some[0], of=tuple(some)))
            elif not is_masked(some[0].arguments):
                self.known[place] = Known(asked=some[0], answer=state(some[0]), of=tuple(some))

    def of(self, tool: str) -> list[Known]:
        """What is known of a tool, in order of the questions."""
        return [self.known[place] for place in sorted(self.known) if place[0] == tool]


def lookups(history: History) -> dict[str, Lookup]:
    """The tools that look a thing up, by name; no two of them have one entity."""
    found: dict[str, Lookup] = {}
    taken: set[str] = set()
    for tool in history.tools():
        if history.class_of(tool) != "read":
            continue
        one = _lookup(tool, [one for one in history.of(tool) if one.known and one.ended == "ok"])
        if one is None:
            continue
        if one.entity in taken:
            one = Lookup(
                tool=tool,
                entity=words.table(tool),
                argument=one.argument,
                key=one.key,
                wrapper=one.wrapper,
                whole=one.whole,
            )
        taken.add(one.entity)
        found[tool] = one
    return found


def _lookup(tool: str, some: Sequence[Seen]) -> Lookup | None:
    names = {name for one in some for name in one.arguments}
    if len(names) != 1 or not all(isinstance(one.answer, dict) for one in some):
        return None
    (argument,) = names
    if not all(names_something(one.arguments.get(argument)) for one in some):
        return None
    entity = words.plural(argument) or words.plural(_thing(tool)) or words.table(tool)
    for wrapper in _wrappers(some):
        records = [one.answer[wrapper] if wrapper else one.answer for one in some]
        member = _own_name(records, [one.arguments[argument] for one in some], argument)
        if member is not None:
            return Lookup(tool=tool, entity=entity, argument=argument, key=member, wrapper=wrapper)
    key = argument if words.is_word(argument) and argument != "record" else "key"
    return Lookup(tool=tool, entity=entity, argument=argument, key=key, whole=True)


def _wrappers(some: Sequence[Seen]) -> list[str]:
    """The members that may hold the record: none, or the only one of every answer."""
    only = {tuple(one.answer) for one in some}
    if len(only) == 1 and len(next(iter(only))) == 1:
        (name,) = next(iter(only))
        if all(isinstance(one.answer[name], dict) for one in some):
            return ["", name]
    return [""]


def _own_name(records: Sequence[dict[str, Any]], keys: Sequence[Any], argument: str) -> str | None:
    """The member that is the argument in every record; of one key alone only that of its name."""
    shared = sorted(set.intersection(*(set(one) for one in records)))
    found = [
        name
        for name in shared
        if all(spelled(one[name]) == spelled(key) for one, key in zip(records, keys, strict=True))
    ]
    if argument in found:
        return argument
    several = len({spelled(key) for key in keys}) > 1
    return found[0] if found and several else None


def _thing(tool: str) -> str:
    parts = tool.replace("-", "_").split("_")
    return "_".join(parts[1:]) if len(parts) > 1 else ""
