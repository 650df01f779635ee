"""``sidecar coverage``: what a suite's runs have tried, surface by surface, and what is missing.

Rules
1. Eight surfaces, each with its own numbers; none for all of them.
2. Exit code 0; 1 where a surface is below a floor that was asked for; 2 where no run came to a
   conclusion, or the evidence does not hold.
"""

import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from processors.model.span import Batch
from processors.model.trace import AgentTrace
from processors.verify.detect import detect
from processors.verify.outcome import judge
from sidecar import clock
from sidecar.analyse.coverage import told
from sidecar.analyse.coverage.measured import below, coverage
from sidecar.analyse.coverage.surface import SURFACES, SurfaceName
from sidecar.analyse.mutants.operators import OPERATORS
from sidecar.app import covering
from sidecar.app.loading import load_config
from sidecar.cli import coverage_mutants
from sidecar.cli.gate import bundle_of
from sidecar.cli.moments import HELP, Moment
from sidecar.cli.options import common, emit, talk
from sidecar.cli.scenario_run import episodes_progress
from sidecar.config import Loaded
from sidecar.errors import ExitCode, SidecarError
from sidecar.otlp.files import decoded, requests_of
from sidecar.pipeline.build import build
from sidecar.plain import plain
from sidecar.replay.driver import ReplayPlan
from sidecar.replay.planning import Asked, suite_plan
from sidecar.replay.record import Side
from sidecar.replay.reference import read_reference, recorded
from sidecar.store.traces import TraceQuery
from sidecar.telemetry import configure_logging
from sidecar.twins.files import load_suite

