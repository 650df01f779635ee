"""Expectations about how the world stands and what was said at the end."""

from processors.model.twin import Change
from sidecar.evaluate.expectation import pattern
from sidecar.evaluate.expectations import (
    FinalOutcome,
    OutcomeVerified,
    OutputContains,
    OutputNotContains,
    StateIs,
    StateUnchanged,
)
from sidecar.evaluate.judgement import Judgement, failed, passed, skipped
from sidecar.evaluate.matching import at, same
from sidecar.evaluate.observed import Observed, WorldView
from sidecar.evaluate.state import holds_in, same_entity, verb

_NO_WORLD = "no twin took part, so there is no state to look at"


def state(expected: StateIs, observed: Observed) -> Judgement:
    """A row has values, exists or not, or CEL holds. Raises ExpressionFailed."""
    world = observed.world
    if world is None:
        return skipped(_NO_WORLD)
    if expected.that:
        return _that(expected.that, world)
    row = world.row(expected.entity, expected.key)
    name = f"{expected.entity} {expected.key}"
    if expected.exists is not None:
        word = "exists" if row is not None else "does not exist"
        right = (row is not None) == expected.exists
        return passed(f"{name} {word}") if right else failed(f"{name} {word}")
    if row is None:
        return failed(f"{name} does not exist")
    for field, value in (expected.equals or {}).items():
        there, found = at(row, field)
        if not there or not same(found, value):
            said = repr(found) if there else "absent"
            return failed(f"{name}: {field} is {said}, expected {value!r}")
    return passed(f"{name} is as expected")


def state_unchanged(expected: StateUnchanged, observed: Observed) -> Judgement:
    """No row differs from the start, but for the named ones."""
    if observed.world is None:
        return skipped(_NO_WORLD)
    wrong = [change for change in observed.changes if _counts(change, expected)]
    if not wrong:
        return passed("no row changed")
    first = wrong[0]
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return failed(f"{first.entity} {first.key} {verb(first)}{more}")


def outcome_verified(expected: OutcomeVerified, observed: Observed) -> Judgement:
    """The trace's outcome is one of the expected."""
    outcome = observed.trace.outcome
    if outcome.status in expected.status:
        return passed(f"the outcome is {outcome.status}")
    first = outcome.contradictions[0] if outcome.contradictions else None
    why = f": {first.detail}" if first else ""
    wanted = " or ".join(expected.status)
    return failed(
        f"the outcome is {outcome.status}, expected {wanted}{why}", first.step_id if first else None
    )


def final_outcome(expected: FinalOutcome, observed: Observed) -> Judgement:
    """What the agent claimed and said."""
    claimed = _claimed(observed)
    if expected.claim is not None and claimed != expected.claim:
        return failed(f"the agent's final claim is {claimed}, expected {expected.claim}")
    output = observed.trace.final_output or ""
    for wrong, text in (
        (expected.contains is not None and not _in(expected.contains, output), "lacks"),
        (expected.not_contains is not None and _in(expected.not_contains, output), "has"),
    ):
        if wrong:
            wanted = expected.contains if text == "lacks" else expected.not_contains
            return failed(f"the final output {text} {wanted!r}")
    if expected.equals is not None and output != expected.equals:
        return failed(f"the final output is not {expected.equals!r}")
    if expected.matches is not None and pattern(expected.matches).search(output) is None:
        return failed(f"the final output does not match {expected.matches!r}")
    return passed(f"the agent's final claim is {claimed}")


def output_contains(expected: OutputContains, observed: Observed) -> Judgement:
    """The text is in the final output."""
    there = _in(expected.text, observed.trace.final_output or "")
    word = "has" if there else "lacks"
    said = f"the final output {word} {expected.text!r}"
    return passed(said) if there else failed(said)


def output_not_contains(expected: OutputNotContains, observed: Observed) -> Judgement:
    """The text is not in the final output."""
    there = _in(expected.text, observed.trace.final_output or "")
    word = "has" if there else "lacks"
    said = f"the final output {word} {expected.text!r}"
    return failed(said) if there else passed(said)


def _that(text: str, world: WorldView) -> Judgement:
    holds = holds_in(text, world)
    return passed(f"holds: {text}") if holds else failed(f"does not hold: {text}")


def _counts(change: Change, expected: StateUnchanged) -> bool:
    if expected.entities and not any(same_entity(one, change.entity) for one in expected.entities):
        return False
    return not any(
        change.key == (key if isinstance(key, str) else str(key))
        for entity, keys in expected.except_.items()
        if same_entity(entity, change.entity)
        for key in keys
    )


def _claimed(observed: Observed) -> str:
    said = [claim for claim in observed.trace.claims if claim.source == "final_answer"]
    claims = said or [one for one in observed.trace.claims if one.source != "tool_result"]
    return claims[-1].status if claims else "none"


def _in(text: str, output: str) -> bool:
    return text.casefold() in output.casefold()
