"""Gateway traffic of one run, as the sidecar keeps it, put together for a tape.

**Rules**
1. What happened is the receipt's; a span gives the place among the run's causes, and a result where
   the gateway kept no answer.
2. A span within which the gateway was called several times (a retry, a token presented) is one
   place for each of these calls, in order.
3. Nothing is joined across projects: what is handed in is of one.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from processors.model.call import Approval, Receipt, ReceiptFact, Vote
from processors.model.step import Agent, Step
from processors.model.trace import AgentTrace
from processors.verify.calls import Call, calls
from processors.verify.receipts import attach
from sidecar.replay.import_tape import parsed
from sidecar.store.ledger import Answer, KeptAnswer

STREAMED: Final = ("text/event-stream", "application/x-ndjson", "application/json-seq")
_AFTERWARDS: Final = frozenset({"recovered", "reconciled", "resolved"})
"""Codes of receipts that say what became of a call after it was over."""
_SEEN: Final = ("span", "log", "messages")


class Asked(Struct, frozen=True, kw_only=True):
    """A request for approval and the votes on it, those of a broken glass too; ``needed`` of them
    to approve."""

    approval: Approval
    votes: tuple[Vote, ...]
    needed: int


class Kept(Struct, frozen=True, kw_only=True):
    """What is kept of one run: ``session`` is its trace id, or its episode where it has none.
    ``cut``: there are more receipts of it than a tape is made of."""

    project: str
    session: str
    facts: tuple[ReceiptFact, ...]
    trace: AgentTrace | None = None
    answers: tuple[KeptAnswer, ...] = ()
    asked: tuple[Asked, ...] = ()
    cut: bool = False


class Made(Struct, frozen=True, kw_only=True):
    """One call through the gateway, on a step of its own.

    ``told`` is the receipt of what the agent was answered (None: nobody knows of an answer),
    ``known`` the last word on its effect; ``after`` the step of the call before it in its span;
    ``result`` what the span says came back.
    """

    known: Receipt
    told: Receipt | None
    arguments: dict[str, Any] | None
    answer: Answer | None = None
    after: str | None = None
    result: Any = None
    spanned: bool = False

    @property
    def receipt(self) -> Receipt:
        """The receipt that says how the call was judged."""
        return self.told or self.known


def put_together(kept: Kept) -> tuple[AgentTrace, dict[str, Made]]:
    """The run's trace with a step for each call, and those calls by step id."""
    trace = kept.trace or AgentTrace(
        trace_id=kept.session, trace_ids=(kept.session,), project=kept.project
    )
    facts = [_in_trace(fact, kept.session) for fact in kept.facts]
    whole = attach(trace, facts, 0)
    if kept.trace is None or not any(map(_is_seen, whole.steps)):
        whole = replace(whole, completeness="missing_root")
    agents = _agents(whole.steps, facts)
    of_receipt = {
        receipt_id: call
        for call in calls(fact for fact in facts if fact.receipt.trace_id in whole.trace_ids)
        for receipt_id in call.receipt_ids
    }
    receipts = {fact.receipt.receipt_id: fact.receipt for fact in facts}
    answers = _Answers(kept.answers)
    steps: list[Step] = []
    more: list[Step] = []
    made: dict[str, Made] = {}
    for step in whole.steps:
        own = _calls_of(step, of_receipt)
        one = replace(step, agent=agents.get(step.step_id, step.agent))
        if not own:
            steps.append(one)
            continue
        before: str | None = None
        for number, call in enumerate(own):
            last = number == len(own) - 1
            found = _made(
                call,
                [receipts[each] for each in call.receipt_ids],
                answers,
                after=before,
                result=step.tool.result if last and step.tool is not None else None,
                spanned=last and _is_seen(step),
            )
            place = _place(one, found.receipt, number, last=last)
            before = place.step_id
            made[before] = found
            (more if number else steps).append(place)
    return replace(whole, steps=_ordered(steps, more)), made


def is_spanless(trace: AgentTrace) -> bool:
    """Whether nobody but the gateway tells of a run."""
    return not any(map(_is_seen, trace.steps))


def said(answer: Answer) -> Any:
    """The body of an answer as a payload: JSON as it reads, else text, else bytes."""
    try:
        return parsed(answer.body.decode())
    except UnicodeDecodeError:
        return answer.body


