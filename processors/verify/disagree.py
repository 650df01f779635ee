"""Where spans and receipts disagree, and what happened more often than it may.

Rules
1. Nobody is accused on what instrumentation may have left out: a missing span accuses only a
   complete trace that shows other tool spans; a missing receipt accuses only a tool that the
   registry governs.
2. A duplicate is two confirmed effects of one irreversible tool with equal arguments: by receipts,
   or by a probe or twin asked for just that (``no_duplicate_effect``). Spans alone only warn.
3. Details are one sentence that names tools, never content.
"""

from collections.abc import Iterator
from typing import Final

from processors.model.evidence import Contradiction, Evidence
from processors.model.step import Step
from processors.model.trace import AgentTrace, TraceWarning
from processors.verify.case import Case
from processors.verify.effects import NO_DUPLICATE
from processors.verify.pairing import argument_key
from processors.verify.subjects import is_control, is_reading, registered, same_tool

_HOPS_MAX: Final = 64
_BAD_WORDS = (
    *("error", "fail", "denied", "declined", "reject", "refus", "not allowed", "forbidden"),
    *("timeout", "timed out", "unavailable", "exception", "unable", "could not", "cannot"),
)


def warnings(case: Case) -> tuple[TraceWarning, ...]:
    """What spans alone cannot prove: an effect that may have happened twice."""
    acts: list[tuple[str, Step]] = []
    receipted = {item.step_id for item in case.trace.evidence if item.source == "receipt"}
    for step, known in case.executed:
        name = known or (step.tool.name if step.tool else None) or step.name
        class_ = case.tools.get(name)
        harmless = class_ is None and (is_reading(name) or is_control(name))
        if not harmless and class_ != "read" and step.step_id not in receipted:
            acts.append((name, step))
    if len({name for name, _ in acts}) == len(acts):
        return ()
    seen: dict[tuple[str, str], int] = {}
    for name, step in acts:
        key = argument_key(step.tool.arguments) if step.tool else None
        if key is not None:
            seen[(name, key)] = seen.get((name, key), 0) + 1
    twice = dict.fromkeys(name for (name, _), count in seen.items() if count > 1)
    return tuple(TraceWarning(code="possible_duplicate_effect", detail=name) for name in twice)


def duplicates(case: Case) -> Iterator[Contradiction]:
    """Irreversible effects that happened more than once (rule 2)."""
    for effect in case.effects:
        confirmed = [
            item
            for item in effect.receipts
            if item.held and item.data.get("phase", "executed") != "replayed"
        ]
        if effect.class_ == "irreversible" and len(confirmed) > 1:
            yield Contradiction(
                code="duplicate_effect",
                detail=f"{effect.subject}: it happened {len(confirmed)} times with equal arguments",
                step_id=confirmed[1].step_id,
                evidence=tuple(item.evidence_id for item in confirmed),
                said=effect.step_ids,
            )
    for item in case.trace.evidence:
        if item.name == NO_DUPLICATE and item.source in ("probe", "twin") and item.held is False:
            yield Contradiction(
                code="duplicate_effect",
                detail=f"{item.subject or 'an effect'}: it happened more than once",
                step_id=item.step_id,
                evidence=(item.evidence_id,),
                said=(item.step_id,) if item.step_id else (),
            )


def unreceipted(case: Case) -> Iterator[Contradiction]:
    """Governed tools that ran without the gateway's having seen them."""
    covered: set[str] | None = None
    for step, name in case.executed:
        governed = name is not None and case.tools[name] in ("write", "irreversible")
        if not governed or step.status not in ("ok", "unset"):
            continue
        covered = _covered(case.trace) if covered is None else covered
        if step.step_id not in covered:
            yield Contradiction(
                code="span_without_receipt",
                detail=f"{name}: a span says that it ran, but it did not go through the gateway",
                step_id=step.step_id,
                said=(step.step_id,),
            )


def _covered(trace: AgentTrace) -> set[str]:
    """Steps with a receipt, and those that wrap or are wrapped by one of the same tool."""
    covered = {item.step_id for item in trace.evidence if item.source == "receipt"}
    if not covered:
        return set()
    steps = {step.step_id: step for step in trace.steps}
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


def unreported(case: Case) -> Iterator[Contradiction]:
    """Effects through the gateway that no span tells of."""
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
                detail=f"{item.subject}: it went through the gateway, but no span tells of it",
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


def receipt_errors(case: Case) -> Iterator[Contradiction]:
    """Spans that say ok of calls whose receipts all say error."""
    receipts: dict[str, list[Evidence]] = {}
    for item in case.trace.evidence:
        if item.source == "receipt" and item.step_id is not None:
            receipts.setdefault(item.step_id, []).append(item)
    for step, _ in case.executed if receipts else ():
        of_step = receipts.get(step.step_id, [])
        failed = [item for item in of_step if _is_error(item)]
        if step.status != "ok" or not failed or len(failed) < len(of_step):
            continue
        subject = registered(failed[0].subject or "", case.tools) or failed[0].subject
        if not _owned_up(case, subject, step) and not _admits(step):
            yield Contradiction(
                code="span_ok_receipt_error",
                detail=f"{subject}: its span says ok, but its receipt says that it was not done",
                step_id=step.step_id,
                evidence=tuple(item.evidence_id for item in failed),
                said=(step.step_id,),
            )


def _owned_up(case: Case, subject: str | None, step: Step) -> bool:
    """Whether the agent told of a failure that is all there is to say of the run.

    Where the effect was made good since, or another one is unknown, its telling would raise the
    outcome: then the span is judged by itself.
    """
    if not case.claimed(subject, "failure"):
        return False
    own = [effect for effect in case.effects if step.step_id in effect.step_ids]
    return all(case.plainly_failed(effect) for effect in own)


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
