"""From what an episode left behind to its record: one trace, receipts and twins joined, scored.

Rules
1. Telemetry is optional, receipts are not: an agent without a span still has a trace of its calls.
2. Twin state is evidence of source ``twin``: per effect (tool and arguments) whether it is there in
   the end.
3. What the agent answered is its final output, whatever its telemetry says of it.
4. An agent that did not run to an answer has failed its case; one that could not start or be
   reached, met a gap, or tells of acts that may have gone elsewhere, makes it void.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from processors.model.call import Receipt, ReceiptFact
from processors.model.evidence import Evidence
from processors.model.names import SideEffectClass
from processors.model.span import Batch, Span
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.model.twin import Change, TwinEvent
from processors.model.verdict import Score
from processors.verify.detect import detect
from processors.verify.outcome import judge
from processors.verify.receipts import attach
from sidecar.evaluate.observed import Observed, WorldView
from sidecar.evaluate.opinion import Opinion, Question
from sidecar.evaluate.score import COMPLETED as COMPLETED_TYPE
from sidecar.evaluate.score import concluded, scores
from sidecar.evaluate.semantic import Semantic, questions
from sidecar.pipeline.build import build
from sidecar.replay.record import AgentExit, EpisodeRecord, Side, Told, run_digest, unanswered
from sidecar.twins.group import void
from sidecar.twins.names import RECORDED
from sidecar.twins.scenario import Case

NO_DUPLICATE = "no_duplicate_effect"
COMPLETED = "agent_completed"


class Left(Struct, frozen=True, kw_only=True):
    """What one episode left behind. ``facts`` are its receipts in order, with arguments."""

    agent: AgentExit
    telemetry: Batch
    facts: tuple[ReceiptFact, ...]
    events: tuple[TwinEvent, ...]
    changes: tuple[Change, ...]
    world: WorldView | None
    undecodable: int = 0


class Of(Struct, frozen=True, kw_only=True):
    """Which episode it was: the case, the side, the run, and the trace it was to join;
    ``elsewhere``: its agent was not started here, so its tools may be wired to something else."""

    case: Case
    side: Side
    run: int
    episode: str
    project: str
    trace_id: str
    span_id: str
    tools: dict[str, SideEffectClass]
    started_ns: int
    ended_ns: int
    elsewhere: bool = False


def asked(of: Of, left: Left) -> tuple[Question, ...]:
    """What a judge is asked of an episode; mostly nothing."""
    if not any(isinstance(one, Semantic) for one in of.case.expect):
        return ()
    said = [turn.user for turn in left.agent.turns] or [of.case.input]
    texts = [answer_text(one) or "" for one in said]
    return questions(of.case.expect, _observed(of, left, whole_trace(of, left)), "\n".join(texts))


def record(of: Of, left: Left, opinions: Mapping[str, Opinion] | None = None) -> EpisodeRecord:
    """The record of an episode; ``opinions`` are a judge's on what was ``asked``."""
    receipts = tuple(fact.receipt for fact in left.facts)
    trace = whole_trace(of, left)
    observed = structs.replace(_observed(of, left, trace), opinions=opinions or {})
    ran, expected = completed(left.agent, trace), scores(of.case.expect, observed)
    found = (ran, *expected)
    told = Told(
        agent=left.agent,
        trace=trace,
        scores=found,
        receipts=receipts,
        events=left.events,
        changes=left.changes,
        ids=(of.episode, of.trace_id),
    )
    return EpisodeRecord(
        episode=of.episode,
        case=of.case.id,
        side=of.side,
        run=of.run,
        seed=of.case.seed,
        agent=left.agent,
        trace=trace,
        scores=found,
        conclusion=concluded(found),
        digest=run_digest(told),
        receipts=receipts,
        events=left.events,
        changes=left.changes,
        void=_void(left) or _unseen(of, left, trace),
        duration_ms=(of.ended_ns - of.started_ns) // 1_000_000,
        opinions=dict(opinions or {}),
    )


