"""``sidecar twin fidelity``: how true twins are to recorded production behaviour.

Rules
1. The twin is given the calls and the world alone; what was recorded is compared afterwards.
2. Exit 0; where something warns (a verdict changes, behaviour is further off than production is
   from itself) 0 too, or ``--warn-exit``; 2 where nothing could be compared; 3 for usage.
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from sidecar.analyse.fidelity.behaviour import PERMUTATIONS
from sidecar.analyse.fidelity.report import STALE_DAYS, Report, report
from sidecar.analyse.fidelity.shown import as_markdown, as_text
from sidecar.cli.given_runs import format_option, given_runs
from sidecar.cli.options import common, in_world, profiled, say, to_json
from sidecar.cli.replay_tapes import given_twins, progress
from sidecar.outcome import Exits, Outcome
from sidecar.replay.onto_twin import OntoTwin


@click.command("fidelity")
@click.argument("twin", type=click.Path(path_type=Path), metavar="TWIN")
@click.argument(
    "tapes", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="TAPES..."
)
@click.option(
    "--twin",
    "more",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Another twin beside TWIN; may be repeated.",
)
@in_world()
@click.option(
    "--ran",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Runs of the agent on the twins, to compare what it does; may be repeated.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Names the random splits.")
@click.option(
    "--permutations",
    type=click.IntRange(19, 100_000),
    default=PERMUTATIONS,
    show_default=True,
    help="How many random splits of runs.",
)
@click.option(
    "--stale-after",
    type=click.IntRange(0),
    default=STALE_DAYS,
    show_default=True,
    help="Days after which a twin is stale against the newest recording.",
)
@click.option(
    "--observed",
    is_flag=True,
    help="Begin each run with what its own first reads show and the twin does not know.",
)
@format_option
@profiled(warn=True)
@common(outputs=("text", "json", "markdown"))
def fidelity_(
    twin: Path,
    tapes: tuple[Path, ...],
    more: tuple[Path, ...],
    state: Path | None,
    ran: tuple[Path, ...],
    seed: int,
    permutations: int,
    stale_after: int,
    observed: bool,
    form: str,
    capture: str,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Report how true a twin is to recorded runs: results, effects, errors, time, behaviour.

    TWIN is a twin.yaml, a folder with one, or a shipped twin (airline). TAPES are tapes or folders
    of them, OTLP captures, tau-bench results: their calls are made again on the twin. Content must
    have been captured in full: a redacted argument is another argument.

    \b
    Example:
      $ sidecar twin fidelity airline tapes/ --state world/
      100 runs, 577 calls: 516 of 577 results equal, 0 gaps, 0 not compared
      verified outcome as recorded: 98 of 98
      ticket: get_user_details: 61 of 61 results differ, and no verdict changes
      …
    """
    group = given_twins([twin, *more], state)
    runs = given_runs(tapes, form, capture)
    others = given_runs(ran, form, capture) if ran else []
    onto = OntoTwin(group, observed=observed)
    found = report(
        [onto.replay(one) for one in progress(runs)],
        group,
        ran=others,
        seed=seed,
        permutations=permutations,
        stale_days=stale_after,
    )
    end = _outcome(found)
    if output == "json":
        told: dict[str, Any] = msgspec.to_builtins(found)
        say(to_json({**exits.told(end), **told}))
    else:
        say(as_markdown(found) if output == "markdown" else as_text(found))
    return exits.code(end)


def _outcome(found: Report) -> Outcome:
    if found.undecided:
        return Outcome.UNDECIDED
    return Outcome.WARNED if found.warns else Outcome.OK
