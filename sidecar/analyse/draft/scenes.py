"""A call with effects between two looks at what it names: how it was before, and how it was after.

Rules
1. Before is the last look in the run that nothing touched since, else how it is at first.
2. After is the call's own answer where that is the record, else the next look that nothing touched
   in between.
3. A look that was not kept, or a call between whose effect nobody knows, is no look.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from sidecar.analyse.draft.history import History
from sidecar.analyse.draft.reads import Base, Lookup
from sidecar.analyse.draft.seen import Seen, names_something, spelled

_HALF = 2


class Scene(Struct, frozen=True, kw_only=True):
    """One call that went through or was refused; records are None where nobody saw them.

    ``told``: the answer itself is the record afterwards.
    """

    call: Seen
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    told: bool = False


class Link(Struct, frozen=True, kw_only=True):
    """An argument of a tool that names a row of what another tool looks up."""

    tool: str
    argument: str
    lookup: Lookup


def links(history: History, finds: Mapping[str, Lookup]) -> list[Link]:
    """Which arguments of tools with effects name rows: at least half of their values are known."""
    found = []
    for tool in history.tools():
        if history.class_of(tool) == "read":
            continue
        some = [one for one in history.of(tool) if one.known and one.ended == "ok"]
        for lookup in finds.values():
            known = {spelled(one.arguments.get(lookup.argument)) for one in history.of(lookup.tool)}
            for argument in sorted({name for one in some for name in one.arguments}):
                values = [one.arguments.get(argument) for one in some]
                if not all(map(names_something, values)):
                    continue
                hits = sum(spelled(value) in known for value in values)
                if hits and _HALF * hits >= len(values):
                    found.append(Link(tool=tool, argument=argument, lookup=lookup))
    return found


def scenes(history: History, base: Base, link: Link) -> list[Scene]:
    """The calls of a link's tool that went through or were refused, in order."""
    return [
        _scene(history, base, link, one)
        for one in history.of(link.tool)
        if one.known and link.argument in one.arguments
    ]


def _scene(history: History, base: Base, link: Link, call: Seen) -> Scene:
    key = call.arguments[link.argument]
    names = frozenset({spelled(key)})
    run: Sequence[Seen] = history.runs[call.run]
    before = _before(history, base, link, call, names, run)
    told = _is_record(link.lookup, call, key, before)
    after = call.answer if told else _after(history, link, call, names, run)
    if call.ended != "ok":
        after = None
    return Scene(call=call, before=before, after=after, told=told and after is not None)


def _before(
    history: History,
    base: Base,
    link: Link,
    call: Seen,
    names: frozenset[str],
    run: Sequence[Seen],
) -> dict[str, Any] | None:
    key = call.arguments[link.argument]
    for one in reversed([one for one in run if one.at < call.at]):
        if _looks(link.lookup, one, key):
            return _record(link.lookup, one)
        if history.may_change(one) and history.touches(one, names):
            if one.known and _is_record(link.lookup, one, key, None):
                return dict(one.answer)
            return None
    known = base.known.get((link.lookup.tool, spelled({link.lookup.argument: key})))
    return _record(link.lookup, known.asked) if known is not None else None


def _after(
    history: History, link: Link, call: Seen, names: frozenset[str], run: Sequence[Seen]
) -> dict[str, Any] | None:
    key = call.arguments[link.argument]
    for one in run:
        if one.at <= call.at:
            continue
        if _looks(link.lookup, one, key):
            return _record(link.lookup, one)
        if history.may_change(one) and history.touches(one, names):
            return None
    return None


def _looks(lookup: Lookup, one: Seen, key: Any) -> bool:
    return (
        one.tool == lookup.tool
        and one.known
        and spelled(one.arguments.get(lookup.argument)) == spelled(key)
    )


def _record(lookup: Lookup, one: Seen) -> dict[str, Any] | None:
    return lookup.record(one.answer) if one.ended == "ok" else None


def _is_record(lookup: Lookup, call: Seen, key: Any, before: dict[str, Any] | None) -> bool:
    """Whether an answer is the record: it holds the name, and every member that was there."""
    answer = call.answer
    if lookup.whole or call.ended != "ok" or not isinstance(answer, dict):
        return False
    if spelled(answer.get(lookup.key)) != spelled(key) or len(answer) < 3:
        return False
    return before is not None and set(before) <= set(answer)