def _observed(of: Of, left: Left, trace: AgentTrace) -> Observed:
    return Observed(
        trace=trace,
        tools=of.tools,
        receipts={fact.receipt.receipt_id: fact.receipt for fact in left.facts},
        events=left.events,
        changes=left.changes,
        world=left.world,
        said=tuple(answer_text(turn.agent) or "" for turn in left.agent.turns[:-1]),
    )


def whole_trace(of: Of, left: Left) -> AgentTrace:
    """The trace of an episode: telemetry, receipts and twin state joined and judged."""
    trace = _told(of, left)
    trace = attach(trace, [_placed(fact, trace) for fact in left.facts], of.ended_ns)
    observed = twin_evidence(left.events, trace, left.facts, of.tools)
    trace = structs.replace(trace, evidence=(*trace.evidence, *observed))
    return detect(judge(trace, tools=of.tools, now_ns=of.ended_ns), tools=of.tools)


def twin_evidence(
    events: Iterable[TwinEvent],
    trace: AgentTrace,
    facts: Sequence[ReceiptFact],
    tools: Mapping[str, SideEffectClass],
) -> tuple[Evidence, ...]:
    """One Evidence an effect asked for: is it there in the end; and one a duplicate."""
    steps = _steps_of_calls(trace, facts)
    groups: dict[tuple[str, str], list[TwinEvent]] = {}
    for event in events:
        if event.twin == RECORDED:  # what was answered once is no proof of what would be
            continue
        if tools.get(event.tool, "irreversible") != "read" and event.kind in _ASKED:
            key = msgspec.json.encode(event.arguments, order="sorted").decode()
            groups.setdefault((event.tool, key), []).append(event)
    found = [_state(group, steps) for group in groups.values()]
    return (*found, *_duplicates(events, steps, tools))


def duplicated(
    events: Iterable[TwinEvent], tools: Mapping[str, SideEffectClass]
) -> list[TwinEvent]:
    """Committed effects of irreversible tools whose effect key was there already."""
    seen: set[tuple[str, str, str]] = set()
    found = []
    for event in events:
        if event.effect_key is None or tools.get(event.tool) != "irreversible":
            continue
        place = (event.twin, event.tool, event.effect_key)
        if place in seen:
            found.append(event)
        seen.add(place)
    return found


_ASKED = frozenset({"answered", "unanswered", "refused", "replayed", "delivered"})


def _state(group: Sequence[TwinEvent], steps: Mapping[str, str]) -> Evidence:
    last = group[-1]
    made = [event for event in group if event.effect_key is not None]
    return Evidence(
        evidence_id=f"twin:{last.seq}",
        source="twin",
        name=f"{last.twin}.{last.tool}",
        held=bool(made),
        subject=last.tool,
        step_id=steps.get(last.call_id),
        observed_ns=last.at_ns,
        detail="the effect is there" if made else _absent(group),
        data={"arguments": last.arguments, "events": [event.seq for event in group]},
    )


def _absent(group: Sequence[TwinEvent]) -> str:
    part = next((event.detail for event in reversed(group) if event.changes), "")
    return f"the effect is not there as a whole: {part}" if part else "the effect is not there"


def _duplicates(
    events: Iterable[TwinEvent], steps: Mapping[str, str], tools: Mapping[str, SideEffectClass]
) -> list[Evidence]:
    return [
        Evidence(
            evidence_id=f"twin:{event.seq}:duplicate",
            source="twin",
            name=NO_DUPLICATE,
            held=False,
            subject=event.tool,
            step_id=steps.get(event.call_id),
            observed_ns=event.at_ns,
            detail=f"effect {event.effect_key} was there already",
        )
        for event in duplicated(events, tools)
    ]


