"""A callable agent straight on the twins: no process, no gateway, no network.

Rules
1. The agent is called with the request and a function that calls tools; it answers the output.
2. The trace is made of the twins' own events: steps of source ``twin``, the same type as any other.
3. What the agent is handed is a copy: nothing it does to it reaches a world.
4. A twin that met a gap, failed or leaked makes the run void: nothing is concluded from it.
5. There is no gateway, so there are no receipts and no approvals: expectations about them are
   skipped, and a skipped one never passes.

This is how scenarios are linted, twins tried, and callables that take a second argument replayed.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from processors.model.evidence import Evidence
from processors.model.names import StepStatus
from processors.model.step import Source, Step, StepError, Tool
from processors.model.trace import AgentTrace
from processors.model.twin import CALL_EVENTS, TwinEvent
from processors.model.verdict import Score
from processors.verify.detect import detect
from processors.verify.outcome import judge
from sidecar.evaluate.observed import Observed
from sidecar.evaluate.score import Conclusion, conclude, concluded, scores
from sidecar.replay.conclude import answer_text, completed, twin_evidence
from sidecar.replay.record import AgentExit, EpisodeRecord, Side, Told, run_digest
from sidecar.twins.episode import Call, Reply
from sidecar.twins.group import LEAKED, GroupEpisode, TwinGroup, void
from sidecar.twins.scenario import Case
from sidecar.twins.world import World

CallTool = Callable[..., Reply]
Agent = Callable[[dict[str, Any], CallTool], Any]
EndedAgent = Callable[[dict[str, Any], CallTool], AgentExit]


class DirectRun(Struct, frozen=True, kw_only=True):
    """One run: trace, events, scores, what they come to, whether the world was clean after it, and
    why it is void (None where it is not).
    """

    trace: AgentTrace
    events: tuple[TwinEvent, ...]
    scores: tuple[Score, ...]
    conclusion: Conclusion
    clean: bool
    void: str | None = None


class Of(Struct, frozen=True, kw_only=True):
    """Which episode a record is of; ``request`` is what its agent is given."""

    case: Case
    side: Side
    run: int
    request: dict[str, Any]


class _Played(Struct, frozen=True, kw_only=True):
    """An episode that has ended and been judged; its worlds are still as it left them."""

    episode: GroupEpisode
    observed: Observed
    ended: AgentExit


def run_direct(
    case: Case, agent: Agent, group: TwinGroup, worlds: Mapping[str, World]
) -> DirectRun:
    """Run ``agent(request, call)`` on worlds of the group; ``call(tool, arguments, key="")``."""

    def ended(request: dict[str, Any], call: CallTool) -> AgentExit:
        return AgentExit(ending="completed", exit_code=0, output=agent(request, call))

    played = _play(case, case.request(), ended, group, worlds)
    found = scores(case.expect, played.observed)
    clean = played.episode.close()
    return DirectRun(
        trace=played.observed.trace,
        events=played.observed.events,
        scores=found,
        conclusion=conclude(found),
        clean=clean,
        void=void(played.observed.events) or (None if clean else LEAKED),
    )


def record_direct(
    of: Of, agent: EndedAgent, group: TwinGroup, worlds: Mapping[str, World]
) -> EpisodeRecord:
    """The record of one episode; nothing in it depends on when or where it ran."""
    played = _play(of.case, of.request, agent, group, worlds)
    observed, ended = played.observed, played.ended
    answered, expected = completed(ended, observed.trace), scores(of.case.expect, observed)
    told = Told(
        agent=ended,
        trace=observed.trace,
        scores=(answered, *expected),
        events=observed.events,
        changes=observed.changes,
        ids=(observed.trace.trace_id,),
    )
    made = EpisodeRecord(
        episode=f"{of.case.id}/{of.side}-{of.run}",
        case=of.case.id,
        side=of.side,
        run=of.run,
        seed=of.case.seed,
        agent=ended,
        trace=observed.trace,
        scores=told.scores,
        conclusion=concluded(told.scores),
        digest=run_digest(told),
        events=observed.events,
        changes=observed.changes,
        void=void(observed.events),
    )
    if played.episode.close():
        return made
    return structs.replace(made, void=made.void or LEAKED)


def _play(
    case: Case,
    request: dict[str, Any],
    agent: EndedAgent,
    group: TwinGroup,
    worlds: Mapping[str, World],
) -> _Played:
    episode = GroupEpisode(group, worlds, case.setting("direct"))
    episode.begin(case.beginning)
    replies: list[tuple[str, Reply]] = []

    def call(tool: str, arguments: dict[str, Any], key: str = "", agent: str = "") -> Reply:
        name = f"call-{len(replies) + 1}"
        asked = Call(tool=tool, arguments=_copied(arguments), key=key, call_id=name, agent=agent)
        reply = episode.call(asked)
        replies.append((name, reply))
        return structs.replace(reply, value=_copied(reply.value))

    ended = agent(request, call)
    episode.finish()
    events = tuple(episode.events)
    trace = _trace(case, events, dict(replies), ended.output)
    recorded = tuple(_recorded(event) for event in events if event.kind in CALL_EVENTS)
    evidence = (*recorded, *twin_evidence(events, trace, (), group.tools))
    trace = judge(structs.replace(trace, evidence=evidence), tools=group.tools, now_ns=2**62)
    observed = Observed(
        trace=detect(trace, tools=group.tools),
        tools=group.tools,
        events=events,
        changes=episode.changes(),
        world=episode.view() if group.has_state else None,
    )
    return _Played(episode=episode, observed=observed, ended=ended)


def _copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _trace(
    case: Case, events: tuple[TwinEvent, ...], replies: Mapping[str, Reply], output: Any
) -> AgentTrace:
    name = f"direct:{case.id}"
    return AgentTrace(
        trace_id=name,
        trace_ids=(name,),
        steps=tuple(
            _step(event, replies.get(event.call_id))
            for event in events
            if event.kind in CALL_EVENTS
        ),
        final_output=answer_text(output),
    )


def _recorded(event: TwinEvent) -> Evidence:
    """What a receipt would say: what was answered, not what is."""
    phase = "replayed" if event.kind == "replayed" else "executed"
    return Evidence(
        evidence_id=f"event:{event.seq}",
        source="receipt",
        name="twin",
        held=None if event.status is None else event.status < 300,
        subject=event.tool,
        step_id=f"twin:{event.call_id}",
        receipt_id=f"event:{event.seq}",
        observed_ns=event.at_ns,
        data={"phase": phase, "status": event.status or 504, "arguments": event.arguments},
    )


def _step(event: TwinEvent, reply: Reply | None) -> Step:
    failed = event.status is None or event.status >= 400
    status: StepStatus = "error" if failed else "ok"
    return Step(
        step_id=f"twin:{event.call_id}",
        kind="tool_call",
        name=event.tool,
        start_ns=event.at_ns,
        end_ns=event.at_ns,
        status=status,
        error=StepError(type=f"http_{event.status or 'timeout'}") if failed else None,
        tool=Tool(
            name=event.tool,
            call_id=event.call_id,
            arguments=event.arguments,
            result=reply.value if reply is not None else None,
        ),
        sources=(Source(kind="twin", ref=str(event.seq)),),
    )
