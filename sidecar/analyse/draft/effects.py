"""What a tool does to a row that it names, read off the row before and after.

Rules
1. Every member of the record is explained or nothing is: what stayed, what became an argument or a
   constant, what grew by an argument, what was put at the end of a list.
2. A sum is told as one only where a plain value does not explain the member too; where both do,
   they must be equal when the tool is called.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from sidecar.analyse.draft import words
from sidecar.analyse.draft.explain import ABSENT, Explained, Source, added, explained, scalars
from sidecar.analyse.draft.scenes import Scene
from sidecar.analyse.draft.seen import equal
from sidecar.evaluate.matching import same


class Change(Struct, frozen=True, kw_only=True):
    """What becomes of a record: members set, added to (name, by), appended to (name, item).

    ``equal``: expressions that must be equal for it to be known.
    """

    set: dict[str, Any]
    increments: tuple[tuple[str, Any], ...]
    appends: tuple[tuple[str, Any], ...]
    equal: tuple[tuple[str, str], ...]

    @property
    def nothing(self) -> bool:
        """Whether the record stays as it is."""
        return not (self.set or self.increments or self.appends)


def change(
    some: Sequence[Scene], arguments: Sequence[Source], row: str
) -> tuple[Change | None, list[str]]:
    """What explains every scene, which all have a before and an after; else the members that are
    not explained. ``row`` is the expression of the record before."""
    befores = [one.before for one in some if one.before is not None]
    afters = [one.after for one in some if one.after is not None]
    assert len(befores) == len(afters) == len(some)
    names = sorted({name for one in (*befores, *afters) for name in one})
    sources = [*arguments, *scalars(befores, row)]
    values: dict[str, Any] = {}
    increments: list[tuple[str, Any]] = []
    appends: list[tuple[str, Any]] = []
    rivals: list[tuple[str, str]] = []
    missing: list[str] = []
    for name in names:
        before = Source(words.path(row, [name]), tuple(one.get(name, ABSENT) for one in befores))
        after = [one.get(name, ABSENT) for one in afters]
        if _stayed(before, after):
            continue
        found = explained(after, sources) if ABSENT not in after else None
        grown = _grown(before, after, arguments)
        longer = _longer(before, after, sources)
        if found is not None:
            values[name] = found.template
            rivals += found.equal
            if isinstance(found.template, str | int | float):
                rivals += [(str(found.template), one) for one, _ in grown]
        elif grown:
            (text, by), *others = grown
            increments.append((name, by))
            rivals += [(text, other) for other, _ in others]
        elif longer is not None:
            appends.append((name, longer.template))
            rivals += longer.equal
        else:
            missing.append(name)
    if missing:
        return None, missing
    return (
        Change(
            set=values,
            increments=tuple(increments),
            appends=tuple(appends),
            equal=tuple(dict.fromkeys(rivals)),
        ),
        [],
    )


def _stayed(before: Source, after: Sequence[Any]) -> bool:
    """Whether a member is as it was, as far as can be seen."""
    return all(
        (one is ABSENT and other is ABSENT)
        or (one is not ABSENT and other is not ABSENT and same(one, other))
        for one, other in zip(before.values, after, strict=True)
    )


def _grown(
    before: Source, after: Sequence[Any], arguments: Sequence[Source]
) -> list[tuple[str, Any]]:
    """Sums that give the member: the expression, and what is added."""
    if ABSENT in before.values or ABSENT in after:
        return []
    found: list[tuple[str, Any]] = []
    for source, argument, taken in added(before, arguments):
        if source.gives(after):
            found.append((source.text, f"subtract(0, {argument})" if taken else argument))
    steps = _step(before, after)
    if steps is not None:
        found.append((f"add({before.text}, {steps})", steps))
    return found


def _step(before: Source, after: Sequence[Any]) -> int | None:
    """The whole number by which every value grew; None where there is none."""
    if not all(type(one) is int for one in (*before.values, *after)):
        return None
    steps = {new - old for new, old in zip(after, before.values, strict=True)}
    found = steps.pop()
    return found if not steps and found else None


def _longer(before: Source, after: Sequence[Any], arguments: Sequence[Source]) -> Explained | None:
    items = []
    for old, new in zip(before.values, after, strict=True):
        old = [] if old is ABSENT else old
        if not (isinstance(old, list) and isinstance(new, list) and len(new) == len(old) + 1):
            return None
        if not all(map(equal, old, new[:-1])):
            return None
        items.append(new[-1])
    return explained(items, arguments)
