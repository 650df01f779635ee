"""Names that a service makes up: where an answer has one that nobody had said before.

Rules
1. A name is new when it is one in every answer, in none of the calls before it in its run, and
   never the same twice in a run.
2. The twin makes its own by the same beginning and a number; what reads it flows with it.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from sidecar.analyse.draft import words
from sidecar.analyse.draft.history import History
from sidecar.analyse.draft.reads import Lookup
from sidecar.analyse.draft.seen import Seen, leaves, names_something, spelled

_NAMED = re.compile(r"(?:^|_)(?:id|key|ref|reference|number|no|code|uuid|token)\Z")
_BEGINNING = re.compile(r"([A-Za-z][A-Za-z_]*?)[-_]?\d[0-9A-Za-z-]*\Z")


class Minted(Struct, frozen=True):
    """A place in an answer that holds a new name each time; ``prefix`` is how they begin."""

    at: tuple[str, ...]
    prefix: str

    @property
    def variable(self) -> str:
        """The name of the expression that makes one."""
        return words.table("new_" + "_".join(self.at))

    def value(self, call: Seen) -> Any:
        """The name in an answer."""
        return dict(leaves(call.answer)).get(self.at)

    def looked_up(self, history: History, call: Seen, lookup: Lookup) -> Any:
        """The record that the name named in the first look after the call; None where none was."""
        for one in history.runs[call.run]:
            if one.at <= call.at:
                continue
            if (
                one.tool == lookup.tool
                and one.known
                and one.ended == "ok"
                and spelled(one.arguments.get(lookup.argument)) == spelled(self.value(call))
            ):
                return lookup.record(one.answer)
            if history.may_change(one) and spelled(self.value(call)) in history.holds(one):
                return None
        return None


def minted_in(history: History, calls: Sequence[Seen]) -> list[Minted]:
    """The places of new names in the answers of a tool."""
    parts = [dict(leaves(one.answer)) for one in calls]
    if not parts:
        return []
    shared = sorted(set.intersection(*(set(one) for one in parts)))
    return [
        Minted(at, _prefix([str(one[at]) for one in parts]))
        for at in shared
        if at and "*" not in at and _is_new(history, calls, at, [one[at] for one in parts])
    ]


def _is_new(
    history: History, calls: Sequence[Seen], at: tuple[str, ...], values: Sequence[Any]
) -> bool:
    if not all(isinstance(one, str) and names_something(one) for one in values):
        return False
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", at[-1]).lower()
    if not _NAMED.search(snake) or len(set(values)) < 2:
        return False
    of_run: dict[int, set[str]] = {}
    for call, value in zip(calls, values, strict=True):
        said = of_run.setdefault(call.run, set())
        if value in said or any(
            spelled(value) in history.holds(one)
            for one in history.runs[call.run]
            if one.at < call.at
        ):
            return False
        said.add(value)
        if spelled(value) in {spelled(one) for _, one in leaves(call.arguments)}:
            return False
    return True


def _prefix(values: Sequence[str]) -> str:
    found = {match[1] for one in values if (match := _BEGINNING.match(one))}
    return found.pop() if len(found) == 1 else "new"
