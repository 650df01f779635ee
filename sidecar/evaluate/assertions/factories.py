"""Assertions as Python writes them: each factory refuses values that are wrong (ValueError)."""

from typing import Any, Literal

from sidecar.evaluate.assertions import specs
from sidecar.evaluate.assertions.view import Where


def max_repeats(
    max: int,
    tool: str | None = None,
    *,
    arguments: dict[str, Any] | None = None,
    same: Literal["tool", "arguments"] = "tool",
) -> specs.Assertion:
    """No tool (or ``tool``) is called more often; ``same="arguments"``: with equal arguments."""
    return _checked(specs.MaxRepeats(max=max, tool=tool, arguments=arguments or {}, same=same))


def never_calls(
    *tools: str,
    arguments: dict[str, Any] | None = None,
    status: Literal["any", "executed"] = "any",
) -> specs.Assertion:
    """None of the tools is called, with these arguments where they are given."""
    return _checked(specs.NeverCalls(tools=tools, arguments=arguments or {}, status=status))


def terminates_within(events: int) -> specs.Assertion:
    """The terminal event's seq is below ``events``."""
    return _checked(specs.TerminatesWithin(events=events))


def budget_within(
    *,
    tool_calls: int | None = None,
    model_calls: int | None = None,
    tokens: int | None = None,
    cost_usd_micros: int | None = None,
    seconds: float | None = None,
) -> specs.Assertion:
    """Sums over the run stay within each limit that is given."""
    return _checked(
        specs.BudgetWithin(
            tool_calls=tool_calls,
            model_calls=model_calls,
            tokens=tokens,
            cost_usd_micros=cost_usd_micros,
            seconds=seconds,
        )
    )


def call_order(*tools: str) -> specs.Assertion:
    """The first executed calls of the tools come in this order."""
    return _checked(specs.CallOrder(tools=tools))


def output_schema(schema: Any, tool: str | None = None, *, parse: bool = False) -> specs.Assertion:
    """The final output, or each result of ``tool``, is valid under a JSON Schema."""
    return _checked(specs.OutputSchema(schema=schema, tool=tool, parse=parse))


def state_invariant(that: str, of: str | None = None, *, start: Any = None) -> specs.Assertion:
    """CEL over ``state`` holds at the start and after each change."""
    return _checked(specs.StateInvariant(that=that, of=of, start=start))


def requires_before(
    tool: str, *, read: str | None = None, approval: bool = False
) -> specs.Assertion:
    """Each executed call of ``tool`` comes after an approval of its own, or a read."""
    return _checked(specs.RequiresBefore(tool=tool, read=read, approval=approval))


def claim_verified() -> specs.Assertion:
    """What the run claims was verified."""
    return specs.ClaimVerified()


def all_of(*of: specs.Assertion) -> specs.Assertion:
    """All hold."""
    return _checked(specs.AllOf(of=of))


def any_of(*of: specs.Assertion) -> specs.Assertion:
    """One holds."""
    return _checked(specs.AnyOf(of=of))


def not_(that: specs.Assertion) -> specs.Assertion:
    """It does not hold."""
    return _checked(specs.Not(that=that))


def implies(when: specs.Assertion, then: specs.Assertion) -> specs.Assertion:
    """Where ``when`` holds, ``then`` does."""
    return _checked(specs.Implies(when=when, then=then))


def within(
    that: specs.Assertion,
    *,
    from_seq: int = 0,
    to_seq: int | None = None,
    after: Where | None = None,
    before: Where | None = None,
) -> specs.Assertion:
    """It holds in a slice of the tape."""
    return _checked(
        specs.Within(that=that, from_seq=from_seq, to_seq=to_seq, after=after, before=before)
    )


def per_agent(that: specs.Assertion) -> specs.Assertion:
    """It holds for each agent's events alone."""
    return _checked(specs.PerAgent(that=that))


def eventually(event: Where) -> specs.Assertion:
    """Such an event comes."""
    return specs.Eventually(event=event)


def never(event: Where) -> specs.Assertion:
    """No such event comes."""
    return specs.Never(event=event)


def until(hold: Where, event: Where) -> specs.Assertion:
    """``event`` comes, and every event before it is a ``hold``."""
    return specs.Until(hold=hold, event=event)


def severity(level: Literal["error", "warning"], that: specs.Assertion) -> specs.Assertion:
    """How much a failure weighs."""
    return _checked(specs.Severity(level=level, that=that))


def quarantine(until: str, owner: str, that: specs.Assertion) -> specs.Assertion:
    """Told and not counted before ``until``."""
    return _checked(specs.Quarantine(until=until, owner=owner, that=that))


def _checked(one: specs.Assertion) -> specs.Assertion:
    found = specs.problems(one, specs.SPEC_OF[type(one)])
    if found:
        raise ValueError("; ".join(f"{each.path} {each.text}" for each in found))
    return one
