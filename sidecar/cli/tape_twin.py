"""``sidecar tape replay --mode twin``: one tape's calls on twins, and where its results part.

Rules
1. The twin is given the calls and the world alone; what was recorded is compared afterwards.
2. 0 as recorded; 2 where a result is another (drift ``RESULT``), a call ends otherwise
   (``ERROR_KIND``), or nothing may be concluded: the tape proves nothing, or has too little, or the
   twin has a gap.
3. There is no agent: one that is run with its model from the tape is no part of this mode.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from sidecar.cli.options import say, to_json
from sidecar.cli.replay_tapes import given_twins
from sidecar.errors import ExitCode, SidecarError
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain
from sidecar.replay.fidelity import matched
from sidecar.replay.onto_twin import Answered, OntoTwin, RunOnTwin
from sidecar.replay.recorded.trace import refuse_unproven
from sidecar.replay.taped import taped_run
from sidecar.tape.tape import Tape

_LEVELS = ("L2", "L3")


def onto_twins(
    path: Path, tape: Tape, twins: Sequence[Path], state: Path | None, output: str, exits: Exits
) -> int:
    """Make a tape's calls on twins and tell what parts; the exit code."""
    if output not in ("text", "json"):
        raise SidecarError("a tape on twins is told as text or json", where="--output")
    refuse_unproven(tape, str(path))
    if tape.header.fidelity not in _LEVELS:
        raise SidecarError(
            f"its fidelity is {tape.header.fidelity}: it lacks what was asked or answered",
            where=str(path),
            do="Record it with its content (L2).",
            code=ExitCode.UNDECIDED,
        )
    done = OntoTwin(given_twins(twins, state)).replay(taped_run(path.stem, tape))
    drift = list(_drift(done))
    end = Outcome.UNDECIDED if done.void else Outcome.DIVERGED if drift else Outcome.OK
    value = {
        **exits.told(end),
        "mode": "twin",
        "tape": str(path),
        "calls": len(done.answers),
        "drift": drift,
        "void": done.void,
        "verified": done.verified,
        "recorded": done.run.verified,
    }
    say(to_json(value) if output == "json" else "\n".join(map(plain, _lines(path, value))))
    return exits.code(end)


def refuse_an_agent(command: Sequence[str], asked: dict[str, Any]) -> None:
    """Raises UsageError for what is no part of the mode."""
    if command:
        raise click.UsageError(
            "the mode twin has no agent: run one with sidecar replay FOLDER --twin TWIN --candidate"
        )
    for name in ("fork", "patch", "live", "repeat_last"):
        if asked[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} is of another mode than twin")


def _drift(done: RunOnTwin) -> Iterator[dict[str, Any]]:
    for one in done.answers:
        found = _parted(one)
        if found is not None:
            yield {"seq": one.call.seq, "name": one.call.tool, **found}


def _parted(one: Answered) -> dict[str, Any] | None:
    if one.gap or one.call.ended in ("unknown", "kept_out"):
        return None
    refused = one.status is None or one.status >= 400
    if refused != (one.call.ended == "refused"):
        word = "refused" if one.call.ended == "refused" else "ok"
        return {"kind": "ERROR_KIND", "recorded": word, "status": one.status, "places": []}
    if one.recorded is None:
        return None
    match, pairs = matched(one.recorded, one.value)
    if match == "exact":
        return None
    named = sorted({place for pair in pairs for place in pair if place is not None})
    return {"kind": "RESULT", "recorded": "ok", "status": one.status, "places": named}


def _lines(path: Path, value: dict[str, Any]) -> Iterator[str]:
    drift = value["drift"]
    said = f"{len(drift)} parted from the recording" if drift else "as recorded"
    yield f"{path}: {value['calls']} calls on the twin, {said}"
    if value["void"]:
        yield f"  void: {value['void']}"
    for one in drift:
        where = ", ".join(place or "/" for place in one["places"][:3])
        ended = f"recorded {one['recorded']}, now {one['status']}"
        yield f"  {one['kind']} at {one['seq']}, {one['name']}: {where or ended}"
    yield f"  verified: {value['verified']}, recorded {value['recorded']}"
