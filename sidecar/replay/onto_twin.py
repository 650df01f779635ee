"""A recorded run onto a twin: its calls are made again, and what came of the world is judged.

Rules
1. The twin is given the calls and the world, nothing else: recorded results and verdicts are
   compared afterwards.
2. What a task wants is had from the twin itself: its actions are made on a fresh copy of the world,
   and where that ends is the expectation (``endState``).
3. A tool that no twin declares is answered with an error and changes nothing, as a service would;
   it is counted. A gap or an error of the twin's makes the run void.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from processors.model.names import StepStatus
from processors.model.step import Message, Part, Source, Step, Tool
from processors.model.trace import AgentTrace
from processors.model.twin import Change
from processors.model.verdict import Score
from sidecar.evaluate.ending import EndState, Said
from sidecar.evaluate.observed import Observed
from sidecar.evaluate.score import conclude, scores
from sidecar.replay.conclude import COMPLETED
from sidecar.replay.import_tau import BENCHMARK, TASK
from sidecar.tape.tape import MISSING, Tape
from sidecar.tape.value import decoded
from sidecar.twins.episode import Call, Reply, Setting
from sidecar.twins.group import GroupEpisode, TwinGroup
from sidecar.twins.world import World

Verified = Literal["verified_success", "verified_failure", "unverified"]
_COMMA = ","


class TapedCall(Struct, frozen=True, kw_only=True):
    """One recorded tool call; ``result`` is what it answered, None where that was not kept."""

    seq: int
    tool: str
    arguments: Any
    result: Any = None


class TapedRun(Struct, frozen=True, kw_only=True):
    """What a tape tells of a run. ``actions`` None: nobody said where the world should end.

    ``cut_off``: the run was stopped before it had come to an end.
    """

    name: str
    task: str
    calls: tuple[TapedCall, ...]
    said: tuple[str, ...]
    actions: tuple[tuple[str, dict[str, Any]], ...] | None
    outputs: tuple[str, ...]
    verified: str
    cut_off: bool = False


class Answered(Struct, frozen=True, kw_only=True):
    """One call as it was recorded, and what the twin answered; ``known``: a twin has the tool."""

    call: TapedCall
    value: Any
    status: int | None
    known: bool


class RunOnTwin(Struct, frozen=True, kw_only=True):
    """One run on the twin: its outcome there, why (scores), and the answers beside the record."""

    run: TapedRun
    verified: Verified
    scores: tuple[Score, ...]
    answers: tuple[Answered, ...]
    changes: tuple[Change, ...]
    void: str | None = None


def taped_run(name: str, tape: Tape) -> TapedRun:
    """What a tape tells of its run."""
    results = {one.cause[0]: one for one in tape.events if one.kind == "tool_result" and one.cause}
    calls, said, verified, wanted, cut_off = [], [], "unverified", None, False
    for event in tape.events:
        if event.kind == "tool_call":
            calls.append(
                TapedCall(
                    seq=event.seq,
                    tool=event.name,
                    arguments=_payload(tape, event, "in"),
                    result=_payload(tape, results.get(event.seq), "out"),
                )
            )
        elif event.kind == "llm_call":
            answer = _payload(tape, event, "out")
            text = answer.get("content") if isinstance(answer, dict) else answer
            said += [text] if isinstance(text, str) else []
        elif event.kind == "terminal":
            told, cut_off = _payload(tape, event, "out"), event.st == "cancelled"
            verified = str(told.get("verified")) if isinstance(told, dict) else verified
        elif event.kind == "decision" and (event.agent, event.name) == (BENCHMARK, TASK):
            wanted = _payload(tape, event, "out")
    wanted = wanted if isinstance(wanted, dict) else None
    return TapedRun(
        name=name,
        task=tape.header.labels.get("task", name),
        calls=tuple(calls),
        said=tuple(said),
        actions=None if wanted is None else tuple(_action(one) for one in wanted["actions"]),
        outputs=() if wanted is None else tuple(wanted["outputs"]),
        verified=verified,
        cut_off=cut_off,
    )


class OntoTwin:
    """Runs on one group of twins; worlds are used again, and each task's end is found once."""

    def __init__(self, group: TwinGroup) -> None:
        self._group = group
        self._worlds: dict[str, World] = group.open()
        self._ends: dict[str, EndState | str] = {}

    def replay(self, run: TapedRun) -> RunOnTwin:
        """Make the run's calls on the world as it was at its start, and judge."""
        expected, why = self._expected(run)  # before the run: it takes turns with it in the world
        episode = self._opened()
        answers = tuple(self._answered(episode, one) for one in run.calls)
        void = _void(episode)
        changes = episode.changes()
        observed = Observed(
            trace=_trace(run, answers),
            tools=self._group.tools,
            events=tuple(episode.events),
            changes=changes,
            world=episode.view(),
        )
        found = (_completed(run), *scores(expected, observed)) if expected else ()
        leaked = self._closed(episode)
        void = void or why or leaked
        return RunOnTwin(
            run=run,
            verified=_verified(found, void),
            scores=found,
            answers=answers,
            changes=changes,
            void=void,
        )

    def _opened(self) -> GroupEpisode:
        return GroupEpisode(self._group, self._worlds, Setting(agent="recorded"))

    def _closed(self, episode: GroupEpisode) -> str | None:
        if episode.close():
            return None
        self._worlds = self._group.open()
        return "twin_leak: the world was not as before"

    def _answered(self, episode: GroupEpisode, call: TapedCall) -> Answered:
        if self._group.owner(call.tool) is None:
            value = f"Error: there is no tool {call.tool}"
            return Answered(call=call, value=value, status=404, known=False)
        reply = self._called(episode, call.tool, call.arguments, f"call-{call.seq}")
        return Answered(call=call, value=reply.value, status=reply.status, known=True)

    @staticmethod
    def _called(episode: GroupEpisode, tool: str, arguments: Any, name: str) -> Reply:
        given = arguments if isinstance(arguments, dict) else {"": arguments}
        return episode.call(Call(tool=tool, arguments=given, call_id=name))

    def _expected(self, run: TapedRun) -> tuple[tuple[EndState | Said, ...], str | None]:
        """What the task wants; or why that cannot be told."""
        if run.actions is None:
            return (), None
        key = msgspec.json.encode([run.actions], order="sorted").decode()
        if key not in self._ends:
            self._ends[key] = self._end_of(run.actions)
        end = self._ends[key]
        if isinstance(end, str):
            return (), f"the task's own actions: {end}"
        return (end, *(Said(text=text, ignore=_COMMA) for text in run.outputs)), None

    def _end_of(self, actions: Sequence[tuple[str, dict[str, Any]]]) -> EndState | str:
        episode = self._opened()
        for number, (tool, arguments) in enumerate(actions):
            if self._group.owner(tool) is not None:
                self._called(episode, tool, arguments, f"action-{number}")
        changes: dict[str, dict[str, Any]] = {}
        for one in episode.changes():
            changes.setdefault(one.entity, {})[one.key] = one.after
        void, leaked = _void(episode), self._closed(episode)
        void = void or leaked
        return EndState(changes=changes) if void is None else void


