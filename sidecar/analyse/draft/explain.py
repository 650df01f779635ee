"""What explains values that were seen: constants, arguments, rows, sums, new ids.

Rules
1. An explanation gives every value that was seen; one that fails once is none.
2. Where several explain all that was seen, what they agree on is known and nothing else: the rule
   holds where they are equal, and the twin answers TwinGap where they are not.
3. A mask is equal to nothing, so nothing explains it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from sidecar.analyse.draft import words
from sidecar.analyse.draft.seen import equal, is_masked, leaves
from sidecar.twins import decimals

ABSENT: Final = object()
_RIVALS_MAX = 6


class Source(Struct, frozen=True):
    """An expression and its value in each scene; ABSENT where it has none."""

    text: str
    values: tuple[Any, ...]

    def gives(self, targets: Sequence[Any]) -> bool:
        """Whether it is the value seen in every scene."""
        return all(
            one is not ABSENT and equal(target, one)
            for target, one in zip(targets, self.values, strict=True)
        )


class Explained(Struct, frozen=True):
    """A template (as twins write them), and expressions that must be equal for it to hold."""

    template: Any
    equal: tuple[tuple[str, str], ...] = ()


Sought = Callable[[tuple[str, ...], Sequence[Any]], Explained | None]


def explained(
    targets: Sequence[Any],
    sources: Sequence[Source],
    sought: Sought | None = None,
    at: tuple[str, ...] = (),
) -> Explained | None:
    """What gives all targets; None where nothing does. ``sought`` is asked last, with the place."""
    whole = _whole(targets, sources)
    if whole is not None:
        return whole
    if all(isinstance(one, dict) for one in targets) and targets[0]:
        return _members(targets, sources, sought, at)
    if all(isinstance(one, list) and len(one) == len(targets[0]) for one in targets):
        return _items(targets, sources, sought, at)
    return sought(at, targets) if sought is not None else None


def added(before: Source, arguments: Sequence[Source]) -> list[tuple[Source, str, bool]]:
    """Sums and differences of a value and an argument: source, the argument's text, whether it is
    taken away."""
    found = []
    for one in arguments:
        for name, operation in (("add", decimals.add), ("subtract", decimals.subtract)):
            values = tuple(
                _of(operation, left, right)
                for left, right in zip(before.values, one.values, strict=True)
            )
            if ABSENT not in values:
                text = f"{name}({before.text}, {one.text})"
                found.append((Source(text, values), one.text, name == "subtract"))
    return found


def _whole(targets: Sequence[Any], sources: Sequence[Source]) -> Explained | None:
    giving = [one.text for one in sources if one.gives(targets)]
    fixed = all(equal(targets[0], one) for one in targets) and words.is_plain(targets[0])
    if fixed and not giving:
        return Explained(words.constant(targets[0]))
    if not giving:
        return None
    first, *others = giving
    rivals = [(first, other) for other in others[:_RIVALS_MAX]]
    if fixed and (targets[0] is not None):
        rivals.append((first, words.literal(targets[0])))
    return Explained(first, tuple(rivals))


def _members(
    targets: Sequence[dict[str, Any]],
    sources: Sequence[Source],
    sought: Sought | None,
    at: tuple[str, ...],
) -> Explained | None:
    if any(one.keys() != targets[0].keys() for one in targets):
        return None
    made: dict[str, Any] = {}
    rivals: list[tuple[str, str]] = []
    for name in targets[0]:
        part = explained([one[name] for one in targets], sources, sought, (*at, name))
        if part is None:
            return None
        made[name] = part.template
        rivals += part.equal
    return Explained(made, tuple(dict.fromkeys(rivals)))


def _items(
    targets: Sequence[list[Any]],
    sources: Sequence[Source],
    sought: Sought | None,
    at: tuple[str, ...],
) -> Explained | None:
    made: list[Any] = []
    rivals: list[tuple[str, str]] = []
    for place in range(len(targets[0])):
        part = explained([one[place] for one in targets], sources, sought, (*at, "*"))
        if part is None:
            return None
        made.append(part.template)
        rivals += part.equal
    return Explained(made, tuple(dict.fromkeys(rivals)))


def _of(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if left is ABSENT or right is ABSENT or is_masked(left) or is_masked(right):
        return ABSENT
    if isinstance(left, bool) or isinstance(right, bool):
        return ABSENT
    try:
        return operation(left, right)
    except (ValueError, TypeError):
        return ABSENT


def scalars(records: Sequence[Any], text: str) -> list[Source]:
    """The scalars that every record has, outside of lists, as sources; ``text`` is the record's."""
    parts = [{at: value for at, value in leaves(one) if "*" not in at} for one in records]
    shared = sorted(set.intersection(*(set(one) for one in parts)))
    return [
        Source(words.path(text, at), tuple(one.get(at, ABSENT) for one in parts)) for at in shared
    ]
