"""Runs a suite against its mutants, through the gateway, one episode after the other.

Rules
1. Each case runs once as it is; those that do not pass then are told and left out.
2. A mutant runs on the cases it may touch, in the suite's order, until one notices.
3. Agents that are callables ``f(request, call)`` run in this process; a process or service is run
   as in a replay, and only its policy and its twins are made wrong.
4. Nothing here draws or reads the time: the same seed makes the same mutants.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from msgspec import Struct, structs

from processors.model.twin import CALL_EVENTS
from sidecar.analyse.mutants.agent import Tampered
from sidecar.analyse.mutants.judging import Score, judged, scored
from sidecar.analyse.mutants.model import Heard, Judged, Mutant, Shown, Target
from sidecar.analyse.mutants.policies import Turned, dropped, loosened, turned
from sidecar.analyse.mutants.sites import Known, agent_mutants
from sidecar.analyse.mutants.world import mutated_case, mutated_group, twin_mutants
from sidecar.gateway.policy.bundle import Bundle
from sidecar.gateway.policy.driver import rules_of
from sidecar.gateway.policy.facts import Fact
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.gateway.policy.sayings import definitions, sayings
from sidecar.gateway.upstream import PolicyPort
from sidecar.replay.conclude import answer_text
from sidecar.replay.conversation.driver import Ask
from sidecar.replay.direct import Agent
from sidecar.replay.driver import Company, Job, ReplayPlan, company
from sidecar.replay.environment import Addresses, Identity
from sidecar.replay.hosted.http import GatewayCalls
from sidecar.replay.record import AgentExit, EpisodeRecord
from sidecar.replay.stage.driver import StagePorts
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Case

Started = Callable[[Bundle], AbstractAsyncContextManager[PolicyPort]]
"""The engine on another bundle, running."""


class Campaign(Struct, frozen=True, kw_only=True):
    """What to try: ``agent`` where it is a callable, ``bundle`` where the policy is at hand."""

    plan: ReplayPlan
    ports: StagePorts
    agent: Agent | None
    bundle: Bundle | None
    started: Started
    targets: tuple[Target, ...]
    seed: int = 0
    operators: tuple[str, ...] = ()
    progress: Callable[[int, int], None] | None = None


async def score(campaign: Campaign) -> Score:
    """Run it. Raises SidecarError, StoreUnavailable."""
    return await _Bench(campaign).score()


class _Bench:
    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._cases = {case.id: case for case in campaign.plan.cases}
        self._watched = _Watched(campaign.ports.policy)
        self._known = Known(runs={}, tools={}, keys={})
        self._now: list[Tampered] = []
        self._mutant: Mutant | None = None
        self._runs = 0

    async def score(self) -> Score:
        """All mutants of the campaign."""
        campaign = self._campaign
        unusable = await self._as_it_is()
        notes: list[str] = []
        found: list[Judged] = []
        if "agent" in campaign.targets:
            if campaign.agent is None:
                notes.append("the agent is no callable f(request, call): it was not made wrong")
            else:
                found += await self._of_agent()
        if "twin" in campaign.targets:
            found += await self._of_twins()
        if "policy" in campaign.targets:
            if campaign.bundle is None:
                notes.append("the policy's bundle is not at hand: it was not made wrong")
            else:
                found += await self._of_policy(campaign.bundle)
        return scored(
            campaign.plan.suite,
            found,
            cases=len(self._known.runs),
            unusable=unusable,
            runs=self._runs,
            notes=notes,
        )

    async def _as_it_is(self) -> dict[str, str]:
        campaign = self._campaign
        group = campaign.plan.group
        self._known = Known(
            runs={}, tools=group.tools, keys=_keys(self._cases.values(), group), seed=campaign.seed
        )
        runs: dict[str, Shown] = {}
        unusable: dict[str, str] = {}
        ports = structs.replace(campaign.ports, policy=self._watched)
        async with self._company(group, ports) as running:
            for name, case in self._cases.items():
                self._watched.case = name
                shown = await self._shown(running, case)
                self._tell(len(runs) + len(unusable), len(self._cases))
                if shown.passed:
                    runs[name] = shown
                else:
                    unusable[name] = shown.void or shown.why
        self._known = structs.replace(self._known, runs=runs)
        return unusable

    async def _of_agent(self) -> list[Judged]:
        campaign = self._campaign
        chosen = self._chosen(agent_mutants(self._known))
        found = []
        async with self._company(campaign.plan.group, campaign.ports) as running:
            for mutant in chosen:
                self._mutant = mutant
                found.append(await self._tried(running, mutant, self._cases))
                self._mutant = None
                self._tell(len(found), len(chosen))
        return found

    async def _of_twins(self) -> list[Judged]:
        campaign = self._campaign
        chosen = self._chosen(twin_mutants(self._known, campaign.plan.group))
        found = []
        for mutant in chosen:
            group = mutated_group(campaign.plan.group, mutant)
            cases = {name: mutated_case(self._cases[name], mutant) for name in mutant.cases}
            async with self._company(group, campaign.ports) as running:
                found.append(await self._tried(running, mutant, cases))
            self._tell(len(found), len(chosen))
        return found

    async def _of_policy(self, bundle: Bundle) -> list[Judged]:
        modules = await rules_of(bundle)
        words = list(turned(sayings(modules, bundle.data)))
        bundles = [
            *dropped(bundle, definitions(modules, bundle.data)),
            *loosened(bundle),
        ]
        chosen = set(self._chosen(mutant for mutant, _ in (*words, *bundles)))
        found: list[Judged] = []
        for mutant, word in words:
            if mutant in chosen:
                turning = _Turning(self._campaign.ports.policy, word)
                found.append(await self._under(mutant, turning))
                self._tell(len(found), len(chosen))
        for mutant, other in bundles:
            if mutant in chosen:
                async with self._campaign.started(other) as port:
                    found.append(await self._under(mutant, port))
                self._tell(len(found), len(chosen))
        return found

    async def _under(self, mutant: Mutant, port: PolicyPort) -> Judged:
        """A mutant of the policy, on the cases of which it decides a call otherwise."""
        touched = tuple(
            [name for name in self._known.runs if await self._watched.decides_otherwise(name, port)]
        )
        mutant = structs.replace(mutant, cases=touched)
        if not touched:
            return judged(mutant, [])
        ports = structs.replace(self._campaign.ports, policy=port)
        async with self._company(self._campaign.plan.group, ports) as running:
            return await self._tried(running, mutant, self._cases)

    async def _tried(self, running: Company, mutant: Mutant, cases: dict[str, Case]) -> Judged:
        pairs: list[tuple[Shown, Shown]] = []
        for name in mutant.cases:
            made = await self._shown(running, cases[name])
            pairs.append((self._known.runs[name], made))
            if made.acted and made.void is None and not made.passed:
                break
        return judged(mutant, pairs)

    async def _shown(self, running: Company, case: Case) -> Shown:
        self._now.clear()
        job = Job(case=case, side="candidate", run=1, agent=self._campaign.plan.candidate)
        (record,) = await running.run([job])
        self._runs += 1
        tampered = self._now[-1] if self._now else None
        heard = tuple(tampered.heard) if tampered is not None else _heard(record)
        acted = tampered.acted if tampered is not None and self._mutant is not None else True
        return _shown(record, heard, self._known, acted=acted)

    @asynccontextmanager
    async def _company(self, group: TwinGroup, ports: StagePorts) -> AsyncIterator[Company]:
        plan = structs.replace(self._campaign.plan, group=group)
        hosting = self._hosted(group) if self._campaign.agent is not None else None
        async with company(plan, ports, concurrency=1, hosting=hosting) as running:
            yield running

    def _hosted(self, group: TwinGroup) -> Callable[[Job, Identity, Addresses], Ask]:
        agent = self._campaign.agent
        assert agent is not None

        def hosting(job: Job, who: Identity, at: Addresses) -> Ask:
            calls = GatewayCalls(group, at, who)
            tampered = Tampered(self._mutant, self._known, job.case.id, calls)
            self._now.append(tampered)

            async def ask(request: dict[str, Any], seconds: float) -> AgentExit:
                run = asyncio.to_thread(_answered, agent, tampered, request)
                try:
                    return await asyncio.wait_for(run, seconds)
                except TimeoutError:
                    return AgentExit(ending="timed_out", detail="it did not end in time")

            return ask

        return hosting

    def _chosen(self, mutants: Iterable[Mutant]) -> list[Mutant]:
        wanted = self._campaign.operators
        return [one for one in mutants if not wanted or one.operator in wanted]

    def _tell(self, done: int, of: int) -> None:
        if self._campaign.progress is not None:
            self._campaign.progress(done, of)


class _Watched:
    """The policy as it is; what it was asked in each case is kept, with what it answered."""

    def __init__(self, port: PolicyPort) -> None:
        self._port = port
        self._asked: dict[str, list[tuple[dict[str, Any], PolicyAnswer]]] = {}
        self.case = ""

    @property
    def revision(self) -> str:
        """The engine's."""
        return self._port.revision

    @property
    def reads(self) -> frozenset[Fact]:
        """The engine's."""
        return self._port.reads

    async def decide(self, document: dict[str, Any]) -> PolicyAnswer:
        """The engine's, kept."""
        answer = await self._port.decide(document)
        self._asked.setdefault(self.case, []).append((document, answer))
        return answer

    async def visible(self, document: dict[str, Any]) -> PolicyAnswer:
        """The engine's."""
        return await self._port.visible(document)

    async def decides_otherwise(self, case: str, other: PolicyPort) -> bool:
        """Whether another policy decides any call of a case otherwise."""
        for document, answer in self._asked.get(case, ()):
            made = await other.decide(document)
            if _decided(made) != _decided(answer):
                return True
        return False


class _Turning:
    """The policy with one of its words turned round."""

    def __init__(self, port: PolicyPort, word: Turned) -> None:
        self._port, self._word = port, word

    @property
    def revision(self) -> str:
        """The engine's."""
        return self._port.revision

    @property
    def reads(self) -> frozenset[Fact]:
        """The engine's."""
        return self._port.reads

    async def decide(self, document: dict[str, Any]) -> PolicyAnswer:
        """The engine's, turned."""
        return self._word.answer(await self._port.decide(document))

    async def visible(self, document: dict[str, Any]) -> PolicyAnswer:
        """The engine's."""
        return await self._port.visible(document)


def _decided(answer: PolicyAnswer) -> tuple[Any, ...]:
    return answer.effect, answer.limits, answer.approval, answer.obligations, answer.error


def _answered(agent: Agent, tampered: Tampered, request: dict[str, Any]) -> AgentExit:
    try:
        output = agent(request, tampered.call)
        if isinstance(output, dict) and "output" in output:
            output = output["output"]
        output = json.loads(json.dumps(tampered.answer(output)))
    except (Exception, SystemExit) as error:  # whatever an agent raises is how it ended
        return AgentExit(ending="failed", detail=f"{type(error).__name__}: {error}"[:500])
    return AgentExit(ending="completed", exit_code=0, output=output)


