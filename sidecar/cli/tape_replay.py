"""``sidecar tape replay``: run an agent against its tape.

Rules
1. Strict: everything from the tape, no model, no network, no real tool; the first difference ends
   it and is told.
2. 0 as recorded; 1 the agent crashed; 2 it left the tape, or the tape cannot be replayed; 3 a
   signal ended it, or it could not be run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from sidecar.capture.order import Order
from sidecar.cli.options import common, emit, profiled, talk
from sidecar.cli.tape_run import Ended, run, running
from sidecar.outcome import Exits, Outcome
from sidecar.tape.files import examine

_ENDS: Final = {
    "ok": Outcome.OK,
    "diverged": Outcome.DIVERGED,
    "miss": Outcome.DIVERGED,
    "incomparable": Outcome.UNDECIDED,
}


@click.command()
@click.argument("tape", type=click.Path(dir_okay=False, path_type=Path))
@running
@profiled(bisect=True)
@common()
def replay(
    tape: Path,
    command: Sequence[str],
    roots: Sequence[Path],
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Run an agent against its tape: no model, no network, no real tool, no waiting.

    Exits 2 where the agent asks anything else than was recorded, and says where.

    \b
    Example:
      $ sidecar tape replay run.tape -- python agent.py "refund 12"
      run.tape: as recorded, 41 events
    """
    examine(tape)  # no tape: told before anything runs
    order = Order(
        mode="strict",
        tape=str(tape.resolve()),
        report="",
        roots=tuple(str(root.resolve()) for root in roots),
    )
    ended = run(command, order, quiet=output != "text")
    value = _told(tape, ended, exits)
    talk(_line(value, ended))
    if output != "text":
        emit(value, output, str)
    return int(value["exit_code"])


def _told(tape: Path, ended: Ended, exits: Exits) -> dict[str, Any]:
    told = ended.told or {}
    word = told.get("outcome")
    outcome = _ENDS.get(str(word), Outcome.INTERNAL)
    if ended.fault is not None or ended.signal is not None:
        outcome, word = Outcome.INTERNAL, None
    elif ended.told is None and ended.code:
        outcome = Outcome.TARGET_CRASH
    return {
        **told,
        **exits.told(outcome, word),
        "mode": "strict",
        "tape": str(tape),
        "target_exit": ended.code,
        "target_signal": ended.signal,
    }


def _line(value: dict[str, Any], ended: Ended) -> str:
    if ended.fault is not None:
        return f"error: {ended.fault}"
    drift = value.get("drift")
    if drift is not None:
        where = f"seq {drift['seq']}"
        what = f" ({drift['event_kind']} {drift['name']})" if drift["event_kind"] else ""
        return f"{value['tape']}: {drift['kind']} at {where}{what}: {drift['reason']}"
    if ended.signal is not None:
        return f"error: {ended.signal} ended the agent"
    if value["outcome"] == "ok":
        return f"{value['tape']}: as recorded, {value['events']} events"
    if ended.code:
        return f"{value['tape']}: the agent exited with {ended.code} and did not say how it went"
    return (
        "error: nothing was replayed: no Python process ran a file of the agent's own. "
        "Name their folder with --root."
    )
