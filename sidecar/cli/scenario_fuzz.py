"""``sidecar scenario fuzz``: mutated scenarios, run on the twins, until the agent fails one.

Rules
1. Exit code 0: nothing was found; 1: something was, or a scenario fails as it is; 2: every scenario
   is void, so that nothing can be said.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from processors.value import duration_ns
from sidecar.analyse.fuzz import driver
from sidecar.analyse.fuzz.campaign import CONFIRM, Campaign, Finding, Plan, Report
from sidecar.analyse.fuzz.driver import Progress, agent
from sidecar.analyse.fuzz.files import write_finding
from sidecar.analyse.fuzz.mutations import LAYERS
from sidecar.analyse.fuzz.rarely import Asked
from sidecar.cli import scenario_rare
from sidecar.cli.numbers import FiniteRange
from sidecar.cli.options import common, emit, on_terminal, talk
from sidecar.errors import SidecarError
from sidecar.expression.written import written
from sidecar.telemetry import configure_logging
from sidecar.twins.files import LoadedSuite, load_suite

_EPISODES = re.compile(r"\d{1,9}\Z")
_MANY = 10**9


@click.command("fuzz")
@click.argument("suite", metavar="SUITE", type=click.Path(path_type=Path))
@click.option("--agent", "tried", metavar="REF", required=True, help="py:module:callable.")
@click.option("--reference", metavar="REF", help="An agent known to be right: it must pass.")
@click.option(
    "--budget", default="2000", show_default=True, help="Episodes, or a duration such as 60s."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same findings.")
@click.option(
    "--strength",
    type=click.IntRange(1, 4),
    default=2,
    show_default=True,
    help="Operators combined by the covering array.",
)
@click.option(
    "--layer", "layers", multiple=True, type=click.Choice(LAYERS), help="Mutate only this layer."
)
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("findings"),
    show_default=True,
    help="Folder for what is found.",
)
@click.option(
    "--rare",
    type=click.IntRange(20),
    metavar="EPISODES",
    help="Mutate nothing: estimate how likely each scenario fails under its faults' probabilities.",
)
@click.option(
    "--rare-max",
    type=FiniteRange(0, 1),
    metavar="PROBABILITY",
    help="With --rare: exit 1 where a scenario is shown to fail more often, 2 where unsure.",
)
@common()
def fuzz(suite: Path, tried: str, reference: str | None, output: str, **more: Any) -> int:
    """Mutate scenarios until an agent fails one, and shrink what it fails.

    The agent runs in this process, on the suite's twins: f(request, call), or a generator function
    f(request). Two errands of a suite are also run at the same time, in many orders. Each finding
    is a suite of its own; run it again with --budget 0.

    \b
    Example:
      $ sidecar scenario fuzz forklifts/suite.yaml --agent py:forklifts.agents:greedy --budget 200
      FOUND  forklifts: 1 failure in 200 episodes (429 runs), seed 0
        deadlock: nobody can go on: outbound waits for places/dock, …
          beside: beside inbound
          switch to inbound after 2 calls
        …
    """
    configure_logging()
    loaded = load_suite(suite)
    if more["rare"] is not None:
        return _rare(loaded, tried, output, more)
    if more["rare_max"] is not None:
        raise click.UsageError("--rare-max is of --rare")
    episodes, seconds = _budget(more["budget"])
    plan = Plan(
        suite=loaded.suite,
        group=loaded.group,
        agent=agent(tried, option="--agent"),
        reference=agent(reference, option="--reference") if reference else None,
        seed=more["seed"],
        episodes=episodes,
        strength=more["strength"],
        layers=more["layers"],
    )
    with _progress(episodes) as progress:
        report = driver.fuzz(plan, seconds=seconds, progress=progress)
    files = [
        write_finding(
            more["folder"], one, loaded.suite, suite_path=suite, agent=tried, seed=plan.seed
        )
        for one in report.findings
    ]
    told = {"suite": loaded.suite.suite, **written_report(report, files)}
    emit(told, output, lambda: _text(loaded.suite.suite, report, files))
    return _code(report)


def _rare(loaded: LoadedSuite, tried: str, output: str, more: dict[str, Any]) -> int:
    name, seed = loaded.suite.suite, more["seed"]
    asked = Asked(
        suite=loaded.suite,
        group=loaded.group,
        agent=agent(tried, option="--agent"),
        episodes=more["rare"],
        seed=seed,
    )
    found = scenario_rare.run(asked)
    emit(
        scenario_rare.as_record(name, found, seed=seed),
        output,
        lambda: "\n".join(scenario_rare.text(name, found, seed=seed)),
    )
    return scenario_rare.code(found, more["rare_max"])


def written_report(report: Report, files: Sequence[Path]) -> dict[str, Any]:
    """The report with every key, findings with their files."""
    fields = {name: getattr(report, name) for name in report.__struct_fields__}
    findings = [
        {
            "signature": one.signature.key,
            "rule": one.signature.rule,
            "tool": one.signature.tool,
            "status": one.signature.status,
            "fault": one.signature.fault,
            "writes": list(one.signature.writes),
            "detail": one.detail,
            "base": one.base,
            "mutations": [mutation.told() for mutation in one.genome],
            "episode": one.episode,
            "arm": one.arm,
            "hits": one.hits,
            "of": CONFIRM,
            "replays": one.replays,
            "whole": one.whole,
            "file": str(path),
        }
        for one, path in zip(report.findings, files, strict=True)
    ]
    curve = [{name: getattr(one, name) for name in one.__struct_fields__} for one in report.curve]
    return {
        **fields,
        "findings": findings,
        "curve": curve,
        "as_it_is": [written(one) for one in report.as_it_is],
    }


def _text(name: str, report: Report, files: Sequence[Path]) -> str:
    count = len(report.findings)
    as_it_is = "FAILS" if any(not one.void for one in report.as_it_is) else "NOTHING"
    word = "FOUND" if count else as_it_is
    lines = [
        f"{word}  {name}: {count} failure{'' if count == 1 else 's'} in {report.episodes} episodes "
        f"({report.runs} runs), seed {report.seed}"
    ]
    for one, path in zip(report.findings, files, strict=True):
        again = "" if one.hits == CONFIRM else f", {one.hits} of {CONFIRM} runs"
        least = "" if one.whole else ", not the least"
        lines += [
            f"  {one.signature.rule}  {one.detail}",
            *(f"    {mutation.told()!s}" for mutation in one.genome),
            f"    episode {one.episode} ({one.arm}) of {one.base}{again}{least}: {path}",
        ]
    lines += [f"  {one.scenario}: {one.why}" for one in report.as_it_is]
    if report.episodes:
        lines += ["  episodes  signatures  features  unseen", *map(_point, report.curve)]
        lines.append(f"  at least {report.chao1:.0f} signatures by the uniform draws (Chao1)")
    lines.append(
        f"  {report.invalid} invalid, {report.void} void, {report.unconfirmed} unconfirmed"
    )
    if not report.reference:
        lines.append(
            "  no --reference: where it is not known what is right, only what must never be"
        )
    return "\n".join(lines)


def _point(one: Any) -> str:
    unseen = "-" if one.unseen is None else f"{one.unseen:.1%}"
    return f"  {one.episodes:8d}  {one.signatures:10d}  {one.features:8d}  {unseen:>6}"


def _code(report: Report) -> int:
    if report.findings or any(not one.void for one in report.as_it_is):
        return 1
    return 2 if report.as_it_is and not report.bases else 0


def _budget(text: str) -> tuple[int, float | None]:
    if _EPISODES.match(text):
        return int(text), None
    try:
        return _MANY, duration_ns(text) / 1e9
    except ValueError:
        raise SidecarError(
            f"{text!r} is no budget", where="--budget", do="Write episodes (2000) or a time (60s)."
        ) from None


@contextmanager
def _progress(episodes: int) -> Iterator[Progress | None]:
    """A bar on a terminal; nothing where nobody looks."""
    if not on_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("episodes", total=episodes if episodes < _MANY else None)

        def advance(made: Campaign, found: Finding | None) -> None:
            bar.update(task, advance=1, description=f"episodes, {len(made.found)} found")
            if found is not None:
                talk(f"{found.signature.rule}: {found.detail}")

        yield advance
