"""Why a service refused: what tells every call it refused from every call it accepted.

Rules
1. A reason is a comparison of an argument (or its sum with a member of the row) with a member, or a
   member or argument that has one of a few values. It must tell all calls apart that were seen.
2. All reasons that do are kept: where they agree, the call is accepted or refused; where they do
   not, nobody knows.
3. Fewer than the wanted number of calls on either side tell nothing.
4. A call that is unlike every accepted one might be refused for a reason that nobody saw yet.
"""

from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from typing import Any

from msgspec import Struct

from sidecar.analyse.draft import words
from sidecar.analyse.draft.explain import ABSENT, Source, added
from sidecar.analyse.draft.seen import is_masked, spelled
from sidecar.analyse.draft.shapes import names
from sidecar.evaluate.matching import same
from sidecar.twins import decimals

_VALUES_MAX = 8
_REASONS_MAX = 12


class Reason(Struct, frozen=True):
    """An expression that holds for accepted calls, and one that holds for refused ones."""

    accepts: str
    refuses: str


def reasons(
    arguments: Sequence[Source], members: Sequence[Source], refused: Sequence[bool]
) -> list[Reason]:
    """Every reason that tells refused calls from accepted ones; sources have a value a call."""
    found = [*_comparisons(arguments, members, refused), *_few([*arguments, *members], refused)]
    return found[:_REASONS_MAX] if len(found) <= _REASONS_MAX else []


def _comparisons(
    arguments: Sequence[Source], members: Sequence[Source], refused: Sequence[bool]
) -> Iterator[Reason]:
    sums = [
        source for member in members for source, _, taken in added(member, arguments) if not taken
    ]
    for left in (*arguments, *sums):
        for right in members:
            signs = _signs(left, right)
            if signs is not None:
                yield from _ordered(left.text, right.text, signs, refused)
    for left in arguments:
        for right in members:
            if _signs(left, right) is None and _told(left) and _told(right):
                pairs = zip(left.values, right.values, strict=True)
                if [not same(one, other) for one, other in pairs] == list(refused):
                    yield Reason(f"{left.text} == {right.text}", f"{left.text} != {right.text}")


def _signs(left: Source, right: Source) -> list[int] | None:
    if left.text.startswith(f"add({right.text},") or not (_told(left) and _told(right)):
        return None
    try:
        return [
            decimals.compare(one, other)
            for one, other in zip(left.values, right.values, strict=True)
        ]
    except (ValueError, TypeError):
        return None


def _ordered(
    left: str, right: str, signs: Sequence[int], refused: Sequence[bool]
) -> Iterator[Reason]:
    text = f"compare({left}, {right})"
    for accepts, refuses, holds in (
        ("<= 0", "> 0", [one <= 0 for one in signs]),
        ("< 0", ">= 0", [one < 0 for one in signs]),
        (">= 0", "< 0", [one >= 0 for one in signs]),
        ("> 0", "<= 0", [one > 0 for one in signs]),
        ("== 0", "!= 0", [one == 0 for one in signs]),
    ):
        if [not one for one in holds] == list(refused):
            yield Reason(f"{text} {accepts}", f"{text} {refuses}")


def _few(sources: Sequence[Source], refused: Sequence[bool]) -> Iterator[Reason]:
    """Members and arguments with a few values, none of them on both sides."""
    for source in sources:
        if not _told(source) or not all(words.is_plain(one) for one in source.values):
            continue
        good = _spelled(source, refused, wanted=False)
        bad = _spelled(source, refused, wanted=True)
        if good and bad and not good & bad and len(good | bad) <= _VALUES_MAX:
            yield Reason(_one_of(source.text, good), _one_of(source.text, bad))


def _spelled(source: Source, refused: Sequence[bool], *, wanted: bool) -> set[str]:
    return {spelled(one) for one, no in zip(source.values, refused, strict=True) if no is wanted}


def _one_of(text: str, values: set[str]) -> str:
    return f"{text} in [{', '.join(sorted(values))}]"


def _told(source: Source) -> bool:
    return not any(
        one is ABSENT or one is None or isinstance(one, dict | list) or is_masked(one)
        for one in source.values
    )


def likenesses(arguments: Sequence[Source], members: Sequence[Source]) -> list[str]:
    """What held in every accepted call: how arguments stand to members, and what they were. A call
    of which one of these does not hold is unlike all that were accepted."""
    found: list[str] = []
    sums = [
        source for member in members for source, _, taken in added(member, arguments) if not taken
    ]
    for left in (*arguments, *sums):
        for right in members:
            signs = _signs(left, right)
            if signs is not None:
                found += _held(f"compare({left.text}, {right.text})", signs)
            elif left in arguments and _told(left) and all(map(same, left.values, right.values)):
                found.append(f"{left.text} == {right.text}")
    for source in arguments:
        found += _range(source)
    for source in members:
        kinds = {type(one) for one in source.values}
        few = names(source.values) if kinds == {str} else None
        if kinds == {bool} or few is not None:
            found.append(_one_of(source.text, {spelled(one) for one in source.values}))
    return found


def _held(text: str, signs: Sequence[int]) -> list[str]:
    if not any(signs):
        return [f"{text} == 0"]
    if all(one <= 0 for one in signs):
        return [f"{text} <= 0"]
    return [f"{text} >= 0"] if all(one >= 0 for one in signs) else []


def _range(source: Source) -> list[str]:
    """The bounds of an argument that is a number, or the text of one."""
    if not _told(source) or any(isinstance(one, bool) for one in source.values):
        return []
    try:
        ordered = sorted(source.values, key=cmp_to_key(decimals.compare))
        least, most = words.literal(ordered[0]), words.literal(ordered[-1])
    except (ValueError, TypeError):
        return []
    if len(ordered) < 2:
        return []
    return [f"compare({source.text}, {least}) >= 0", f"compare({source.text}, {most}) <= 0"]


def body_values(answers: Sequence[Any]) -> bool:
    """Whether refusals have answers that may be told."""
    return all(one is not None and not is_masked(one) for one in answers)
