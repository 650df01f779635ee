"""Contradictions: where what was said or shown and what is known cannot both be true.

Rules
1. A contradiction needs two sides: a claim or a span, and evidence (or its absence where the
   gateway must have seen the call). What is merely unproved contradicts nothing.
2. Nobody is accused on what instrumentation may have left out: a missing span accuses only a
   complete trace that shows other tool spans; a missing receipt accuses only a tool that the
   registry governs.
3. A duplicate is two confirmed effects of one irreversible tool with equal arguments: by receipts,
   or by a probe or twin asked for just that (``no_duplicate_effect``). Spans alone only warn.
4. Details name tools and codes, never content.

docs/specs/outcome.md has the table; ``outcome`` draws the conclusion.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from processors.model.evidence import Claim, Contradiction, Evidence
from processors.model.names import SideEffectClass
from processors.model.step import Step
from processors.model.trace import AgentTrace, TraceWarning
from processors.verify.effects import NO_DUPLICATE, Effect, identifiers
from processors.verify.pairing import argument_key
from processors.verify.subjects import is_control, is_reading, registered, same_tool

_HOPS_MAX: Final = 64
_BAD_WORDS = ("error", "fail", "denied", "declined", "reject", "refus", "not allowed", "forbidden")


class Case(Struct, frozen=True, kw_only=True):
    """What is judged: the trace, its claims and effects, and the registry's classes."""

    trace: AgentTrace
    claims: tuple[Claim, ...]
    effects: tuple[Effect, ...]
    tools: Mapping[str, SideEffectClass]

    def of(self, subject: str | None) -> list[Effect]:
        """The effects of a claim's subject; of the run as a whole all but reads."""
        if subject is None:
            return [effect for effect in self.effects if effect.class_ != "read"]
        return [
            effect
            for effect in self.effects
            if effect.subject is not None and same_tool(effect.subject, subject)
        ]

    def claimed(self, subject: str | None, status: str) -> bool:
        """Whether a claim of this status was made of just this subject."""
        return any(
            item.status == status
            and (
                item.subject == subject
                or (subject and item.subject and same_tool(subject, item.subject))
            )
            for item in self.claims
        )


def contradictions(case: Case) -> tuple[Contradiction, ...]:
    """Every contradiction, each once, claims first."""
    found = (
        *_claimed_success(case),
        *_claimed_failure(case),
        *_duplicates(case),
        *_without_receipt(case),
        *_without_span(case),
        *_span_against_receipt(case),
    )
    return tuple({(item.code, item.detail, item.step_id): item for item in found}.values())


def warnings(case: Case) -> tuple[TraceWarning, ...]:
    """What spans alone cannot prove: an effect that may have happened twice."""
    seen: dict[tuple[str, str], int] = {}
    receipted = {item.step_id for item in case.trace.evidence if item.source == "receipt"}
    for step in _executed(case.trace):
        name = registered(step.tool.name, case.tools) if step.tool and step.tool.name else None
        name = name or (step.tool.name if step.tool else None) or step.name
        class_ = case.tools.get(name)
        harmless = is_reading(name) or is_control(name)
        if class_ == "read" or (class_ is None and harmless) or step.step_id in receipted:
            continue
        key = argument_key(step.tool.arguments) if step.tool else None
        if key is not None:
            seen[(name, key)] = seen.get((name, key), 0) + 1
    twice = dict.fromkeys(name for (name, _), count in seen.items() if count > 1)
    return tuple(TraceWarning(code="possible_duplicate_effect", detail=name) for name in twice)


def _claimed_success(case: Case) -> Iterator[Contradiction]:
    some_failed = any(claim.status == "failure" for claim in case.claims)
    for claim in case.claims:
        if claim.status != "success" or (claim.subject is None and some_failed):
            continue
        meant = case.of(claim.subject)
        failed = [effect for effect in meant if effect.held is False]
        if failed and len(failed) < len(meant):
            failed = [effect for effect in failed if _names(case, claim, effect, meant)]
        if failed:
            yield Contradiction(
                code="claimed_success_state_failed",
                detail=f"{claim.subject or failed[0].subject}: said to be done, but it is not",
                step_id=failed[0].step_ids[0] if failed[0].step_ids else None,
                evidence=tuple(
                    item.evidence_id
                    for effect in failed
                    for item in (effect.states or effect.receipts)
                    if item.held is False
                ),
            )


def _names(case: Case, claim: Claim, effect: Effect, meant: Sequence[Effect]) -> bool:
    """Whether a claim's sentence names just this effect's target, by a value no other one has.

    A value that a sentence with a claim of failure names too may be what failed: it accuses nobody.
    """
    others = {
        leaf for other in meant if other is not effect for leaf in identifiers(other.arguments)
    }
    own = identifiers(effect.arguments) - others
    admitted = " ".join(item.text or "" for item in case.claims if item.status == "failure")
    return claim.text is not None and any(
        leaf in claim.text and leaf not in admitted for leaf in own
    )


def _claimed_failure(case: Case) -> Iterator[Contradiction]:
    some_succeeded = any(claim.status == "success" for claim in case.claims)
    for claim in case.claims:
        if claim.status != "failure" or (claim.subject is None and some_succeeded):
            continue
        meant = case.of(claim.subject)
        if case.claimed(claim.subject, "success") or not meant:
            continue
        # An answer about one subject may speak of another target than the one that was served.
        if all(effect.held for effect in meant) and (claim.subject is None or len(meant) == 1):
            yield Contradiction(
                code="claimed_failure_effect_happened",
                detail=f"{claim.subject or meant[0].subject}: said not to be done, but it is",
                step_id=meant[0].step_ids[0] if meant[0].step_ids else None,
                evidence=tuple(item for effect in meant for item in effect.evidence_ids),
            )


