"""Expectations about how much a run took: steps, time, money.

Rules
1. Steps are what the agent did: model calls, tool calls, handoffs. Frames around them are none.
2. Time is from the first start to the last end, as measured: of class S, it varies from run to run.
3. Money is tokens times the prices the expectation gives; tokens nobody counted are never free: the
   expectation is skipped.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from msgspec import Struct

from processors.model.step import Step
from sidecar.evaluate.expectation import Expectation
from sidecar.evaluate.judgement import Judgement, failed, passed, skipped
from sidecar.evaluate.observed import Observed

_ACTS: Final = frozenset({"model_call", "tool_call", "handoff", "retrieval", "human_input"})
_MILLION: Final = Decimal(1_000_000)


class MaxSteps(Expectation, frozen=True, kw_only=True, tag="maxSteps"):
    """At most so many acts."""

    max: int


class MaxLatencyMs(Expectation, frozen=True, kw_only=True, tag="maxLatencyMs"):
    """At most so many milliseconds, of the run or of every call of a tool."""

    max: int
    tool: str = ""


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens, as decimal text."""

    input: str
    output: str


class MaxCostUsd(Expectation, frozen=True, kw_only=True, tag="maxCostUsd"):
    """The run's model calls cost at most so much; ``prices`` by model, ``*`` for any other."""

    max: str
    prices: dict[str, Price]

    def problems(self, tools: Sequence[str]) -> list[str]:
        """Amounts are decimal text."""
        texts = [self.max, *(t for one in self.prices.values() for t in (one.input, one.output))]
        wrong = [text for text in texts if _amount(text) is None]
        found = [f"{text!r} is no amount of dollars" for text in wrong]
        return [*super().problems(tools), *found, *([] if self.prices else ["needs prices"])]


def max_steps(expected: MaxSteps, observed: Observed) -> Judgement:
    """Not more acts than that."""
    acts = [step for step in observed.trace.steps if step.kind in _ACTS]
    said = f"{len(acts)} steps"
    if len(acts) > expected.max:
        return failed(f"{said}, at most {expected.max} expected", acts[expected.max].step_id)
    return passed(said)


def max_latency_ms(expected: MaxLatencyMs, observed: Observed) -> Judgement:
    """Not longer than that."""
    timed = [step for step in observed.trace.steps if step.end_ns >= step.start_ns > 0]
    if expected.tool:
        timed = [one for one in timed if one.tool is not None and one.tool.name == expected.tool]
        took = [(_ms(one.end_ns - one.start_ns), one.step_id) for one in timed]
    elif timed:
        end = max(timed, key=lambda one: one.end_ns)
        took = [(_ms(end.end_ns - min(one.start_ns for one in timed)), end.step_id)]
    else:
        took = []
    if not took:
        return skipped("no step has times")
    longest, step = max(took)
    about = expected.tool or "the run"
    if longest > expected.max:
        return failed(f"{about} took {longest} ms, at most {expected.max} expected", step)
    return passed(f"{about} took {longest} ms")


def max_cost_usd(expected: MaxCostUsd, observed: Observed) -> Judgement:
    """Not dearer than that."""
    total, most = Decimal(0), Decimal(expected.max)
    counted = 0
    for step in observed.trace.steps:
        if step.kind != "model_call":
            continue
        name = _model(step)
        price = expected.prices.get(name) or expected.prices.get("*")
        if price is None:
            return skipped(f"there is no price for the model {name!r}")
        usage = step.usage
        if usage is None or usage.input is None or usage.output is None:
            return skipped("a model call does not tell its tokens")
        counted += 1
        total += usage.input * Decimal(price.input) / _MILLION
        total += usage.output * Decimal(price.output) / _MILLION
        if total > most:
            return failed(
                f"the run had cost {total:f} USD here, at most {most} expected", step.step_id
            )
    if not counted:
        return skipped("no model call is known, so no cost is")
    return passed(f"{counted} model calls cost {total:f} USD")


def _model(step: Step) -> str:
    if step.model is None:
        return ""
    return step.model.response_model or step.model.request_model or ""


def _ms(nanoseconds: int) -> int:
    return -(-nanoseconds // 1_000_000)


def _amount(text: str) -> Decimal | None:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount >= 0 else None
