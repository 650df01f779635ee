"""``sidecar scenario run``: scenarios against one agent, through the gateway in twin mode.

Rules
1. Exit 0 when every scenario passed, 1 when one failed or a group is unfair, 2 when something could
   not be decided: void, incomplete, or two runs of a deterministic suite that differ.
2. No verdict: nothing is compared, nothing is stored.
"""

import asyncio
import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec
from msgspec import Struct, structs

from processors.model.verdict import Score
from sidecar.app import replaying
from sidecar.app.loading import load_config
from sidecar.app.played import with_tapes
from sidecar.cli.options import common, emit, on_terminal, profiled, talk
from sidecar.errors import SidecarError
from sidecar.evaluate.fairness import Tally, fairness
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain
from sidecar.replay.conclude import COMPLETED
from sidecar.replay.driver import Progress, ReplayPlan, replay
from sidecar.replay.planning import Asked, CapturedPlan, suite_plan
from sidecar.replay.record import AgentExit, EpisodeRecord
from sidecar.replay.reference import read_reference, recorded
from sidecar.telemetry import configure_logging
from sidecar.twins.files import LoadedSuite, load_suite

_LAST_LINES: Final = 4
End = Literal["passed", "failed", "incomplete", "void", "flaky"]


class Case(Struct, frozen=True, kw_only=True):
    """A scenario and what its runs came to; ``run`` is the one that is shown."""

    id: str
    severity: str
    end: End
    why: str
    run: EpisodeRecord
    runs: int


@click.command("run")
@click.argument("suite", type=click.Path(path_type=Path))
@click.option("--agent", required=True, metavar="REF", help="cmd:…, py:…, url:… or tape:….")
@click.option("--scenario", "only", multiple=True, metavar="ID", help="Only this; may be repeated.")
@click.option("--tag", "tags", multiple=True, help="Only those with this tag; may be repeated.")
@click.option("--deadline", default="", help="Time of one episode [default: the suite's].")
@click.option("--jobs", type=click.IntRange(1, 64), default=None, help="Episodes at once.")
@profiled()
@common()
def run(
    suite: Path,
    agent: str,
    only: tuple[str, ...],
    tags: tuple[str, ...],
    deadline: str,
    jobs: int | None,
    exits: Exits,
    config: str | None,
    store: str | None,
    output: str,
) -> int:
    """Run scenarios of SUITE against one agent and show every expectation. No gate.

    \b
    Example:
      $ sidecar scenario run suite.yaml --agent "cmd:agent --version 1.3.0" --scenario false-success
      failed      false-success (critical)
        finalOutcome: the agent's final claim is success, expected unknown
      1 scenarios: 1 failed
    """
    configure_logging()
    loaded = load_config(config, store)
    chosen = _chosen(load_suite(suite), only, tags)
    asked = Asked(
        project=loaded.config.projects[0].name,
        candidate=read_reference(agent, option="--agent", python=sys.executable),
        baseline=recorded(),
        deadline=deadline,
        program_version=importlib.metadata.version("agenttwin-sidecar"),
    )
    found = with_tapes(CapturedPlan(plan=suite_plan(chosen, asked), notes=()))
    for note in found.notes:
        talk(note)
    plan = found.plan
    _refuse_unplayed(plan)

    async def whole(progress: Progress | None) -> tuple[EpisodeRecord, ...]:
        async with replaying.replay_ports(loaded) as ports:
            result = await replay(plan, ports, concurrency=jobs or 0, progress=progress)
            return tuple(result.runs)

    with episodes_progress(plan) as progress:
        runs = asyncio.run(whole(progress))
    cases = [_case(plan, one.id, one.severity, runs) for one in plan.cases]
    groups = _groups(chosen, plan, runs)
    end = _end(cases, groups)
    value = {
        **exits.told(end),
        "suite": plan.suite,
        "agent": agent,
        "scenarios": [_value(one) for one in cases],
        "fairness": [msgspec.to_builtins(one) for one in groups],
    }
    emit(value, output, lambda: "\n".join(_lines(cases, groups)))
    return exits.code(end)


def _refuse_unplayed(plan: ReplayPlan) -> None:
    """Raises SidecarError where tapes are played and a scenario has none."""
    judged = {one.case for one in plan.recorded}
    for case in plan.cases:
        known = case.id in plan.candidate.tapes or case.id in judged
        if plan.candidate.kind == "tape" and not known:
            raise SidecarError(
                f"there is no tape of the scenario {case.id!r}",
                where="--agent",
                do="Choose others with --scenario.",
            )


