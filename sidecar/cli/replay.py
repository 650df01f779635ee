"""``sidecar replay``: baseline against candidate on twins, and the gate's verdict on it.

Rules
1. The exit code is the verdict's: 0 PASS or WARN, 1 BLOCK, 2 undecided, 3 usage or our fault.
2. The verdict is stored and its evidence written before anything is printed.
"""

import asyncio
import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from processors.model.trace import AgentTrace
from processors.model.verdict import Verdict
from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar import clock
from sidecar.app import opening, replaying
from sidecar.app.attesting import made_here, signing_keys
from sidecar.app.loading import load_config
from sidecar.cli.gate import shown
from sidecar.cli.options import common, on_terminal, profiled, say, talk, to_json
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.gate.chain import entry_of
from sidecar.gate.conclude import conclude
from sidecar.gate.evidence import bundle
from sidecar.gate.files import append_log, log_path, read_policy, write_bundle
from sidecar.gate.policy import GatePolicy
from sidecar.identity.projects import project_name
from sidecar.outcome import Exits, Outcome
from sidecar.replay.driver import Progress, ReplayPlan, replay
from sidecar.replay.planning import Asked, captured_plan, suite_plan
from sidecar.replay.query import PREFIX, StoreQuery, read_query
from sidecar.replay.record import EpisodeRecord
from sidecar.replay.reference import read_reference
from sidecar.replay.run import ReplayResult
from sidecar.telemetry import configure_logging
from sidecar.twins.files import load_suite, load_twins

_END = {
    "PASS": Outcome.OK,
    "WARN": Outcome.WARNED,
    "BLOCK": Outcome.FAILED,
    None: Outcome.UNDECIDED,
}


@click.command("replay")
@click.argument("suite", metavar="SUITE")
@click.option("--baseline", metavar="REF", help="The version now in use.")
@click.option("--candidate", metavar="REF", required=True, help="The version to be judged.")
@click.option(
    "--twin",
    "twins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Twin for captured traffic; may be repeated.",
)
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
@click.option("--jobs", type=click.IntRange(1, 64), default=None, help="Episodes at once.")
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
    suite: str,
    twins: tuple[Path, ...],
    config: str | None,
    store: str | None,
    exits: Exits,
    **more: Any,
) -> int:
    """Run a suite, or captured traffic, against twins and give a gate verdict.

    SUITE is a suite.yaml, or store:QUERY with service, trace, since, until, outcome or limit.
    REF is cmd:COMMAND or py:module:callable. Without --baseline captured traffic is compared with
    what was recorded.

    \b
    Example:
      $ sidecar replay suite.yaml --baseline "cmd:agent --version 1.2.4" \\
          --candidate "cmd:agent --version 1.3.0"
      BLOCK  refunds: cmd:agent --version 1.3.0 against cmd:agent --version 1.2.4
        9 cases: 2 new critical, 1 regressed, 6 unchanged
        …
    """
    configure_logging()
    loaded = load_config(config, store)
    policy = read_policy(more["gate"]) if more["gate"] else GatePolicy()
    keys = signing_keys(loaded, more["signing_keys"])
    asked = _asked(loaded, more)
    if suite.startswith(PREFIX):
        plan = _captured(suite, twins, loaded, asked)
    else:
        plan = _suite(suite, twins, asked)
    with _progress(plan) as progress:
        result = asyncio.run(_run(loaded, plan, more["jobs"] or 0, progress))
    verdict = _keep(loaded, plan, result, Kept(policy=policy, keys=keys, folder=more["evidence"]))
    output = more["output"]
    end = _END[verdict.status]
    told = {**msgspec.to_builtins(verdict), **exits.told(end, verdict.status or "UNDECIDED")}
    said = to_json(told) if output == "json" else shown(verdict, output, exits, exits.code(end))
    say(said)
    return exits.code(end)


def _asked(loaded: Loaded, more: dict[str, Any]) -> Asked:
    if more["deadline"]:
        try:
            duration_ns(more["deadline"], least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            raise SidecarError(str(error), where="--deadline") from None
    baseline = more["baseline"]
    python = sys.executable
    return Asked(
        project=_project(loaded, more["project"]),
        candidate=read_reference(more["candidate"], option="--candidate", python=python),
        baseline=read_reference(baseline, option="--baseline", python=python) if baseline else None,
        deterministic=more["deterministic"],
        deadline=more["deadline"],
        agent=more["agent"],
        program_version=importlib.metadata.version("agenttwin-sidecar"),
    )


def _project(loaded: Loaded, named: str | None) -> str:
    if named is None:
        return loaded.config.projects[0].name
    return project_name(named, where="--project")


def _suite(suite: str, twins: tuple[Path, ...], asked: Asked) -> ReplayPlan:
    if twins:
        raise SidecarError("a suite names its own twins", where="--twin", do="Leave it out.")
    return suite_plan(load_suite(Path(suite)), asked)


def _captured(query: str, twins: tuple[Path, ...], loaded: Loaded, asked: Asked) -> ReplayPlan:
    if not twins:
        raise SidecarError(
            "captured traffic needs a twin of the tools it used",
            where="--twin",
            do="Name a twin.yaml.",
        )
    wanted = read_query(query, project=asked.project, now_ns=clock.now_ns())
    group = load_twins(list(twins))
    made = captured_plan(query, _traces(loaded, wanted), group, asked)
    for note in made.notes:
        talk(note)
    return made.plan


def _traces(loaded: Loaded, wanted: StoreQuery) -> list[AgentTrace]:
    with opening.open_traces(loaded) as traces:
        if wanted.trace is not None:
            ids = [wanted.trace]
        else:
            ids = [one.trace_id for one in traces.list_traces(wanted)]
        found = [traces.get_trace(name, wanted.project) for name in ids]
    return [trace for trace in reversed(found) if trace is not None]


async def _run(
    loaded: Loaded, plan: ReplayPlan, jobs: int, progress: Progress | None
) -> ReplayResult:
    async with replaying.replay_ports(loaded) as ports:
        return await replay(plan, ports, concurrency=jobs, progress=progress)


class Kept(Struct, frozen=True, kw_only=True):
    """How a verdict is held, signed, and where it is put."""

    policy: GatePolicy
    keys: tuple[Ed25519PrivateKey, ...]
    folder: Path | None


def _keep(loaded: Loaded, plan: ReplayPlan, result: ReplayResult, how: Kept) -> Verdict:
    verdict = conclude(result, verdict_id=clock.new_id(), now_ns=clock.now_ns(), policy=how.policy)
    store = Path(loaded.store_folder) / "evidence"
    folder = (how.folder or store) / verdict.verdict_id
    whole = bundle(
        result,
        verdict,
        folder=str(folder),
        made=made_here(dict(plan.group.tools), Path.cwd()),
        keys=how.keys,
        policy=how.policy,
    )
    write_bundle(whole, folder)
    append_log(log_path(store, verdict.project), entry_of(whole.verdict, whole.manifest.root))
    with opening.open_verdicts(loaded, write=True) as verdicts:
        verdicts.add_verdict(whole.verdict)
    return whole.verdict


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