def _completed(run: TapedRun) -> Score:
    return Score(
        expectation=COMPLETED,
        type="agentCompleted",
        status="fail" if run.cut_off else "pass",
        detail="the run was cut off before its end" if run.cut_off else "the run came to an end",
    )


def _void(episode: GroupEpisode) -> str | None:
    found = next((one for one in episode.events if one.kind in ("gap", "error")), None)
    if found is None:
        return None
    return f"twin_{found.kind}: {found.tool}: {found.detail}"


def _verified(found: Sequence[Score], void: str | None) -> Verified:
    if void is not None or not found:
        return "unverified"
    told: Mapping[str, Verified] = {"passed": "verified_success", "failed": "verified_failure"}
    return told.get(conclude(found), "unverified")


def _action(one: Any) -> tuple[str, dict[str, Any]]:
    return one["tool"], one["arguments"]


def _payload(tape: Tape, event: Any, side: str) -> Any:
    value = tape.payload(event, side) if event is not None else MISSING
    return None if value is MISSING else decoded(value)


def _trace(run: TapedRun, answers: Sequence[Answered]) -> AgentTrace:
    said = tuple(_said(number, text) for number, text in enumerate(run.said))
    return AgentTrace(
        trace_id=run.name,
        trace_ids=(run.name,),
        steps=(*said, *(_step(one) for one in answers)),
        final_output=run.said[-1] if run.said else None,
    )


def _said(number: int, text: str) -> Step:
    message = Message(role="assistant", parts=(Part(type="text", content=text),))
    return Step(step_id=f"said:{number}", kind="model_call", name="model", output=(message,))


def _step(one: Answered) -> Step:
    status: StepStatus = "ok" if one.status is not None and one.status < 400 else "error"
    return Step(
        step_id=f"call:{one.call.seq}",
        kind="tool_call",
        name=one.call.tool,
        status=status,
        tool=Tool(name=one.call.tool, arguments=one.call.arguments, result=one.value),
        sources=(Source(kind="twin", ref=str(one.call.seq)),),
    )