def _chosen(loaded: LoadedSuite, only: Sequence[str], tags: Sequence[str]) -> LoadedSuite:
    known = [one.id for one in loaded.suite.scenarios]
    for name in only:
        if name not in known:
            raise SidecarError(
                f"there is no scenario {name!r}",
                where="--scenario",
                do=f"Known: {', '.join(known)}.",
            )
    kept = tuple(
        one
        for one in loaded.suite.scenarios
        if (not only or one.id in only) and (not tags or set(tags) & set(one.tags))
    )
    if not kept:
        raise SidecarError("no scenario has such a tag", where="--tag")
    names = {one.id for one in kept}
    rules = tuple(one for one in loaded.suite.fairness if names.issuperset(one.scenarios))
    suite = structs.replace(loaded.suite, scenarios=kept, fairness=rules)
    return structs.replace(loaded, suite=suite)


def _case(plan: ReplayPlan, name: str, severity: str, runs: Sequence[EpisodeRecord]) -> Case:
    own = [one for one in runs if one.case == name]
    void = next((one for one in own if one.void is not None), None)
    first = void or own[0]
    end: End = "void" if void is not None else first.conclusion
    why = first.void or ""
    if void is None and plan.deterministic and len({one.digest for one in own}) > 1:
        end, why = "flaky", "two runs differ, and the suite is declared deterministic"
    return Case(id=name, severity=severity, end=end, why=why, run=first, runs=len(own))


def _groups(loaded: LoadedSuite, plan: ReplayPlan, runs: Sequence[EpisodeRecord]) -> list[Score]:
    found = []
    for rule in loaded.suite.fairness:
        tallies: dict[str, Tally] = {}
        for name in rule.scenarios:
            own = [one for one in runs if one.case == name and one.void is None]
            hits = sum(_hit(one, rule.tool) for one in own)
            tallies[name] = Tally(hits=hits, runs=len(own))
        found.append(fairness(rule, tallies, deterministic=plan.deterministic))
    return found


def _hit(run: EpisodeRecord, tool: str) -> bool:
    if not tool:
        return run.conclusion == "passed"
    return any(one.tool == tool and one.phase == "executed" for one in run.receipts)


def _end(cases: Sequence[Case], groups: Sequence[Score]) -> Outcome:
    unfair = any(one.required and one.status == "fail" for one in groups)
    if unfair or any(one.end == "failed" for one in cases):
        return Outcome.FAILED
    unsure = any(one.required and one.status != "pass" for one in groups)
    if unsure or any(one.end != "passed" for one in cases):
        return Outcome.UNDECIDED
    return Outcome.OK


def _value(one: Case) -> dict[str, Any]:
    return {
        "scenario": one.id,
        "severity": one.severity,
        "outcome": one.end,
        "reason": one.why,
        "runs": one.runs,
        "digest": one.run.digest,
        "answer": one.run.agent.output,
        "ending": one.run.agent.ending,
        "stderr_tail": one.run.agent.stderr_tail,
        "turns": msgspec.to_builtins(one.run.agent.turns),
        "scores": msgspec.to_builtins(one.run.scores),
    }


def _lines(cases: Sequence[Case], groups: Sequence[Score]) -> Iterator[str]:
    for one in cases:
        yield plain(f"{one.end:<11} {one.id} ({one.severity})")
        if one.why:
            yield plain(f"  {one.why}")
        for score in one.run.scores:
            if score.status != "pass" or score.type == "rubric":
                step = f" [{score.first_step}]" if score.first_step else ""
                word = "" if score.required else " (decides nothing)"
                yield plain(f"  {score.status} {score.expectation}{word}: {score.detail}{step}")
                if score.expectation == COMPLETED:
                    yield from (f"    {plain(line)}" for line in _last_words(one.run.agent))
    for group in groups:
        yield plain(f"{group.status:<11} fairness {group.expectation}: {group.detail}")
    ends = [one.end for one in cases]
    counted = ", ".join(f"{ends.count(end)} {end}" for end in dict.fromkeys(sorted(ends)))
    yield f"{len(cases)} scenarios: {counted}"


def _last_words(agent: AgentExit) -> list[str]:
    """What an agent that gave no answer said last, to see why: its traceback's end, for one."""
    return [one for one in agent.stderr_tail.splitlines() if one.strip()][-_LAST_LINES:]


@contextmanager
def episodes_progress(plan: ReplayPlan) -> Iterator[Progress | None]:
    """What draws the episodes of a plan as they end, on a terminal."""
    if not on_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("episodes", total=len(plan.cases) * plan.repeats)

        def advance(_: EpisodeRecord) -> None:
            bar.advance(task)

        yield advance