MUTANTS = "mutants"


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="WHAT...")
@click.option("--agent", metavar="REF", help="Runs a suite against it: cmd:… or py:….")
@click.option(
    "--side",
    type=click.Choice(["candidate", "baseline"]),
    default="candidate",
    show_default=True,
    help="Whose runs count.",
)
@click.option(
    "--traffic",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A capture of production [default: the store's traces, where there are any].",
)
@click.option("--service", default=None, help="Of the store's traces, only this service's.")
@click.option(
    "--since", "since_ns", type=Moment(), default=None, help=f"Of the store's, since. {HELP}"
)
@click.option(
    "--traces", type=click.IntRange(1), default=1000, show_default=True, help="Of the store's."
)
@click.option(
    "--regressions",
    multiple=True,
    default=("regression*", "planted:*"),
    show_default=True,
    metavar="GLOB",
    help="Tags of scenarios that are known regressions.",
)
@click.option(
    "--floor",
    "floors",
    multiple=True,
    metavar="SURFACE=SHARE",
    help="Exit 1 where a surface covers less, as tool=100%.",
)
@click.option("--mutants", is_flag=True, help="Make agent, policy and twins wrong instead.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    type=click.Choice(["agent", "policy", "twin"]),
    help="With --mutants: only these [default: all].",
)
@click.option(
    "--operator",
    "operators",
    multiple=True,
    type=click.Choice([one.name for one in OPERATORS]),
    metavar="NAME",
    help="With --mutants: only these.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="With --mutants: their dice.")
@common(outputs=("text", "json", "markdown"))
def command(
    what: tuple[str, ...],
    agent: str | None,
    side: Side,
    config: str | None,
    store: str | None,
    output: str,
    **more: Any,
) -> int:
    """Show what the runs of a suite have tried, and every item that they have not.

    WHAT is a verdict's ID, a folder of evidence, or, with --agent, a suite that is run now.
    With --mutants the suite is run against mutants instead: an agent py:module:callable that takes
    (request, call) made wrong call by call, the policy rule by rule, the twins effect by effect.
    Each mutant is killed, survived, equivalent or void; --floor mutants=90% asks for a score.

    Surfaces: tool, critical tool, policy, failure mode, regression, dependency, fault, outcome
    verification. Each is covered/total, weighed by how often production does it where traces tell.

    \b
    Example:
      $ sidecar coverage 0192 --floor critical_tool=100%
      refunds: 18 runs; 1204 traces to weigh by
      tool                   4/5  98.2% of production  irreversible 1/1, write 1/1, read 2/3
        missing  list_refunds: called (no run calls it; 22 times in production)
      …
    """
    configure_logging()
    loaded = load_config(config, store)
    try:
        known = (MUTANTS,) if more["mutants"] else SURFACES
        floors = told.floors_of(more["floors"], known)
    except ValueError as error:
        raise SidecarError(str(error), where="--floor") from None
    if more["mutants"]:
        return _mutants(what, agent, loaded, floors.get(MUTANTS), output, more)
    several = [_ran(one, agent, loaded) for one in what]
    query = TraceQuery(
        service=more["service"], since_ns=more["since_ns"], limit=int(more["traces"])
    )
    given = covering.given(
        several,
        loaded,
        side=side,
        traffic=_traffic(more["traffic"], loaded, query),
        regressions=more["regressions"],
    )
    found = coverage(given)
    short = below(found, cast("dict[SurfaceName, float]", floors))
    suites = list(dict.fromkeys(one.suite for one in several))
    if output == "json":
        emit(told.record(found, suites=suites, short=short), output, str)
    else:
        shown = told.text if output == "text" else told.markdown
        lines = shown(found, suites=suites, short=short)
        emit(None, output, lambda: "\n".join(map(plain, lines)))
    if not found.runs:
        talk("no run came to a conclusion, so nothing is covered")
        return ExitCode.UNDECIDED
    return ExitCode.FAILED if short else ExitCode.GOOD


def _ran(what: str, agent: str | None, loaded: Loaded) -> covering.Ran:
    path = Path(what)
    if not path.is_file():
        return covering.of_bundle(bundle_of(what, loaded), what)
    if agent is None:
        raise SidecarError(
            "a suite is run before anything is counted: name the agent",
            where="--agent",
            do="Or name a verdict or its evidence, whose runs are there.",
        )
    plan, fairness = _plan(path, agent, loaded)
    with episodes_progress(plan) as progress:
        return covering.of_plan(plan, fairness, loaded, progress)


def _mutants(
    what: Sequence[str],
    agent: str | None,
    loaded: Loaded,
    floor: float | None,
    output: str,
    more: dict[str, Any],
) -> int:
    if len(what) != 1 or agent is None or not Path(what[0]).is_file():
        raise SidecarError(
            "mutants are of one suite and one agent, which are run now",
            where="--mutants",
            do="Give one suite.yaml and --agent.",
        )
    plan, _ = _plan(Path(what[0]), agent, loaded)
    seed = more["seed"]
    found = coverage_mutants.run(
        plan,
        loaded,
        seed=seed,
        targets=more["targets"] or ("agent", "policy", "twin"),
        operators=more["operators"],
    )
    if output == "json":
        emit(coverage_mutants.as_record(found, seed=seed), output, str)
    else:
        shown = coverage_mutants.text if output == "text" else coverage_mutants.markdown
        emit(None, output, lambda: "\n".join(map(plain, shown(found, seed=seed))))
    if not found.cases:
        talk("no case passes as it is, so none can notice anything")
        return ExitCode.UNDECIDED
    if found.score is None:
        talk("no mutant came to an end, so nothing can be said")
        return ExitCode.UNDECIDED
    return ExitCode.FAILED if floor is not None and found.score < floor else ExitCode.GOOD


def _plan(path: Path, agent: str, loaded: Loaded) -> tuple[ReplayPlan, tuple[str, ...]]:
    suite = load_suite(path)
    asked = Asked(
        project=loaded.config.projects[0].name,
        candidate=read_reference(agent, option="--agent", python=sys.executable),
        baseline=recorded(),
        program_version=importlib.metadata.version("agenttwin-sidecar"),
    )
    return suite_plan(suite, asked), tuple(one.id for one in suite.suite.fairness)


def _traffic(
    paths: Sequence[Path], loaded: Loaded, query: TraceQuery
) -> tuple[AgentTrace, ...] | None:
    if not paths:
        return covering.stored_traffic(loaded, query) or None
    classes = {one.name: one.class_ for one in loaded.config.gateway.tools}
    batches = [decoded(file) for path in paths for file in requests_of(path)]
    merged = Batch(
        spans=tuple(span for batch in batches for span in batch.spans),
        logs=tuple(record for batch in batches for record in batch.logs),
        rejected=sum(batch.rejected for batch in batches),
    )
    now_ns = clock.now_ns()
    return tuple(
        detect(judge(trace, tools=classes, now_ns=now_ns), tools=classes)
        for trace in build(merged, project="default", now_ns=now_ns)
    )
