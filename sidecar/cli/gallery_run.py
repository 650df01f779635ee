"""A pair of the gallery judged: what goes wrong, what goes well, and what a change leads to."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from sidecar.capture.order import Order
from sidecar.capture.plan import Plan
from sidecar.cli.tape_assert import Told, judged
from sidecar.cli.tape_plan import read_plan
from sidecar.cli.tape_run import Ended, argv_of, callee_command, run
from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.files import read_assertions
from sidecar.gallery.files import agent_file, tape_files
from sidecar.gallery.pairs import Pair
from sidecar.outcome import Exits, Outcome
from sidecar.replay.diff import Diff, compare
from sidecar.replay.rerun.ended import Process, concluded
from sidecar.tape.files import read_tape, tape_codecs
from sidecar.tape.tape import Tape

BEFORE: Final = "before"
AFTER: Final = "after"
CHANGED: Final = "counterfactual"
# What each side comes to where all is as it should be.
EXPECTED: Final = {BEFORE: Outcome.FAILED, AFTER: Outcome.OK, CHANGED: Outcome.OK}


class Side(Struct, frozen=True, kw_only=True):
    """One run of a pair, judged; ``diff`` is of it and the run that goes wrong."""

    name: str
    told: Told
    tape: Tape
    diff: Diff | None = None


class Shown(Struct, frozen=True, kw_only=True):
    """A pair with its sides in order."""

    pair: Pair
    sides: tuple[Side, ...]

    @property
    def as_described(self) -> bool:
        """Whether every side comes to what the gallery says."""
        return all(one.told.end is EXPECTED[one.name] for one in self.sides)


def sides_of(pair: Pair) -> tuple[str, ...]:
    """The names of a pair's sides."""
    return (BEFORE, AFTER, *([CHANGED] if pair.changed else []))


def shown(pair: Pair, exits: Exits, now_ns: int) -> Shown:
    """Judge every side of a pair."""
    with _folder(pair) as folder:
        named = read_assertions(folder / "assertions.yaml")
        before = read_tape(folder / f"{BEFORE}.tape")
        codecs = tape_codecs(before)
        found = []
        for side in sides_of(pair):
            place = folder / f"{side}.tape"
            if side == CHANGED:
                place = _changed(pair, folder)
            told = judged(place, named, now_ns, strict=True, exits=exits)
            told = msgspec.structs.replace(told, value={**told.value, "tape": side})
            tape = read_tape(place)
            diff = None if side == BEFORE else compare(before, tape, codecs)
            found.append(Side(name=side, told=told, tape=tape, diff=diff))
        return Shown(pair=pair, sides=tuple(found))


def side_told(side: Side) -> dict[str, Any]:
    """A side in JSON (docs/specs/replay-tape.md)."""
    first = side.diff.first_divergence if side.diff is not None else None
    return {
        "side": side.name,
        "outcome": side.told.value["outcome"],
        "exit_code": side.told.value["exit_code"],
        "events": len(side.tape.events),
        "exact_digest": side.tape.examination.computed.exact_digest,
        "first_offence": _first_offence(side.told),
        "first_divergence": None if first is None else {"seq_l": first.seq_l, "seq_r": first.seq_r},
        "assertions": side.told.value["assertions"],
    }


def _first_offence(told: Told) -> int | None:
    seqs = [one["seq"] for one in told.value["assertions"] if one["status"] == "fail"]
    return min((seq for seq in seqs if seq is not None), default=None)


def _changed(pair: Pair, folder: Path) -> Path:
    """The new tape of the run that goes wrong with the pair's change declared."""
    plan = read_plan(mode=None, fork=None, patch=folder / "patch.json", live=(), repeat_last=())
    agent_file(pair, folder)
    to = folder / f"{CHANGED}.tape"
    command = callee_command(f"{pair.name}:{BEFORE}")
    ended = run(command, _order(folder, to, plan, command), quiet=True, folder=folder)
    _check(ended, plan)
    return to


def _order(folder: Path, to: Path, plan: Plan, command: list[str]) -> Order:
    return Order(
        mode="replay",
        tape=str(folder / f"{BEFORE}.tape"),
        report="",
        plan=plan,
        to=str(to),
        argv=argv_of(command),
    )


def _check(ended: Ended, plan: Plan) -> None:
    process = Process(code=ended.code, signal=ended.signal, late=ended.late)
    outcome, _ = concluded(ended.told, process, plan.mode)
    if outcome is not Outcome.OK:
        drift = (ended.told or {}).get("drift") or {}
        raise SidecarError(
            "the gallery's agent could not be replayed here",
            where=str(drift.get("reason", ended.fault or "")),
            do="Where codecs changed: python -m sidecar.gallery.make",
        )


@contextmanager
def _folder(pair: Pair) -> Iterator[Path]:
    """A pair's files in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="sidecar-gallery-") as made:
        tape_files(pair, Path(made))
        yield Path(made)
