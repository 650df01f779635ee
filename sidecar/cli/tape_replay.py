"""``sidecar tape replay``: run an agent against its tape.

Rules
1. Strict: everything from the tape, no model, no network, no real tool; the first difference ends
   it and is told. The other modes are declared by an option (docs/specs/replay-tape.md).
2. 0 as recorded, or the changed run was shown; 1 the agent crashed; 2 it left the tape, or the
   tape cannot be replayed; 3 a signal or a deadline ended it, or it could not be run.
3. A new tape is there whole or partial, as far as the run went; without ``--to`` it is compared
   and thrown away.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click
from msgspec.structs import replace

from sidecar import clock
from sidecar.capture.order import Order, drift_told
from sidecar.capture.plan import MODES, Plan
from sidecar.capture.play import Drift
from sidecar.capture.process import git_of
from sidecar.cli.numbers import FiniteRange
from sidecar.cli.options import common, in_world, profiled, say, talk
from sidecar.cli.tape_effect import effect
from sidecar.cli.tape_expiry import check_expiry, expiring
from sidecar.cli.tape_plan import check_fits, read_plan
from sidecar.cli.tape_replay_view import compared, diffed, lines_of, shown
from sidecar.cli.tape_run import Ended, argv_of, is_callee, run, running
from sidecar.errors import SidecarError
from sidecar.gate.report.exhibit import tapes_of
from sidecar.gate.report.render import form_of, render
from sidecar.gate.report.replayed import replayed_report
from sidecar.outcome import Exits
from sidecar.replay.rerun.ended import Process, concluded
from sidecar.tape.files import read_tape
from sidecar.tape.model import Seam
from sidecar.tape.tape import Tape

_MODE_HELP = (
    "Live is: nothing (strict), models (tools; shadow, where no tool is), all from --fork on, or "
    "--live alone behind the first change of --patch. twin makes the tape's calls on --twin, "
    "without an agent.  [default: strict, or what --fork and --patch ask for]"
)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("tape", type=_FILE)
@running
@click.option("--mode", type=click.Choice((*MODES, "twin")), default=None, help=_MODE_HELP)
@click.option(
    "--twin",
    "twins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Twin that the tape's calls are made on (mode twin); may be repeated.",
)
@in_world()
@click.option(
    "--fork",
    type=click.IntRange(0),
    default=None,
    help="From the tape before this seq, live from it on (mode fork).",
)
@click.option(
    "--patch", type=_FILE, default=None, help="YAML or JSON: what is changed (mode counterfactual)."
)
@click.option(
    "--live",
    type=click.Choice(get_args(Seam)),
    multiple=True,
    help="One seam more that may go live.",
)
@click.option(
    "--repeat-last",
    multiple=True,
    metavar="TOOL",
    help="A call beyond the tape gets this tool's last answer there.",
)
@click.option(
    "-o", "--to", type=_FILE, default=None, help="Keep the new tape; it must not be there."
)
@click.option(
    "--timeout",
    type=FiniteRange(0, min_open=True),
    default=None,
    help="End the agent after so many seconds.",
)
@click.option(
    "--controls",
    type=click.IntRange(0, 1000),
    default=5,
    show_default=True,
    help="Runs on either side to measure a change with, where --patch and --live go together.",
)
@click.option("--assertions", type=_FILE, default=None, help="What a good run is, to measure by.")
@expiring
@profiled(bisect=True)
@common(outputs=("text", "json", "markdown", "junit", "sarif", "github", "html"))
def replay(
    tape: Path,
    command: Sequence[str],
    roots: Sequence[Path],
    to: Path | None,
    timeout: float | None,
    controls: int,
    assertions: Path | None,
    twins: tuple[Path, ...],
    state: Path | None,
    fresh: bool,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
    **asked: Any,
) -> int:
    """Run an agent against its tape: no model, no network, no real tool, no waiting.

    Exits 2 where the agent asks anything else than was recorded, and says where. With --patch it
    shows what another policy, prompt, model, result or fault would have led to, and exits 0.

    \b
    Example:
      $ sidecar tape replay run.tape -- python agent.py "refund 12"
      run.tape: as recorded, 41 events
    """
    if asked["mode"] == "twin":
        from sidecar.cli.tape_twin import onto_twins, refuse_an_agent

        refuse_an_agent(command, asked)
        recorded = read_tape(tape)
        check_expiry(recorded, tape, clock.now_ns(), fresh=fresh)
        return onto_twins(tape, recorded, twins, state, output, exits)
    if twins or state is not None:
        raise click.UsageError("--twin and --state are of --mode twin")
    plan = read_plan(**asked)
    if exits.bisect:
        if plan.mode != "strict":
            raise click.UsageError("--bisect is of the mode strict")
        plan = replace(plan, moved=True)
    if to is not None and to.exists():
        raise SidecarError("there is a file already", where=str(to), do="Name another.")
    if plan.mode in ("tools", "shadow") and is_callee(command) and not command[-2]:
        raise click.UsageError(f"the mode {plan.mode} asks the real model: give it with --llm")
    recorded = read_tape(tape)  # no tape: told before anything runs
    check_expiry(recorded, tape, clock.now_ns(), fresh=fresh)
    check_fits(plan, recorded, tape)
    with tempfile.TemporaryDirectory(prefix="sidecar-") as folder:
        place = to or (None if plan.mode == "strict" else Path(folder) / "replayed.tape")
        order = Order(
            mode="replay",
            tape=str(tape.resolve()),
            report="",
            plan=plan,
            to=None if place is None else str(place.resolve()),
            roots=tuple(str(root.resolve()) for root in roots),
            git=git_of(roots[0] if roots else Path.cwd()) if place is not None else None,
            argv=argv_of(command),
        )

        def again(asked_for: Order, *, quiet: bool = True) -> Ended:
            return run(command, asked_for, quiet=quiet, seconds=timeout)

        ended = again(order, quiet=output != "text")
        value = _told(tape, recorded, plan, ended, exits)
        value["to"] = None if to is None else str(to)
        new = found = None
        if place is not None and place.exists():
            new = read_tape(place)
            found = diffed(recorded, new)
            live = (value.get("done") or {}).get("live", {})
            value |= compared(tape, recorded, new, found, to, live)
        if plan.mode == "counterfactual" and plan.live and value["outcome"] == "shown" and controls:
            value["effect"] = effect(order, again, place, runs=controls, assertions=assertions)
    for line in lines_of(value, ended.fault, begun=ended.begun):
        talk(line)
    if output == "text":
        for line in shown(value):
            click.echo(line)
    else:
        report = replayed_report(value, recorded, new=new, found=found)
        tapes = [recorded] if new is None else [recorded, new]
        say(render(report, form_of(output), own=value, shown=tapes_of(tapes, found)))
    return int(value["exit_code"])


def _told(tape: Path, recorded: Tape, plan: Plan, ended: Ended, exits: Exits) -> dict[str, Any]:
    process = Process(code=ended.code, signal=ended.signal, late=ended.late)
    outcome, word = concluded(ended.told, process, plan.mode)
    told = ended.told or {}
    if word == "diverged" and told.get("drift") is None:
        last = recorded.events[-1]
        why = "the agent returned 0, as it did not when it was recorded"
        drift = Drift(kind="ERROR_KIND", seq=last.seq, reason=why, expected=last)
        told["drift"] = drift_told(drift)
    told.pop("exit_due", None)
    return {
        **told,
        **exits.told(outcome, word),
        "mode": plan.mode,
        "tape": str(tape),
        "taint": list(plan.taint),
        "recorded_events": len(recorded.events),
        "target_exit": ended.code,
        "target_signal": ended.signal,
    }
