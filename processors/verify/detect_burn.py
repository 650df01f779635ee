"""Budget burn: what one run used, against what it may.

Rules
1. Tokens are those of the run's own model calls; what only an agent sums up counts where no call
   says. What nobody reports burns nothing.
2. The step named is the one that crossed the line.
3. Money is counted in millionths of a dollar; a model without a price costs nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Final

from processors.model.detection import Exhibit
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.verify.detect_found import Found
from processors.verify.detect_settings import Budget, Price

_MINUTE_NS: Final = 60_000_000_000
_SECOND_NS: Final = 1_000_000_000
_MICROS: Final = 1_000_000
_WHAT: Final = {
    "tokens": "tokens",
    "model_calls": "model calls",
    "tool_calls": "tool calls",
    "cost_usd_micros": "millionths of a US dollar",
}


def burns(trace: AgentTrace, budget: Budget) -> Iterator[Found]:
    """Every limit that the run passed."""
    if not trace.steps:
        return
    most = len(trace.steps)
    models: list[Step] = []
    if most > budget.model_calls_max or budget.cost_usd_max or _total(trace) > budget.tokens_max:
        models = [step for step in trace.steps if step.kind == "model_call"]
    yield from _counted(models, "model_calls", budget.model_calls_max)
    if most > budget.tool_calls_max:
        called = [
            step
            for step in trace.steps
            if step.kind == "tool_call" and step.status != "requested_only"
        ]
        yield from _counted(called, "tool_calls", budget.tool_calls_max)
    if budget.tokens_max and _total(trace) > budget.tokens_max:
        told = list(_crossing(models, _tokens, "tokens", budget.tokens_max))
        yield from told or [_found("tokens", _total(trace), budget.tokens_max, ())]
    if budget.cost_usd_max and budget.prices:
        limit = int(Decimal(budget.cost_usd_max) * _MICROS)
        yield from _crossing(
            models, lambda step: _cost(step, budget.prices), "cost_usd_micros", limit
        )
    yield from _times(trace, budget)


def _total(trace: AgentTrace) -> int:
    return (trace.usage_total.input or 0) + (trace.usage_total.output or 0)


def _tokens(step: Step) -> int:
    usage = step.usage
    return (usage.input or 0) + (usage.output or 0) if usage is not None else 0


def _counted(steps: Sequence[Step], name: str, limit: int) -> Iterator[Found]:
    if 0 < limit < len(steps):
        yield _found(name, len(steps), limit, (steps[limit].step_id,))


def _crossing(
    steps: Sequence[Step], amount: Callable[[Step], int], name: str, limit: int
) -> Iterator[Found]:
    if limit <= 0:
        return
    used, crossed = 0, ""
    for step in steps:
        used += amount(step)
        if used > limit and not crossed:
            crossed = step.step_id
    if crossed:
        yield _found(name, used, limit, (crossed,))


def _found(name: str, used: int, limit: int, steps: Sequence[str]) -> Found:
    return Found(
        code="budget_burn",
        severity="major" if used >= 2 * limit else "minor",
        sentence=f"the run used {used} {_WHAT.get(name, name)}, and {limit} are its limit",
        remedy="stop the agent at its limit; see which step keeps calling",
        steps=steps,
        evidence=[Exhibit(role="crossed the limit", step_id=step) for step in steps],
        measures={"used": used, "limit": limit},
    )


def _times(trace: AgentTrace, budget: Budget) -> Iterator[Found]:
    if not budget.seconds_max and not budget.tokens_per_minute_max:
        return
    begun = min((step.start_ns for step in trace.steps if step.start_ns), default=0)
    ended = max((step.end_ns for step in trace.steps if step.end_ns), default=begun)
    spent = max(0, ended - begun)
    if budget.seconds_max and spent > budget.seconds_max * _SECOND_NS:
        last = max(trace.steps, key=lambda step: step.end_ns)
        found = _found("seconds", spent // _SECOND_NS, budget.seconds_max, (last.step_id,))
        yield found
    # A rate of less than a minute is one of a minute: short runs are no burst.
    rate = _total(trace) * _MINUTE_NS // max(spent, _MINUTE_NS)
    if budget.tokens_per_minute_max and rate > budget.tokens_per_minute_max:
        yield _found("tokens a minute", rate, budget.tokens_per_minute_max, ())


def _cost(step: Step, prices: Sequence[Price]) -> int:
    """Millionths of a dollar of one model call, rounded up."""
    model, usage = step.model, step.usage
    if model is None or usage is None:
        return 0
    names = [name for name in (model.response_model, model.request_model) if name]
    price = next((price for name in names for price in prices if _is(name, price.model)), None)
    if price is None:
        return 0
    cost = Decimal(price.input_usd) * (usage.input or 0) + Decimal(price.output_usd) * (
        usage.output or 0
    )
    return int(cost.to_integral_value(ROUND_CEILING))


def _is(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern
