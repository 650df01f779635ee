"""Expectation about everything else: no state outside a declared mask changed.

Rules
1. A change is allowed where one entry of the mask covers all of it: entity, key, kind and fields.
2. Idempotency keys, counters and the clock are no state.
"""

from typing import Any, Literal

from msgspec import Struct

from processors.model.twin import Change
from sidecar.evaluate.expectation import Expectation
from sidecar.evaluate.judgement import Judgement, failed, passed, skipped
from sidecar.evaluate.matching import same
from sidecar.evaluate.observed import Observed, step_of
from sidecar.evaluate.state import same_entity, verb


class Allowed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may change: rows of an entity, one row, or some fields of it."""

    entity: str
    key: Any = None
    fields: tuple[str, ...] = ()
    kind: Literal["added", "changed", "deleted"] | None = None


class Collateral(Expectation, frozen=True, kw_only=True, tag="collateral"):
    """Nothing changed but what ``allowed`` covers; ``max`` bounds even that."""

    allowed: tuple[Allowed, ...] = ()
    max: int | None = None


def collateral(expected: Collateral, observed: Observed) -> Judgement:
    """Every change is covered."""
    if observed.world is None:
        return skipped("no twin took part, so there is no state to look at")
    outside = [one for one in observed.changes if not _covered(one, expected.allowed)]
    if outside:
        one = outside[0]
        more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        return failed(
            f"{one.entity} {one.key} {verb(one)}{_fields(one)}, outside of what may{more}",
            _step(one, observed),
        )
    count = len(observed.changes)
    if expected.max is not None and count > expected.max:
        return failed(f"{count} changes, at most {expected.max} allowed")
    return passed(f"{count} changes, all within what may change")


def _covered(change: Change, mask: tuple[Allowed, ...]) -> bool:
    return any(_covers(one, change) for one in mask)


def _covers(one: Allowed, change: Change) -> bool:
    if not same_entity(one.entity, change.entity):
        return False
    if one.key is not None and str(one.key) != change.key:
        return False
    if one.kind is not None and one.kind != _kind(change):
        return False
    return not one.fields or (
        _kind(change) == "changed" and set(_differing(change)) <= set(one.fields)
    )


def _kind(change: Change) -> str:
    if change.before is None:
        return "added"
    return "deleted" if change.after is None else "changed"


def _differing(change: Change) -> list[str]:
    before, after = change.before, change.after
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    names = dict.fromkeys((*before, *after))
    return [
        name
        for name in names
        if (name in before) != (name in after) or not same(before.get(name), after.get(name))
    ]


def _fields(change: Change) -> str:
    names = _differing(change)
    return f" in {', '.join(names)}" if names else ""


def _step(change: Change, observed: Observed) -> str | None:
    for event in observed.events:
        if any(
            same_entity(change.entity, one.entity, event.twin) and one.key == change.key
            for one in event.changes
        ):
            return step_of(event, observed)
    return None
