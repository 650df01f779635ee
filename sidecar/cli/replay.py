"""``sidecar replay``: baseline against candidate on twins, and the gate's verdict on it.

Rules
1. The exit code is the verdict's: 0 PASS or WARN, 1 BLOCK, 2 undecided, 3 usage or our fault.
2. The verdict is stored and its evidence written before anything is printed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from processors.model.verdict import Verdict
from sidecar import clock
from sidecar.app.attesting import signing_keys
from sidecar.app.concluding import Kept, Wanted, judge, planned, tidied
from sidecar.app.loading import load_config
from sidecar.cli.gate import shown
from sidecar.cli.options import common, in_world, on_terminal, profiled, say, talk, to_json
from sidecar.cli.replay_shards import in_shards, named, replay_part, replay_shards
from sidecar.cli.replay_tapes import replay_tapes
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.gate.files import read_policy
from sidecar.gate.policy import GatePolicy
from sidecar.outcome import Exits, Outcome
from sidecar.replay.driver import Progress, ReplayPlan
from sidecar.replay.record import EpisodeRecord
from sidecar.telemetry import configure_logging

_END = {
    "PASS": Outcome.OK,
    "WARN": Outcome.WARNED,
    "BLOCK": Outcome.FAILED,
    None: Outcome.UNDECIDED,
}


@click.command("replay")
@click.argument("suite", metavar="SUITE", required=False)
@click.option("--baseline", metavar="REF", help="The version now in use.")
@click.option(
    "--candidate", metavar="REF", help="The version to be judged; a folder of tapes may have none."
)
@click.option(
    "--twin",
    "twins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Twin for recordings: a file, airline, or draft for the one that the recordings bear; may "
    "be repeated [default: tools answer as they were recorded].",
)
@in_world("the twins of recordings")
@click.option("--project", default=None, help="Whose verdict it is [default: the first project].")
@click.option(
    "--deterministic", is_flag=True, help="Declare it; each case then runs twice and must agree."
)
@click.option("--agent", default="", help="Name that policy knows the agent by.")
@click.option("--deadline", default="", help="Time of one episode [default: the suite's, or 60s].")
@click.option(
    "--gate",
    "gate",
    type=click.Path(path_type=Path),
    default=None,
    help="gate.yaml with margins, owners and quarantine [default: the gate's own].",
)
@click.option(
    "--runs",
    type=click.IntRange(1, 1000),
    default=None,
    help="Runs of each case on a side [default: 2 where deterministic, else 1].",
)
@click.option("--jobs", type=click.IntRange(1, 1024), default=None, help="Episodes at once.")
@click.option(
    "--executor",
    type=click.Choice(["inline", "process", "ray"]),
    default=None,
    help="Where episodes run [default: process for callables on twins].",
)
@click.option(
    "--through",
    type=click.Choice(["gateway", "twins"]),
    default=None,
    help="How callables that take (request, call) reach their tools [default: gateway where a "
    "policy is configured, or the other side goes there; else twins].",
)
@click.option("--resume", "resumed", metavar="RUN", help="Go on with a run, or join it.")
@click.option("--shards", type=click.IntRange(1, 100_000), help="Run one part of so many.")
@click.option(
    "--shard-index",
    type=click.IntRange(0),
    help="Which part, from 0 [JOB_COMPLETION_INDEX of a Kubernetes Indexed Job].",
    envvar="JOB_COMPLETION_INDEX",
)
@click.option(
    "--parts",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the parts: written with --shards, merged into a verdict without.",
)
@click.option(
    "--evidence",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder for the evidence [default: evidence/ in the store].",
)
@click.option(
    "--signing-key",
    "signing_keys",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Ed25519 key (PEM) that signs the evidence; may be repeated [default: the store's own].",
)
@profiled(warn=True)
@common(outputs=("text", "json", "junit", "markdown", "sarif", "github", "html"))
def command(
    suite: str | None,
    twins: tuple[Path, ...],
    config: str | None,
    store: str | None,
    exits: Exits,
    **more: Any,
) -> int:
    """Run a suite, or captured traffic, against twins and give a gate verdict.

    SUITE is a suite.yaml, store:QUERY with service, trace, since, until, outcome or limit, or a
    folder of tapes or OTLP captures. Of recordings without --twin, tools answer as recorded; the
    calls of a folder of tapes without a candidate are made on the twins.
    REF is cmd:COMMAND, py:module:callable, url:http://HOST/PATH or tape:PATH. Without --baseline
    (or with recorded) recordings are the baseline themselves. A callable that takes (request, call)
    runs straight on the twins, through the gateway where a policy is configured.

    \b
    Example:
      $ sidecar replay suite.yaml --baseline "cmd:agent --version 1.2.4" \\
          --candidate "cmd:agent --version 1.3.0"
      BLOCK  refunds: cmd:agent --version 1.3.0 against cmd:agent --version 1.2.4
        9 cases: 2 new critical, 1 regressed, 6 unchanged
        …
    """
    configure_logging()
    if suite is not None and more["candidate"] is None and Path(suite).is_dir():
        _no_sides(more)
        return replay_tapes(Path(suite), twins, more["state"], output=more["output"], exits=exits)
    if more["candidate"] is None and more["resumed"] is None:
        raise SidecarError("there is nothing to judge", where="--candidate", do="Name a version.")
    loaded = load_config(config, store)
    policy = read_policy(more["gate"], clock.now_ns()) if more["gate"] else GatePolicy()
    if more["shards"] is not None:
        return replay_part(loaded, named(suite, twins, config, store, more), more)
    keys = signing_keys(loaded, more["signing_keys"])
    how = Kept(policy=policy, keys=keys, folder=more["evidence"])
    for left in tidied(loaded, how):
        talk(f"removed {left}: evidence that a killed replay had begun to write")
    if more["resumed"] is not None or in_shards(loaded, more):
        verdict = replay_shards(loaded, named(suite, twins, config, store, more), more, how)
    else:
        verdict = _replayed(loaded, suite, twins, more, how)
    output = more["output"]
    end = _END[verdict.status]
    told = {**msgspec.to_builtins(verdict), **exits.told(end, verdict.status or "UNDECIDED")}
    said = to_json(told) if output == "json" else shown(verdict, output, exits, exits.code(end))
    say(said)
    return exits.code(end)


def _replayed(
    loaded: Loaded, suite: str | None, twins: tuple[Path, ...], more: dict[str, Any], how: Kept
) -> Verdict:
    if suite is None:
        raise SidecarError("there is nothing to replay", where="SUITE", do="Name a suite.")
    wanted = Wanted(
        suite=suite,
        twins=twins,
        state=more["state"],
        **{
            name: more[name]
            for name in ("candidate", "baseline", "project", "deterministic", "agent", "deadline")
        },
    )
    plan = planned(loaded, wanted, talk)
    with _progress(plan) as progress:
        return judge(loaded, plan, how, jobs=more["jobs"] or 0, progress=progress)


def _no_sides(more: dict[str, Any]) -> None:
    for name in ("baseline", "gate", "evidence"):
        if more[name] is not None:
            raise SidecarError(
                "without a candidate a folder of tapes is replayed as it was recorded",
                where=f"--{name}",
                do="Leave it out, or name a candidate.",
            )


@contextmanager
def _progress(plan: ReplayPlan) -> Iterator[Progress | None]:
    """A bar on a terminal; nothing where nobody looks."""
    if not on_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    sides = 2 - len(plan.recorded[:1])
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("episodes", total=len(plan.cases) * plan.repeats * sides)

        def advance(_: EpisodeRecord) -> None:
            bar.advance(task)

        yield advance
