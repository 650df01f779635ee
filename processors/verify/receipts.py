"""Gateway receipts joined to the steps of a trace, and made evidence.

Rules
1. Each call becomes one Evidence (held: confirmed = True, not executed = False, unknown = None) on
   the step that ``pairing`` finds; where it finds none, on a tool_call step of its own.
2. A refusal by policy makes its step ``denied``, a request for approval ``deferred``, with the
   gateway's decision on the step; another refusal makes it ``error``.
3. What the agent's telemetry says of an executed call stays, so that a difference can be seen. Only
   a call that was merely requested, or whose span says nothing of a failure, learns from receipts.
4. Arguments that the telemetry does not hold are filled in from the gateway (state ``recovered``).
5. Attaching twice changes nothing; receipts of another trace are left alone.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from processors.model.call import Receipt, ReceiptFact
from processors.model.evidence import Evidence
from processors.model.names import StepStatus
from processors.model.step import Source, Step, StepDecision, StepError, Tool
from processors.model.trace import AgentTrace
from processors.verify.calls import Call, calls, evidence
from processors.verify.pairing import Pairing

UNMATCHED: Final = "request for no known tool"
_DENIALS = frozenset(("approval_denied", "approval_mismatch", "approval_expired"))


def attach(trace: AgentTrace, facts: Sequence[ReceiptFact], now_ns: int) -> AgentTrace:
    """The trace with its receipts: evidence, decisions, and steps for calls without a span.

    ``facts`` whose trace id is none of the trace's are left out. ``now_ns`` dates evidence whose
    receipt has no end.
    """
    own = {trace.trace_id, *trace.trace_ids}
    found = calls(fact for fact in facts if fact.receipt.trace_id in own)
    if not found:
        return trace
    known = {receipt_id for call in found for receipt_id in call.receipt_ids}
    steps = [step for step in trace.steps if not _made_here(step, known)]
    pairing = Pairing(steps)
    paired = pairing.pair(found)
    of_step: dict[str, list[Call]] = defaultdict(list)
    made: list[Step] = []
    gathered: list[Evidence] = []
    for call in found:
        step_id = paired.get(call.last.receipt_id)
        if step_id is None:
            step = _step(call, _parent(pairing, call, steps))
            made.append(step)
            step_id = step.step_id
        else:
            of_step[step_id].append(call)
        gathered.append(evidence(call, step_id, now_ns))
    updated = [
        _told(step, of_step[step.step_id]) if step.step_id in of_step else step for step in steps
    ]
    kept = [item for item in trace.evidence if item.receipt_id not in known]
    return replace(trace, steps=_placed(updated, made), evidence=(*kept, *gathered))


def _made_here(step: Step, known: set[str]) -> bool:
    """Whether a step stands for a receipt alone, and that receipt is at hand again."""
    return step.step_id.startswith("receipt:") and step.receipt_id in known


def _parent(pairing: Pairing, call: Call, steps: Sequence[Step]) -> str | None:
    place = pairing.place(call)
    if place is not None:
        return place
    tops = (step for step in steps if step.parent_step_id is None)
    return next((step.step_id for step in tops if step.kind in ("agent", "other")), None)


def _step(call: Call, parent: str | None) -> Step:
    receipt = call.last
    step = Step(
        step_id=f"receipt:{receipt.receipt_id}",
        kind="tool_call",
        name=receipt.tool or UNMATCHED,
        parent_step_id=parent,
        start_ns=receipt.started_at_ns,
        end_ns=receipt.finished_at_ns,
        status="requested_only",
        tool=Tool(name=receipt.tool or None),
        content_state={"arguments": "absent", "result": "absent"},
    )
    return _told(step, [call])


def _told(step: Step, of_step: Sequence[Call]) -> Step:
    """The step with what its calls say; the last that may have had an effect speaks for it."""
    speaking = next((call for call in reversed(of_step) if call.has_effect), of_step[-1])
    receipt = speaking.last
    status, error = _status(step, receipt)
    tool, states = step.tool, step.content_state
    if tool is not None and tool.arguments is None and speaking.arguments is not None:
        tool = replace(tool, arguments=speaking.arguments)
        states = {**states, "arguments": "recovered"}
    decision = step.decision
    if receipt.decision_id:
        decision = StepDecision(
            effect=receipt.decision_effect,
            decision_id=receipt.decision_id,
            reasons=receipt.reasons,
            source="gateway",
        )
    return replace(
        step,
        status=status,
        error=error,
        tool=tool,
        content_state=states,
        decision=decision,
        receipt_id=receipt.receipt_id,
        sources=_sources(step, of_step),
    )


def _sources(step: Step, of_step: Sequence[Call]) -> tuple[Source, ...]:
    present = {source.ref for source in step.sources if source.kind == "receipt"}
    return (
        *step.sources,
        *(
            Source(
                kind="receipt",
                trace_id=call.last.trace_id,
                span_id=call.last.span_id,
                ref=call.last.receipt_id,
            )
            for call in of_step
            if call.last.receipt_id not in present
        ),
    )


def _status(step: Step, receipt: Receipt) -> tuple[StepStatus, StepError | None]:
    if receipt.phase == "refused":
        return _refused(receipt)
    failed = receipt.status >= 400 or receipt.effect == "unknown" or receipt.phase == "authorised"
    if failed and step.status in ("requested_only", "unset"):
        unfinished = "outcome_unknown" if receipt.phase == "authorised" else None
        return "error", StepError(type=receipt.code or unfinished or f"http_{receipt.status}")
    if step.status == "requested_only":
        return "ok", None
    return step.status, step.error


def _refused(receipt: Receipt) -> tuple[StepStatus, StepError | None]:
    code = receipt.code or ""
    if code in _DENIALS or (receipt.decision_id and receipt.decision_effect == "deny"):
        return "denied", None
    if receipt.decision_id and receipt.decision_effect == "require_approval":
        return "deferred", None
    return "error", StepError(type=code or f"http_{receipt.status}")


def _placed(steps: Sequence[Step], made: Sequence[Step]) -> tuple[Step, ...]:
    """The made steps among the others: after their parent and after what had started by then."""
    if not made:
        return tuple(steps)
    latest, starts = 0, []
    for step in steps:
        latest = max(latest, step.start_ns)
        starts.append(latest)
    places = {step.step_id: number for number, step in enumerate(steps)}
    after: dict[int, list[Step]] = defaultdict(list)
    for step in made:
        below = places.get(step.parent_step_id or "", -1) + 1
        after[max(below, bisect_right(starts, step.start_ns))].append(step)
    ordered: list[Step] = []
    for number in range(len(steps) + 1):
        ordered.extend(after.get(number, ()))
        ordered.extend(steps[number : number + 1])
    return tuple(ordered)
