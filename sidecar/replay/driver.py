"""Runs a replay: every case of a plan on both sides, through the stage, and compares what came of
it.

Rules
1. Baseline and candidate run on one plan: the same cases, seeds, twins, faults and policy.
2. Each episode has a world of its own; worlds are used again only when nothing leaked.
3. Episodes run side by side, at most ``concurrency`` at once; none sees another, so that their
   order changes nothing.
4. What an agent leaves running is ended with its episode; should the replay be killed, by its
   guard.
5. An agent that misbehaves is a record; only a fault of ours is an exception.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from sidecar import clock
from sidecar.evaluate.fairness import Fairness
from sidecar.replay.compare import Plan
from sidecar.replay.conclude import Left, Of, asked, record
from sidecar.replay.conversation.driver import Ask, converse
from sidecar.replay.environment import Addresses, Identity, agent_environment, identity
from sidecar.replay.leftover.process import guarded
from sidecar.replay.process import Launch, run_agent
from sidecar.replay.record import AgentExit, EpisodeRecord, Side
from sidecar.replay.reference import AgentRef
from sidecar.replay.remote.client import RemoteAgents, refuse_undialable
from sidecar.replay.run import Pins, ReplayResult, in_order
from sidecar.replay.stage.driver import Stage, StagePorts
from sidecar.twins.group import LEAKED, GroupEpisode, TwinGroup
from sidecar.twins.pinned import PinnedTape
from sidecar.twins.scenario import Case
from sidecar.twins.user import Turn
from sidecar.twins.world import World

Progress = Callable[[EpisodeRecord], None]


class ReplayPlan(Struct, frozen=True, kw_only=True):
    """What to run. ``recorded`` are the baseline's records where the baseline is not run.

    ``folder`` is the suite's, which its ``tapes`` are relative to.
    """

    suite: str
    suite_version: str
    suite_digest: str
    agent: str
    project: str
    cases: tuple[Case, ...]
    group: TwinGroup
    baseline: AgentRef
    candidate: AgentRef
    deterministic: bool
    seed: int = 0
    deadline_s: float = 60.0
    environment: dict[str, str] = {}
    files: dict[str, bytes] = {}
    fairness: tuple[Fairness, ...] = ()
    tapes: tuple[PinnedTape, ...] = ()
    folder: Path = Path()
    recorded: tuple[EpisodeRecord, ...] = ()
    source: str = "suite"
    program_version: str = ""
    runs: int = 0

    @property
    def repeats(self) -> int:
        """How often each case runs on a side: as asked; else twice where it is deterministic."""
        return self.runs or (2 if self.deterministic else 1)


class Job(Struct, frozen=True, kw_only=True):
    """One episode to run."""

    case: Case
    side: Side
    run: int
    agent: AgentRef
    request: dict[str, Any] = {}


Hosting = Callable[[Job, Identity, Addresses], Ask]
"""How the agent of an episode is run by whoever started the replay."""


async def replay(
    plan: ReplayPlan,
    ports: StagePorts,
    *,
    concurrency: int = 0,
    progress: Progress | None = None,
) -> ReplayResult:
    """Run the plan. ``concurrency`` 0 is one episode a core. Raises SidecarError,
    StoreUnavailable.
    """
    started_ns = clock.now_ns()
    async with company(plan, ports, concurrency=concurrency, progress=progress) as running:
        runs = await running.run(_jobs(plan))
    pins = pins_of(plan, ports.policy.revision, started_ns)
    return ReplayResult(
        pins=pins,
        runs=in_order(pins, (*plan.recorded, *runs)),
        started_at_ns=started_ns,
        files=plan.files,
    )


@asynccontextmanager
async def company(
    plan: ReplayPlan,
    ports: StagePorts,
    *,
    concurrency: int = 0,
    progress: Progress | None = None,
    hosting: "Hosting | None" = None,
) -> AsyncIterator["Company"]:
    """A stage for episodes of a plan. Raises SidecarError, StoreUnavailable.

    ``hosting``: how agents are run that are no process and no service of their own.
    """
    for agent in (plan.baseline, plan.candidate):
        refuse_undialable(agent, ports.terms.agents)
    stage = Stage(plan.group, ports, plan.project)
    try:
        await stage.start()
        made = Company(plan, stage, ports, concurrency or os.cpu_count() or 1, progress, hosting)
        with guarded(made.mark):
            try:
                yield made
            finally:
                await made.close()
    finally:
        await stage.stop()


class Company:
    """The episodes of one replay, and the worlds they take turns in."""

    def __init__(
        self,
        plan: ReplayPlan,
        stage: Stage,
        ports: StagePorts,
        concurrency: int,
        progress: Progress | None,
        hosting: "Hosting | None" = None,
    ) -> None:
        self._plan = plan
        self._stage = stage
        self._judge = ports.judge
        self._users = ports.users
        self._places = asyncio.Semaphore(concurrency)
        self._progress = progress
        self._hosting = hosting
        self._idle: list[dict[str, World]] = []
        at = stage.addresses
        self._remote = RemoteAgents(ports.terms.agents, at, {at.gateway_port, at.otlp_port})
        self.mark = clock.new_id()

    async def close(self) -> None:
        """Close what it has open. Safe to call twice."""
        await self._remote.close()

    async def run(self, jobs: Sequence[Job]) -> tuple[EpisodeRecord, ...]:
        """The records of these episodes, in their order."""
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self._in_turn(job)) for job in jobs]
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # one fault of ours is enough to tell
        return tuple(task.result() for task in running)

    async def _in_turn(self, job: Job) -> EpisodeRecord:
        async with self._places:
            made = await self._episode(job)
        if self._progress is not None:
            self._progress(made)
        return made

    async def _episode(self, job: Job) -> EpisodeRecord:
        plan, name, started_ns = self._plan, clock.new_id(), clock.now_ns()
        worlds = self._idle.pop() if self._idle else plan.group.open()
        episode = GroupEpisode(plan.group, worlds, job.case.setting(plan.agent))
        episode.begin(job.case.beginning)
        token = self._stage.open(name, episode, job.case.approvals, agent=plan.agent)
        who = identity(name, token)
        ask = self._asking(job, who)
        if job.agent.kind == "tape":  # all it did and said is on it, whoever answered
            ended = _recorded(await ask(job.case.request(), plan.deadline_s))
        else:
            ended = await converse(ask, job.case, plan.deadline_s, self._users, job.request)
        taken = await self._stage.take(name)
        episode.finish()
        of = Of(
            case=job.case,
            side=job.side,
            run=job.run,
            episode=name,
            project=plan.project,
            trace_id=who.trace_id,
            span_id=who.span_id,
            tools=plan.group.tools,
            started_ns=started_ns,
            ended_ns=clock.now_ns(),
            elsewhere=job.agent.kind == "url",
        )
        left = Left(
            agent=_without(ended, token),
            telemetry=taken.telemetry,
            facts=taken.facts,
            events=tuple(episode.events),
            changes=episode.changes(),
            world=episode.view() if plan.group.has_state else None,
            undecodable=taken.undecodable,
        )
        opinions = await self._judge.opinions(asked(of, left)) if self._judge else {}
        made = record(of, left, opinions)
        if episode.close():
            self._idle.append(worlds)
            return made
        return structs.replace(made, void=made.void or LEAKED)

    def _asking(self, job: Job, who: Identity) -> Ask:
        """How the agent of one episode is run."""
        if self._hosting is not None:
            return self._hosting(job, who, self._stage.addresses)
        agent = job.agent
        if agent.kind == "url":
            return partial(self._remote.run, agent, who)
        if agent.kind == "tape":
            agent = structs.replace(agent, argv=(*agent.argv, agent.tapes[job.case.id]))
        launch = Launch(
            argv=agent.argv,
            environment=agent_environment(
                os.environ, self._plan.environment, self._stage.addresses, who
            ),
            folder=str(Path.cwd()),
            deadline_s=self._plan.deadline_s,
            mark=f"{self.mark}.{who.episode}",
        )

        async def ask(request: dict[str, Any], seconds: float) -> AgentExit:
            return await run_agent(structs.replace(launch, deadline_s=seconds), request)

        return ask


def _recorded(ended: AgentExit) -> AgentExit:
    """A recording that was played to its end is no run that could be another time."""
    return structs.replace(ended, ending="recorded") if ended.ending == "completed" else ended


def _without(ended: AgentExit, token: str) -> AgentExit:
    """The same without the episode's token, should the agent have printed it."""
    return AgentExit(
        ending=ended.ending,
        exit_code=ended.exit_code,
        output=msgspec.json.decode(_hidden(msgspec.json.encode(ended.output), token)),
        stderr_tail=ended.stderr_tail.replace(token, "<token>"),
        detail=ended.detail,
        turns=msgspec.json.decode(
            _hidden(msgspec.json.encode(ended.turns), token), type=tuple[Turn, ...]
        ),
    )