def pieces(answer: Answer) -> list[str]:
    """The pieces of an answer that came in parts; none of any other."""
    kind = {name.lower(): value for name, value in answer.headers}.get("content-type", "")
    kind = kind.partition(";")[0].strip().lower()
    if kind not in STREAMED:
        return []
    text = answer.body.decode(errors="replace").replace("\r\n", "\n")
    between = {"text/event-stream": "\n\n", "application/json-seq": "\x1e"}.get(kind, "\n")
    return [each for each in text.split(between) if each.strip()]


class _Answers:
    """Kept answers by the call that got them, and by the key under which they are given again."""

    def __init__(self, kept: Sequence[KeptAnswer]) -> None:
        self._of_call = {one.call_id: one.answer for one in kept}
        self._of_key = {(one.principal, one.tool, one.key_hash): one.answer for one in kept}

    def of(self, call: Call) -> Answer | None:
        last = call.last
        if last.phase == "replayed":
            return self._of_key.get((last.principal, last.tool, last.key_hash))
        return self._of_call.get(last.call_id) if last.phase == "executed" else None


def _in_trace(fact: ReceiptFact, session: str) -> ReceiptFact:
    """A fact of an episode without a trace, as one of a trace of that name."""
    if fact.receipt.trace_id is not None:
        return fact
    return replace(fact, receipt=replace(fact.receipt, trace_id=session))


def _is_seen(step: Step) -> bool:
    return any(source.kind in _SEEN for source in step.sources)


def _calls_of(step: Step, of_receipt: Mapping[str, Call]) -> list[Call]:
    refs = [source.ref for source in step.sources if source.kind == "receipt"]
    found = {call.receipt_ids: call for ref in refs if (call := of_receipt.get(ref or ""))}
    return sorted(found.values(), key=lambda call: (call.last.started_at_ns, call.receipt_ids))


def _place(step: Step, receipt: Receipt, number: int, *, last: bool) -> Step:
    """The step of a span's n-th call: the first begins and the last ends with the span."""
    start_ns = step.start_ns if number == 0 and step.start_ns else receipt.started_at_ns
    end_ns = receipt.finished_at_ns
    if last and step.end_ns > step.start_ns:
        end_ns = max(step.end_ns, start_ns)
    return replace(
        step,
        step_id=step.step_id if number == 0 else f"{step.step_id}#{number}",
        start_ns=start_ns,
        end_ns=max(end_ns, start_ns),
    )


def _made(call: Call, receipts: Sequence[Receipt], answers: "_Answers", **more: Any) -> Made:
    told = [one for one in receipts if one.phase != "authorised" and one.code not in _AFTERWARDS]
    # What was found out later is kept as an answer too, and is none that this call was given.
    given = bool(told) and told[0] is call.last
    return Made(
        known=call.last,
        told=told[0] if told else None,
        arguments=call.arguments,
        answer=answers.of(call) if given else None,
        **more,
    )


def _agents(steps: Sequence[Step], facts: Sequence[ReceiptFact]) -> dict[str, Agent]:
    """Whose each step is that says nothing of it: the nearest agent's above, else (of several
    principals) the caller's."""
    by_id = {step.step_id: step for step in steps}
    several = len({fact.receipt.principal for fact in facts}) > 1
    caller = {fact.receipt.receipt_id: fact.receipt.principal for fact in facts}
    found: dict[str, Agent] = {}
    for step in steps:
        above: Step | None = step
        for _ in range(len(by_id)):
            if above is None or above.agent is not None:
                break
            above = by_id.get(above.parent_step_id or "")
        if above is not None and above.agent is not None:
            found[step.step_id] = above.agent
        elif several and step.receipt_id in caller:
            found[step.step_id] = Agent(name=caller[step.receipt_id])
    return found


def _ordered(steps: Sequence[Step], more: Sequence[Step]) -> tuple[Step, ...]:
    """Further calls among the steps: after what had started by then."""
    latest, starts = 0, []
    for step in steps:
        latest = max(latest, step.start_ns)
        starts.append(latest)
    after: dict[int, list[Step]] = defaultdict(list)
    for step in sorted(more, key=lambda step: step.start_ns):
        after[bisect_right(starts, step.start_ns)].append(step)
    ordered: list[Step] = []
    for number in range(len(steps) + 1):
        ordered.extend(after.get(number, ()))
        ordered.extend(steps[number : number + 1])
    return tuple(ordered)
