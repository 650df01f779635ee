"""All expectations of a scenario on one episode, as scores.

Rules
1. A crashed evaluator is an ``error`` score: never a zero, never a pass.
2. Each expectation is scored; none hides another.
3. An episode passes when no required score failed and at least one was evaluated; with an error, or
   nothing evaluated, it is incomplete, and incomplete is never a pass.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from processors.model.verdict import Score
from sidecar.evaluate import conduct, outcome, trajectory
from sidecar.evaluate import expectations as types
from sidecar.evaluate.expectations import AnyExpectation, Expectation, type_of
from sidecar.evaluate.judgement import Judgement
from sidecar.evaluate.observed import Observed
from sidecar.expression.cel import ExpressionFailed, ExpressionInvalid

Conclusion = Literal["passed", "failed", "incomplete"]

_EVALUATORS: Mapping[type[Expectation], Callable[[Any, Observed], Judgement]] = {
    types.StateIs: outcome.state,
    types.StateUnchanged: outcome.state_unchanged,
    types.ToolCalled: trajectory.tool_called,
    types.ToolNotCalled: trajectory.tool_not_called,
    types.MaxToolCalls: trajectory.max_tool_calls,
    types.Order: trajectory.order,
    types.RequiresBefore: trajectory.requires_before,
    types.ApprovalRequired: trajectory.approval_required,
    types.NoDuplicateSideEffect: trajectory.no_duplicate_side_effect,
    types.NoDetections: conduct.no_detections,
    types.OutcomeVerified: outcome.outcome_verified,
    types.FinalOutcome: outcome.final_outcome,
    types.OutputContains: outcome.output_contains,
    types.OutputNotContains: outcome.output_not_contains,
}


def score(expected: AnyExpectation, observed: Observed) -> Score:
    """The score of one expectation."""
    try:
        judgement = _EVALUATORS[type(expected)](expected, observed)
    except (ExpressionFailed, ExpressionInvalid, LookupError, ValueError, TypeError) as error:
        judgement = Judgement(status="error", detail=f"it could not be evaluated: {error}")
    return Score(
        expectation=expected.id or type_of(expected),
        type=type_of(expected),
        status=judgement.status,
        detail=judgement.detail,
        required=expected.required,
        first_step=judgement.step,
        evidence=judgement.evidence,
    )


def scores(expected: Sequence[AnyExpectation], observed: Observed) -> tuple[Score, ...]:
    """The scores of all expectations, in their order."""
    return tuple(score(one, observed) for one in expected)


def conclude(found: Sequence[Score]) -> Conclusion:
    """What the scores of an episode come to."""
    required = [one for one in found if one.required]
    if any(one.status == "fail" for one in required):
        return "failed"
    if any(one.status == "error" for one in required):
        return "incomplete"
    evaluated = any(one.status == "pass" for one in required)
    return (
        "passed"
        if evaluated and not any(one.status == "skip" for one in required)
        else "incomplete"
    )