def _duplicates(case: Case) -> Iterator[Contradiction]:
    for effect in case.effects:
        confirmed = [
            item
            for item in effect.receipts
            if item.held and item.data.get("phase", "executed") != "replayed"
        ]
        if effect.class_ == "irreversible" and len(confirmed) > 1:
            yield Contradiction(
                code="duplicate_effect",
                detail=f"{effect.subject}: happened {len(confirmed)} times with equal arguments",
                step_id=confirmed[1].step_id,
                evidence=tuple(item.evidence_id for item in confirmed),
            )
    for item in case.trace.evidence:
        if item.name == NO_DUPLICATE and item.source in ("probe", "twin") and item.held is False:
            yield Contradiction(
                code="duplicate_effect",
                detail=f"{item.subject or 'an effect'}: happened more than once",
                step_id=item.step_id,
                evidence=(item.evidence_id,),
            )


def _without_receipt(case: Case) -> Iterator[Contradiction]:
    covered = _covered(case.trace)
    for step in _executed(case.trace):
        name = registered(step.tool.name, case.tools) if step.tool and step.tool.name else None
        governed = name is not None and case.tools[name] in ("write", "irreversible")
        if governed and step.status in ("ok", "unset") and step.step_id not in covered:
            yield Contradiction(
                code="span_without_receipt",
                detail=f"{name}: ran, but not through the gateway",
                step_id=step.step_id,
            )


def _covered(trace: AgentTrace) -> set[str]:
    """Steps with a receipt, and those that wrap or are wrapped by one of the same tool."""
    steps = {step.step_id: step for step in trace.steps}
    covered = {item.step_id for item in trace.evidence if item.source == "receipt"}
    found = {step_id for step_id in covered if step_id is not None}
    for step in trace.steps:
        if step.kind != "tool_call":
            continue
        above = step
        for _ in range(_HOPS_MAX):
            parent = steps.get(above.parent_step_id or "")
            if parent is None:
                break
            above = parent
            if above.tool is None or step.tool is None or not _alike(step, above):
                continue
            if step.step_id in covered:
                found.add(above.step_id)
            elif above.step_id in covered:
                found.add(step.step_id)
    return found


def _alike(left: Step, right: Step) -> bool:
    names = [step.tool.name if step.tool else None for step in (left, right)]
    return names[0] is not None and names[1] is not None and same_tool(names[0], names[1])


def _without_span(case: Case) -> Iterator[Contradiction]:
    if case.trace.completeness != "complete" or not _shows_tools(case.trace):
        return
    asked = _asked_for(case.trace)
    receipts = {item.step_id: item for item in case.trace.evidence if item.source == "receipt"}
    for step in case.trace.steps:
        item = receipts.get(step.step_id)
        if item is None or any(source.kind != "receipt" for source in step.sources):
            continue
        effective = item.data.get("class") != "read" and item.held is not False
        if effective and not any(same_tool(name, item.subject or "") for name in asked):
            yield Contradiction(
                code="receipt_without_span",
                detail=f"{item.subject}: went through the gateway, but no span tells of it",
                step_id=step.step_id,
                evidence=(item.evidence_id,),
            )


def _shows_tools(trace: AgentTrace) -> bool:
    return any(
        source.kind in ("span", "log")
        for step in trace.steps
        if step.kind == "tool_call" and step.status != "requested_only"
        for source in step.sources
    )


def _asked_for(trace: AgentTrace) -> set[str]:
    """The names of tools that a model's messages ask for."""
    return {
        part.name
        for step in trace.steps
        for message in step.messages_out or ()
        for part in message.parts
        if part.type == "tool_call" and part.name
    }


def _span_against_receipt(case: Case) -> Iterator[Contradiction]:
    receipts: dict[str, list[Evidence]] = {}
    for item in case.trace.evidence:
        if item.source == "receipt" and item.step_id is not None:
            receipts.setdefault(item.step_id, []).append(item)
    for step in _executed(case.trace):
        of_step = receipts.get(step.step_id, [])
        failed = [item for item in of_step if _is_error(item)]
        if step.status != "ok" or not failed or len(failed) < len(of_step):
            continue
        subject = registered(failed[0].subject or "", case.tools) or failed[0].subject
        if not case.claimed(subject, "failure") and not _admits(step):
            yield Contradiction(
                code="span_ok_receipt_error",
                detail=f"{subject}: its span says ok, its receipt says it was not done",
                step_id=step.step_id,
                evidence=tuple(item.evidence_id for item in failed),
            )


def _is_error(item: Evidence) -> bool:
    status = item.data.get("status")
    return (
        item.held is False
        and item.data.get("class") != "read"
        and isinstance(status, int)
        and status >= 400
    )


def _admits(step: Step) -> bool:
    """Whether the result that the span shows tells of the failure itself."""
    result = step.tool.result if step.tool is not None else None
    return result is not None and any(word in str(result).lower() for word in _BAD_WORDS)


def _executed(trace: AgentTrace) -> Iterator[Step]:
    """The tool calls that the agent's own telemetry says were executed."""
    for step in trace.steps:
        if step.kind != "tool_call" or step.status in ("requested_only", "denied", "deferred"):
            continue
        if any(source.kind != "receipt" for source in step.sources):
            yield step