def _shown(record: EpisodeRecord, heard: tuple[Heard, ...], known: Known, *, acted: bool) -> Shown:
    wrong = next((one for one in record.scores if one.required and one.status != "pass"), None)
    return Shown(
        case=record.case,
        passed=record.conclusion == "passed" and record.void is None,
        void=record.void,
        effects=tuple(
            f"{event.tool} {json.dumps(event.arguments, sort_keys=True)} {event.status}"
            for event in record.events
            if event.changes and known.acts(event.tool)
        ),
        answer=answer_text(record.agent.output) or "",
        why=f"{wrong.expectation}: {wrong.detail}" if wrong is not None else record.conclusion,
        heard=heard,
        acted=acted,
    )


def _heard(record: EpisodeRecord) -> tuple[Heard, ...]:
    """What a process called, as the twins know it."""
    return tuple(
        Heard(
            tool=event.tool,
            arguments=event.arguments,
            key=event.key,
            status=event.status,
            value=None,
        )
        for event in record.events
        if event.kind in CALL_EVENTS
    )


def _keys(cases: Iterable[Case], group: TwinGroup) -> dict[str, str]:
    """The keys of rows that a suite names, with their entity."""
    found: dict[str, str] = {}
    for twin in group.twins.values():
        for name, entity in twin.declaration.entities.items():
            rows: list[Sequence[dict[str, Any]]] = [entity.rows]
            rows += [case.beginning.rows.get(name, ()) for case in cases]
            for row in (each for some in rows for each in some):
                if isinstance(value := row.get(entity.key), str):
                    found.setdefault(value, f"{twin.name}.{name}")
    return found
