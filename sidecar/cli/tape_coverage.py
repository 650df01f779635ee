"""``sidecar tape coverage``: whether the recorder saw what telemetry saw.

Rules
1. 0 the tape has every call that telemetry shows; 1 it lacks some; 2 no trace of the capture is of
   the tape's run, so nothing can be said.
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from sidecar.cli.options import common, emit, profiled
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain
from sidecar.tape.files import examine
from sidecar.tape.model import Event


@click.command()
@click.argument("tape", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("capture", type=click.Path(exists=True, path_type=Path))
@profiled()
@common()
def coverage(
    tape: Path,
    capture: Path,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Say what the OTLP capture of a run shows that its tape lacks.

    CAPTURE is read as `sidecar trace normalise` does. The recorder has no seam for a call that only
    telemetry saw, and no replay answers it. Exits 1 where there is one, 2 where no trace of the
    capture is of this run.

    \b
    Example:
      $ sidecar tape coverage run.tape ./capture
      run.tape: 1 of 3 tool calls not recorded
        tool_call  send_mail   telemetry 1, tape 0
    """
    # Imported here: the other commands do without the server's extra.
    from sidecar.cli.tape_import import traced
    from sidecar.replay.coverage import coverage as compared

    events: list[Event] = []
    found = examine(tape, events.append)
    seen = compared(found.header, events, found.seal, traced(capture))
    if not seen.traces:
        outcome, word = Outcome.UNDECIDED, "undecided"
    else:
        outcome = Outcome.FAILED if seen.missing else Outcome.OK
        word = "incomplete" if seen.missing else "complete"
    value = {
        "tape": str(tape),
        **exits.told(outcome, word),
        **msgspec.to_builtins(seen),
        "missing": seen.missing,
    }
    emit(value, output, lambda: _text(value))
    return exits.code(outcome)


def _text(value: dict[str, Any]) -> str:
    name = value["tape"]
    if not value["traces"]:
        return f"{name}: no trace of the capture is of this run ({value['others']} of others)"
    asked = sum(one["telemetry"] for one in value["calls"])
    missing = value["missing"]
    lines = [f"{name}: {missing} of {asked} calls that telemetry shows are not on the tape"]
    if not missing:
        lines = [f"{name}: all {asked} calls that telemetry shows are on the tape"]
    for one in value["calls"]:
        mark = "!" if one["telemetry"] > one["tape"] else " "
        called = plain(one["name"]) or "(models)"
        lines.append(
            f"  {mark} {one['kind']:12} {called}  telemetry {one['telemetry']}, tape {one['tape']}"
        )
    seams = ", ".join(f"{seam} {count}" for seam, count in value["seams"].items())
    lines.append(f"  events by seam: {seams}")
    lines += [f"  the recorder lost: {count} {what}" for what, count in value["lost"].items()]
    return "\n".join(lines)
