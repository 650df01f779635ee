"""One assertion on one tape: a finding, whatever the tape holds.

Rules
1. A tape that does not hold or is tainted proves nothing, either way.
2. What an assertion cannot cope with is an ``error`` of that assertion alone.
3. Findings follow from assertion and tape; there is no clock here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import structs

from sidecar.canonical import NotCanonical
from sidecar.errors import named
from sidecar.evaluate.assertions import calls, order, run, specs, state
from sidecar.evaluate.assertions.finding import (
    Finding,
    every,
    opposite,
    some,
    unanswered,
    unasked,
)
from sidecar.evaluate.assertions.view import Unknown, View, no_content, whole
from sidecar.tape.model import Event
from sidecar.tape.tape import Tape

_FACTORIES: Final[Mapping[type[specs.Assertion], Callable[[Any, View], Finding]]] = {
    specs.MaxRepeats: calls.max_repeats,
    specs.NeverCalls: calls.never_calls,
    specs.CallOrder: calls.call_order,
    specs.RequiresBefore: calls.requires_before,
    specs.TerminatesWithin: run.terminates_within,
    specs.BudgetWithin: run.budget_within,
    specs.OutputSchema: run.output_schema,
    specs.ClaimVerified: run.claim_verified,
    specs.StateInvariant: state.state_invariant,
    specs.Eventually: order.eventually,
    specs.Never: order.never,
    specs.Until: order.until,
}


def judge(one: specs.Assertion, tape: Tape) -> Finding:
    """What the assertion comes to on the tape."""
    faults = tape.examination.faults
    if faults:
        said = f"the tape does not hold ({faults[0].code}); see `sidecar tape verify`"
        return unanswered("evidence", said, faults[0].seq)
    if tape.header.taint:
        return unasked("tainted", f"the tape is tainted ({', '.join(tape.header.taint)})")
    return judge_view(one, whole(tape))


def judge_view(one: specs.Assertion, view: View) -> Finding:
    """What the assertion comes to on a part of a tape."""
    try:
        return _judged(one, view)
    except Unknown:
        return no_content("an input that is compared")
    except NotCanonical:
        return unanswered("payload", "a payload on the tape is no value")
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        return unanswered("crashed", f"it could not be evaluated: {named(error)}")


def _judged(one: specs.Assertion, view: View) -> Finding:
    if isinstance(one, specs.AllOf):
        return every([judge_view(each, view) for each in one.of])
    if isinstance(one, specs.AnyOf):
        return some([judge_view(each, view) for each in one.of])
    if isinstance(one, specs.Not):
        return opposite(judge_view(one.that, view), view.last_seq)
    if isinstance(one, specs.Implies):
        when = opposite(judge_view(one.when, view), view.last_seq)
        return some([when, judge_view(one.then, view)])
    if isinstance(one, specs.Within):
        part = order.sliced(one, view)
        return part if isinstance(part, Finding) else judge_view(one.that, part)
    if isinstance(one, specs.PerAgent):
        return _per_agent(one, view)
    if isinstance(one, specs.Severity | specs.Quarantine):
        return judge_view(one.that, view)
    return _FACTORIES[type(one)](one, view)


def _per_agent(one: specs.PerAgent, view: View) -> Finding:
    agents: dict[str, list[Event]] = {}
    for event in view.events:
        if event.agent:
            agents.setdefault(event.agent, []).append(event)
    if not agents:
        return unasked("agents", "no event on the tape is of a named agent")
    findings = []
    for agent in sorted(agents):
        part = structs.replace(view, events=tuple(agents[agent]))
        found = judge_view(one.that, part)
        findings.append(structs.replace(found, detail=f"{agent}: {found.detail}"))
    return every(findings)