def _steps_of_calls(trace: AgentTrace, facts: Sequence[ReceiptFact]) -> dict[str, str]:
    calls = {fact.receipt.receipt_id: fact.receipt.call_id for fact in facts}
    found = {}
    for step in trace.steps:
        for ref in (step.receipt_id, *(source.ref for source in step.sources)):
            if ref in calls:
                found[calls[ref]] = step.step_id
        if step.tool is not None and step.tool.call_id:
            found.setdefault(step.tool.call_id, step.step_id)
    return found


def _told(of: Of, left: Left) -> AgentTrace:
    built = build(_rooted(of, left.telemetry), project=of.project, now_ns=of.ended_ns)
    output = answer_text(left.agent.output)
    if not built:
        return AgentTrace(
            trace_id=of.trace_id,
            trace_ids=(of.trace_id,),
            project=of.project,
            final_output=output,
        )
    first = max(built, key=lambda one: (of.trace_id in one.trace_ids, len(one.steps)))
    others = [one for one in built if one is not first]
    steps: tuple[Step, ...] = first.steps
    if others:
        more = [step for one in others for step in one.steps]
        steps = tuple(sorted((*steps, *more), key=lambda step: step.start_ns))
    return structs.replace(
        first,
        trace_ids=tuple(dict.fromkeys(name for one in (first, *others) for name in one.trace_ids)),
        steps=steps,
        final_output=output or first.final_output,
    )


def _rooted(of: Of, telemetry: Batch) -> Batch:
    """The telemetry below a root of ours, where the agent joined the trace it was given."""
    joined = [span for span in telemetry.spans if span.parent_span_id == of.span_id]
    if not joined:
        return telemetry
    root = Span(
        trace_id=of.trace_id,
        span_id=of.span_id,
        name="replay episode",
        start_ns=min(of.started_ns, *(span.start_ns for span in joined)),
        end_ns=of.ended_ns,
        resource=joined[0].resource,
    )
    return Batch(spans=(root, *telemetry.spans), logs=telemetry.logs)


def _placed(fact: ReceiptFact, trace: AgentTrace) -> ReceiptFact:
    """A receipt of a call whose trace context was lost still belongs to the episode's trace."""
    if fact.receipt.trace_id in {trace.trace_id, *trace.trace_ids}:
        return fact
    receipt: Receipt = structs.replace(fact.receipt, trace_id=trace.trace_id, span_id=None)
    return structs.replace(fact, receipt=receipt)


def completed(agent: AgentExit, trace: AgentTrace) -> Score:
    """Whether the agent ran to an answer: a required expectation of every scenario."""
    why = unanswered(agent, trace)
    return Score(
        expectation=COMPLETED,
        type=COMPLETED_TYPE,
        status="pass" if why is None else "fail",
        detail=why or "the agent ran to an answer",
    )


def _void(left: Left) -> str | None:
    if left.agent.ending == "not_started":
        return f"agent_not_started: {left.agent.detail}"
    if left.agent.ending == "unreachable":
        return f"agent_unreachable: {left.agent.detail}"
    if left.agent.ending == "user_failed":
        return f"user_failed: {left.agent.detail}"
    why = void(left.events)
    if why is not None:
        return why
    if left.undecodable:
        return f"telemetry_undecodable: {left.undecodable} requests"
    return None


def _unseen(of: Of, left: Left, trace: AgentTrace) -> str | None:
    """Why nothing is concluded from an agent elsewhere that tells of acts nobody here has seen."""
    if not of.elsewhere or left.facts or left.events:
        return None
    said = next((one for one in trace.claims if one.status == "success"), None)
    if said is None:
        return None
    act = said.action or said.subject or "it"
    return (
        f"no_twin_traffic: the agent says that it did ({act}), and no call came through the"
        " replay's gateway: its tools are wired to something else, or it made none"
    )


def answer_text(output: Any) -> str | None:
    """An answer as the trace's final output: text as it is, anything else as JSON."""
    if output is None or output == "":
        return None
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()
