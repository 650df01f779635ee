"""A recorded run onto a twin: its calls are made again, and what came of the world is judged.

Rules
1. The twin is given the calls and the world, nothing else: recorded results and verdicts are
   compared afterwards.
2. What a task wants is had from the twin itself: its actions are made on a fresh copy of the world,
   and where that ends is the expectation (``endState``).
3. Chance is drawn by the task's name: its runs and its own actions meet the same.
4. A tool that no twin declares is answered with an error and changes nothing, as a service would;
   it is counted. A gap or an error of the twin's makes the run void.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from processors.model.names import StepStatus
from processors.model.step import Message, Part, Source, Step, Tool
from processors.model.trace import AgentTrace
from processors.model.twin import Change
from processors.model.verdict import Score
from sidecar.evaluate.ending import EndState, Said
from sidecar.evaluate.observed import Observed
from sidecar.evaluate.score import conclude, scores
from sidecar.replay.beginnings import Given, given
from sidecar.replay.conclude import COMPLETED
from sidecar.replay.idflow import IdFlow
from sidecar.replay.import_tape import parsed
from sidecar.replay.taped import TapedCall as TapedCall
from sidecar.replay.taped import TapedRun as TapedRun
from sidecar.replay.taped import taped_run as taped_run
from sidecar.twins.episode import Call, Reply, Setting
from sidecar.twins.group import Beginning, GroupEpisode, TwinGroup
from sidecar.twins.scenario import drawn_seed
from sidecar.twins.world import World

Verified = Literal["verified_success", "verified_failure", "unverified"]
_COMMA = ","
_NOTHING_GIVEN = Given(beginning=Beginning(), calls=frozenset())


class Answered(Struct, frozen=True, kw_only=True):
    """One call as it was recorded, and what the twin answered; ``known``: a twin has the tool.

    ``gap``: why the twin could not answer. ``minted``: the recorded result where names in it that
    were minted stand for the twin's (``idflow``). ``took_ns``: virtual time the call took;
    ``changed``: whether rows or flags are other than before it. ``after_gap``: a call with effects
    could not be played before, so that nobody knows how the world would be. ``given``: the twin
    knows what it answers from this very recording (``beginnings``).
    """

    call: TapedCall
    value: Any
    status: int | None
    known: bool
    gap: str = ""
    minted: Any = None
    took_ns: int | None = None
    changed: bool = False
    after_gap: bool = False
    given: bool = False

    @property
    def recorded(self) -> Any:
        """The result to compare with; None where none was kept."""
        return self.call.result if self.minted is None else self.minted


class RunOnTwin(Struct, frozen=True, kw_only=True):
    """One run on the twin: its outcome there, why (scores), and the answers beside the record."""

    run: TapedRun
    verified: Verified
    scores: tuple[Score, ...]
    answers: tuple[Answered, ...]
    changes: tuple[Change, ...]
    void: str | None = None


class OntoTwin:
    """Runs on one group of twins; worlds are used again, and each task's end is found once.

    ``observed``: a run begins with what its own first reads show and the twins do not know.
    """

    def __init__(self, group: TwinGroup, *, observed: bool = False) -> None:
        self._group = group
        self._observed = observed
        self._seed = 0
        self._worlds: dict[str, World] = group.open()
        self._ends: dict[str, EndState | str] = {}

    def replay(self, run: TapedRun) -> RunOnTwin:
        """Make the run's calls on the world as it was at its start, and judge."""
        self._seed = drawn_seed(0, run.task)
        expected, why = self._expected(run)  # before the run: it takes turns with it in the world
        own = given(run, self._group, self._worlds) if self._observed else _NOTHING_GIVEN
        episode = self._opened()
        if own.calls:
            episode.begin(own.beginning)
        flow = IdFlow()
        made = [one for one in run.calls if one.reached]
        told = [
            replace(self._answered(episode, one, flow), given=one.seq in own.calls) for one in made
        ]
        answers = _told_of_gaps(told, self._group)
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
        return GroupEpisode(self._group, self._worlds, Setting(agent="recorded", seed=self._seed))

    def _closed(self, episode: GroupEpisode) -> str | None:
        if episode.close():
            return None
        self._worlds = self._group.open()
        return "twin_leak: the world was not as before"

    def _answered(self, episode: GroupEpisode, call: TapedCall, flow: IdFlow) -> Answered:
        if self._group.owner(call.tool) is None:
            value = f"Error: there is no tool {call.tool}"
            return Answered(call=call, value=value, status=404, known=False)
        at, before_ns = len(episode.events), episode.now_ns
        arguments = flow.mapped(call.arguments)
        reply = self._called(episode, call.tool, arguments, f"call-{call.seq}")
        told = episode.events[at:]
        flow.saw(call.arguments, arguments, mints=False)
        through = reply.status is not None and reply.status < 400 and call.ended == "ok"
        mints = through and self._group.tools[call.tool] != "read"
        result = parsed(call.result)
        flow.saw(result, reply.value, mints=mints)
        mapped = flow.mapped(result)
        return Answered(
            call=call,
            value=reply.value,
            status=reply.status,
            known=True,
            gap=next((one.detail for one in told if one.kind in ("gap", "error")), ""),
            minted=None if mapped == result else mapped,
            took_ns=episode.now_ns - before_ns,
            changed=any(one.changes for one in told),
        )

    @staticmethod
    def _called(episode: GroupEpisode, tool: str, arguments: Any, name: str) -> Reply:
        given = arguments if isinstance(arguments, dict) else {"": arguments}
        return episode.call(Call(tool=tool, arguments=given, call_id=name))

    def _expected(self, run: TapedRun) -> tuple[tuple[EndState | Said, ...], str | None]:
        """What the task wants; or why that cannot be told."""
        if run.actions is None:
            return (), None
        key = msgspec.json.encode([run.task, run.actions], order="sorted").decode()
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


def _told_of_gaps(answers: Sequence[Answered], group: TwinGroup) -> tuple[Answered, ...]:
    """The answers, each with whether an effect before it is missing."""
    found: list[Answered] = []
    lost = False
    for one in answers:
        found.append(replace(one, after_gap=lost))
        lost = lost or (bool(one.gap) and group.tools[one.call.tool] != "read")
    return tuple(found)


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
