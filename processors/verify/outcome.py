"""The outcome: what may be concluded about a run, from claims and independent evidence.

Rules, the first that fits (docs/specs/outcome.md is the table, a test keeps both equal)
1. A contradiction: ``contradicted``.
2. Nothing attempted, claimed or asked about: ``unverified``.
3. Of some effect it is unknown whether it happened: ``indeterminate``.
4. Some effect is proved absent, and no later attempt at the same target made it good:
   ``verified_failure``.
5. Of some effect attempted or claimed there is no independent evidence: ``unverified``.
6. Every effect is proved: ``verified_success``, unless the agent's own telemetry says otherwise
   (evidence of an emitter that did not hold, a tool's own result that says it failed, a run that
   ended in error): then ``unverified``.

What the agent's side says only ever lowers. Judging again replaces what was concluded before.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from processors.model.evidence import Evidence, Outcome
from processors.model.names import OutcomeStatus, SideEffectClass
from processors.model.trace import AgentTrace, TraceWarning
from processors.verify.case import Case
from processors.verify.claims import claims
from processors.verify.contradict import contradictions
from processors.verify.disagree import warnings
from processors.verify.effects import Effect, effects, same_target
from processors.verify.subjects import is_reading


def judge(trace: AgentTrace, *, tools: Mapping[str, SideEffectClass], now_ns: int) -> AgentTrace:
    """The trace with its claims, contradictions and outcome.

    ``tools`` are the gateway's registry: name to class. Evidence dated after ``now_ns`` is unknown.
    """
    ordered = trace
    if len(trace.evidence) > 1:
        ordered = replace(trace, evidence=tuple(sorted(trace.evidence, key=_in_time)))
    case = Case(
        trace=ordered,
        claims=claims(trace, tools),
        effects=effects(ordered, tools, now_ns),
        tools=tools,
    )
    found = contradictions(case)
    status: OutcomeStatus = "contradicted" if found else conclude(case)
    return replace(
        trace,
        claims=case.claims,
        outcome=Outcome(status=status, contradictions=found),
        warnings=_warned(trace.warnings, warnings(case)),
    )


def _in_time(item: Evidence) -> tuple[int, str]:
    return item.observed_ns, item.evidence_id


def conclude(case: Case) -> OutcomeStatus:
    """Rules 2 to 6: the status of a run without contradictions."""
    if any(effect.proved and effect.held is None for effect in case.effects):
        return "indeterminate"
    if any(_stands_failed(case, effect) for effect in case.effects):
        return "verified_failure"
    if not case.effects or any(not effect.proved for effect in case.effects):
        return "unverified"
    denied = any(case.denied(effect) for effect in case.effects)
    if denied or _claimed_without_effect(case) or _lowered(case.trace):
        return "unverified"
    return "verified_success"


def _claimed_without_effect(case: Case) -> bool:
    """Whether success was claimed of something that no attempt and no evidence speaks of."""
    for claim in case.claims:
        if claim.status != "success" or claim.source == "tool_result" or case.of(claim.subject):
            continue
        class_ = case.tools.get(claim.subject) if claim.subject is not None else None
        reading = claim.subject is not None and class_ is None and is_reading(claim.subject)
        if class_ != "read" and not reading:
            return True
    return False


def _stands_failed(case: Case, effect: Effect) -> bool:
    """Whether an effect is absent and no other attempt at the same target made it good."""
    if effect.held is not False:
        return False
    attempts = case.of(effect.subject) if effect.subject is not None else []
    place = next((n for n, other in enumerate(attempts) if other is effect), 0)
    return not any(other.held and same_target(effect, other) for other in attempts[place + 1 :])


def _lowered(trace: AgentTrace) -> bool:
    if any(item.source == "emitter" and item.held is False for item in trace.evidence):
        return True
    ended = [
        step.parent_step_id
        for step in trace.steps
        if step.kind == "agent" and step.status in ("error", "cancelled")
    ]
    return bool(ended) and not {step.step_id for step in trace.steps}.issuperset(ended)


def _warned(
    present: Sequence[TraceWarning], new: Sequence[TraceWarning]
) -> tuple[TraceWarning, ...]:
    if not new:
        return tuple(present)
    return (*present, *(item for item in new if item not in present))
