"""Recordings as agents (``tape:PATH``): which tape is of which scenario, and what it can show.

Rules
1. A folder has a tape for each scenario: named by the label ``scenario``, else by its file's name.
   A single tape is of the scenario it names so, else of the only one.
2. A tape with calls and results (L2) is played: its calls are made anew on the twins. One with less
   is judged as it stands, and what it cannot show is skipped.
3. A recording cannot be run twice: a suite with a recorded candidate is judged as sampled.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from sidecar.errors import ExitCode, SidecarError
from sidecar.replay.captured import judged
from sidecar.replay.driver import ReplayPlan
from sidecar.replay.planning import CapturedPlan
from sidecar.replay.record import EpisodeRecord, Side
from sidecar.replay.recorded.trace import recorded_trace, refuse_unproven
from sidecar.replay.reference import AgentRef
from sidecar.tape.files import read_tape
from sidecar.tape.tape import Tape

_PLAYED = ("L2", "L3")


def with_tapes(made: CapturedPlan) -> CapturedPlan:
    """The plan with the tapes of its references found. Raises SidecarError."""
    plan, notes = made.plan, list(made.notes)
    for side in ("baseline", "candidate"):
        plan = _with(plan, side, notes)
    if plan.candidate.kind == "tape" and plan.deterministic:
        plan = replace(plan, deterministic=False)
        notes.append("a recording cannot be run twice: the suite is judged as sampled")
    return replace(made, plan=plan, notes=tuple(notes))


def _with(plan: ReplayPlan, side: Side, notes: list[str]) -> ReplayPlan:
    agent = plan.baseline if side == "baseline" else plan.candidate
    if agent.kind != "tape":
        return plan
    tapes: dict[str, str] = {}
    records: list[EpisodeRecord] = []
    for case, path, tape in _found(plan, agent):
        one = next(each for each in plan.cases if each.id == case)
        if tape.header.fidelity in _PLAYED:
            tapes[case] = str(path)
            continue
        records.append(judged(recorded_trace(tape, path.stem), one, plan.group, side))
        notes.append(
            f"{path.name} is {tape.header.fidelity}: it is judged as it stands, and what it does"
            " not hold is skipped"
        )
    lacking = [one.id for one in plan.cases if one.id not in tapes]
    lacking = [name for name in lacking if name not in {one.case for one in records}]
    if lacking:
        notes.append(f"{agent.text} has no tape of {', '.join(lacking)}: that decides nothing")
    known = replace(agent, tapes=tapes)
    more = {"baseline": known} if side == "baseline" else {"candidate": known}
    return replace(plan, recorded=(*plan.recorded, *records), **more)


def _found(plan: ReplayPlan, agent: AgentRef) -> Iterator[tuple[str, Path, Tape]]:
    """The scenario of each tape. Raises SidecarError where none is of any, or two of one."""
    paths = _files(agent)
    cases = [one.id for one in plan.cases]
    seen: dict[str, Path] = {}
    for path in paths:
        tape = read_tape(path)
        refuse_unproven(tape, str(path))
        case = _case(path, tape, cases, alone=len(paths) == 1)
        if case is None:
            continue
        if case in seen:
            raise SidecarError(
                f"{path.name} and {seen[case].name} are both of the scenario {case!r}",
                where=agent.text,
                do="Keep one.",
            )
        seen[case] = path
        yield case, path, tape
    if not seen:
        raise SidecarError(
            "no tape is of a scenario of the suite",
            where=agent.text,
            do="Name it <scenario>.tape, or record it with the label scenario.",
            code=ExitCode.UNDECIDED,
        )


def _case(path: Path, tape: Tape, cases: Sequence[str], *, alone: bool) -> str | None:
    named = (tape.header.labels.get("scenario"), path.stem, f"trace-{path.stem}")
    found = next((name for name in named if name in cases), None)
    return cases[0] if found is None and alone and len(cases) == 1 else found


def _files(agent: AgentRef) -> list[Path]:
    path = Path(agent.rest)
    if not path.is_dir():
        if not path.is_file():
            raise SidecarError("there is no such tape", where=agent.text, do="Check the path.")
        return [path.absolute()]
    inside, found = path.resolve(), sorted(path.glob("*.tape"))
    for one in found:
        if not one.resolve().is_relative_to(inside):
            raise SidecarError("the link leads out of the folder", where=str(one))
    return [one.absolute() for one in found]
