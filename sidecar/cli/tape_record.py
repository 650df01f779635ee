"""``sidecar tape record``: run an agent and record it.

Rules
1. The agent runs as it would, without a change; what it prints, its end and its signals are its
   own.
2. 0 recorded and the agent returned 0; 1 the agent failed (recorded all the same); 3 a signal ended
   it, or nothing could be recorded.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sidecar.capture.order import Order
from sidecar.capture.process import build_of, git_of
from sidecar.capture.record import CAPTURES, Capture
from sidecar.cli.moments import Duration
from sidecar.cli.options import common, emit, packaged, profiled, talk
from sidecar.cli.tape_run import Ended, argv_of, run, running
from sidecar.errors import SidecarError
from sidecar.outcome import Exits, Outcome
from sidecar.tape.files import Packaging

_NO_CONTENT = (
    "only digests are kept (--capture off): the tape is L1, and cannot be replayed. "
    "Record with --capture redacted or full."
)


@click.command()
@running
@click.option(
    "-o",
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The new tape; it must not be there.",
)
@click.option(
    "--capture",
    type=click.Choice(CAPTURES),
    default="off",
    show_default=True,
    help="Content: digests only (no replay), with data masked, or whole.",
)
@packaged
@click.option(
    "--durable", is_flag=True, help="Each event reaches the disk before the agent goes on."
)
@click.option("--name", "agent", default="agent", show_default=True, help="Whose events they are.")
@click.option(
    "--expires",
    "lasts_ns",
    type=Duration(),
    default=None,
    metavar="DURATION",
    help="After so long (90d) the tape is to be recorded anew.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Kept in the header.")
@profiled()
@common()
def record(
    command: Sequence[str],
    roots: Sequence[Path],
    to: Path,
    capture: Capture,
    packaging: Packaging,
    durable: bool,
    agent: str,
    lasts_ns: int | None,
    labels: Sequence[str],
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Run an agent and record what it asks models, tools, the network, the clock, dice and people.

    The agent needs no change: any command that starts Python will do. Exits 1 when the agent
    failed, 3 when a signal ended it.

    \b
    Example:
      $ sidecar tape record -o run.tape --capture redacted -- python agent.py "refund 12"
      run.tape: 41 events, L3
    """
    if to.exists():
        raise SidecarError(
            "there is a file already", where=str(to), do="Name one that is not there."
        )
    folder = roots[0] if roots else Path.cwd()
    order = Order(
        mode="record",
        tape=str(to.resolve()),
        report="",
        capture=capture,
        packaging=packaging,
        durable=durable,
        lasts_ns=lasts_ns,
        roots=tuple(str(root.resolve()) for root in roots),
        agent=agent,
        labels=_labels(labels),
        git=git_of(folder),
        build=build_of(folder),
        argv=argv_of(command),
    )
    ended = run(command, order, quiet=output != "text")
    value = _told(to, capture, ended, exits)
    for line in _lines(value, ended, capture):
        talk(line)
    if output != "text":
        emit(value, output, str)
    return int(value["exit_code"])


def _told(to: Path, capture: str, ended: Ended, exits: Exits) -> dict[str, Any]:
    told = ended.told or {}
    recorded = bool(told.get("sealed"))
    if ended.signal is not None or not recorded:
        outcome = Outcome.INTERNAL
    else:
        outcome = Outcome.TARGET_CRASH if ended.code else Outcome.OK
    return {
        **exits.told(outcome),
        "tape": str(to),
        "sealed": recorded,
        "events": told.get("events"),
        "fidelity": ("L1" if capture == "off" else "L3") if recorded else None,
        "target_exit": ended.code,
        "target_signal": ended.signal,
        "fault": told.get("fault"),
        "broken": told.get("broken", {}),
        **{key: told.get(key, 0) for key in ("dropped", "truncated", "leaks", "unseen")},
    }


def _lines(value: dict[str, Any], ended: Ended, capture: str) -> list[str]:
    lines: list[str] = []
    if value["fault"]:
        lines.append(f"error: {value['fault']}")
    elif ended.signal is not None and not value["sealed"]:
        lines.append(f"{value['tape']}: partial, {ended.signal} ended the agent")
    elif ended.told is None:
        lines.append(
            "error: nothing was recorded: no Python process ran a file of the agent's own. "
            "Name their folder with --root; python -E and -I cannot be seen."
            if not Path(value["tape"]).exists()
            else f"{value['tape']}: partial, the agent ended without its exit handlers"
        )
    else:
        lines.append(f"{value['tape']}: {value['events']} events, {value['fidelity']}")
        if ended.signal is not None:
            lines.append(f"{ended.signal} ended the agent")
    if ended.code and not value["fault"]:
        lines.append(f"the agent exited with {ended.code}")
    lines += [
        f"warning: the seam {name} is not in place ({why})" for name, why in value["broken"].items()
    ]
    if value["dropped"] or value["truncated"]:
        lost = f"{value['dropped']} events and {value['truncated']} payloads"
        lines.append(f"warning: {lost} have no form on a tape: a strict replay refuses it")
    if value["leaks"]:
        lines.append(
            f"warning: {value['leaks']} redacted values stand in it all the same: it does "
            "not hold, and no replay takes it. Do not share it; see sidecar tape verify"
        )
    if value["unseen"]:
        lines.append(
            f"warning: programs were started that are not on the tape ({value['unseen']} by Popen, "
            "asyncio or as workers): a strict replay stops there. subprocess.run is recorded"
        )
    if value["sealed"] and capture == "off":
        lines.append(_NO_CONTENT)
    return lines


def _labels(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise SidecarError("a label is KEY=VALUE", where="--label")
        found[key] = value
    return found