def _hidden(text: bytes, token: str) -> bytes:
    return text.replace(token.encode(), b"<token>")


def _jobs(plan: ReplayPlan) -> list[Job]:
    sides: list[tuple[Side, AgentRef]] = [
        ("baseline", plan.baseline),
        ("candidate", plan.candidate),
    ]
    return [
        Job(case=case, side=side, run=run, agent=agent)
        for case in plan.cases
        for side, agent in sides
        if agent.kind != "recorded" and (agent.kind != "tape" or case.id in agent.tapes)
        for run in range(1, 1 + (1 if agent.kind == "tape" else plan.repeats))
    ]


def pins_of(plan: ReplayPlan, policy_revision: str, begun_at_ns: int) -> Pins:
    """What a verdict on this plan pins; without a gateway there is no ``policy_revision``."""
    return Pins(
        suite=plan.suite,
        suite_version=plan.suite_version,
        suite_digest=plan.suite_digest,
        deterministic=plan.deterministic,
        repeats=plan.repeats,
        seed=plan.seed,
        twins=plan.group.digests(),
        twin_code=plan.group.code(),
        twin_state=plan.group.state_of(begun_at_ns),
        policy_revision=policy_revision,
        baseline=plan.baseline.text,
        candidate=plan.candidate.text,
        project=plan.project,
        seeds={case.id: case.seed for case in plan.cases},
        plans=tuple(
            Plan(
                case=case.id,
                title=case.title,
                severity=case.severity,
                regression=case.regression,
            )
            for case in plan.cases
        ),
        source=plan.source,
        program_version=plan.program_version,
        permissions=plan.group.permissions,
        fairness=plan.fairness,
    )
