"""``sidecar replay FOLDER --twin``: recorded runs onto twins, their outcome, and what drifted.

Rules
1. The twin is given the calls and the world alone; what was recorded is compared afterwards.
2. Without a candidate there is nothing to gate: what is told is how the runs end on the twin. Exit
   0, or 2 where a run is void or no run could be judged.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sidecar import clock
from sidecar.app.planning import shipped
from sidecar.cli.options import on_terminal, say, talk, to_json
from sidecar.errors import ExitCode, SidecarError
from sidecar.gate.statistics.reliability import bounded_pass_hat, mean_pass_hat
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain
from sidecar.replay.fidelity import Fidelity, ToolFidelity, fidelity
from sidecar.replay.onto_twin import OntoTwin, RunOnTwin, taped_run
from sidecar.tape.files import read_tape
from sidecar.twins.files import load_twins
from sidecar.twins.group import TwinGroup
from sidecar.twins.state.files import with_state

T = TypeVar("T")


def replay_tapes(
    folder: Path, twins: Sequence[Path], state: Path | None, *, output: str, exits: Exits
) -> int:
    """Replay a folder of tapes onto twins and tell what came of it; the exit code."""
    if output not in ("text", "json"):
        raise SidecarError("tapes onto twins are told as text or json", where="--output")
    if not twins:
        raise SidecarError(
            "a folder of tapes needs a twin of the tools that were used",
            where="--twin",
            do="Name a twin.yaml, or a shipped twin: airline.",
        )
    group = given_twins(twins, state)
    for why in group.stale(clock.now_ns()):
        talk(f"stale: {why}")
    onto = OntoTwin(group)
    done = [onto.replay(taped_run(path.stem, read_tape(path))) for path in progress(_tapes(folder))]
    told = _told(done, group)
    undecided = told["void"] or not told["judged"]
    end = Outcome.UNDECIDED if undecided else Outcome.OK
    say(to_json({**told, **exits.told(end)}) if output == "json" else _text(told))
    return exits.code(end)


def given_twins(twins: Sequence[Path], state: Path | None) -> TwinGroup:
    """Twins by file, folder or shipped name, with their world. Raises SidecarError."""
    files = [path / "twin.yaml" if path.is_dir() else path for path in map(shipped, twins)]
    group = load_twins(files).group
    return group if state is None else with_state(group, state)


def _tapes(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.tape"))
    if not found:
        raise SidecarError(
            "there are no tapes in the folder",
            where=str(folder),
            do="Make some: sidecar tape import or sidecar tape record.",
            code=ExitCode.UNDECIDED,
        )
    return found


def progress(paths: Sequence[T]) -> Iterator[T]:
    """The same, one by one, with a bar for who watches."""
    if not on_terminal():
        yield from paths
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(paths, "runs", console=Console(stderr=True), transient=True)


def _told(done: Sequence[RunOnTwin], group: TwinGroup) -> dict[str, Any]:
    for one in done:
        if one.void is not None:
            talk(f"{one.run.name}: {one.void}")
    tasks: dict[str, list[bool]] = defaultdict(list)
    made: Counter[str] = Counter()
    for one in done:
        if one.run.actions is None:
            continue
        made[one.run.task] += 1
        if one.void is None:
            tasks[one.run.task].append(one.verified == "verified_success")
    least = min(map(len, tasks.values()), default=0)
    counts = [(sum(runs), len(runs)) for runs in tasks.values()]
    known = {task: tasks.get(task, []) for task in made}
    bounded = [(sum(known[task]), len(known[task]), runs) for task, runs in made.items()]
    unjudged = sum(made.values()) - sum(map(len, tasks.values()))
    return {
        "runs": len(done),
        "tasks": len(made),
        "judged": sum(map(len, tasks.values())),
        "void": sum(one.void is not None for one in done),
        "calls": sum(len(one.answers) for one in done),
        "pass_hat": {str(k): mean_pass_hat(counts, k) for k in range(1, least + 1)},
        "unjudged": unjudged,
        "pass_hat_bounds": {
            str(k): bounded_pass_hat(bounded, k)
            for k in range(1, min(made.values(), default=0) + 1)
            if unjudged
        },
        "twins": group.digests(),
        "twin_code": group.code(),
        "twin_state": group.state_of(clock.now_ns()),
        "fidelity": msgspec.to_builtins(fidelity(done)),
        "cases": [_case(one) for one in done],
    }


def _case(one: RunOnTwin) -> dict[str, Any]:
    return {
        "run": one.run.name,
        "task": one.run.task,
        "verified": one.verified,
        "recorded": one.run.verified,
        "void": one.void,
        "scores": [
            {"expectation": score.type, "status": score.status, "detail": score.detail}
            for score in one.scores
        ],
    }


def _text(told: dict[str, Any]) -> str:
    seen = msgspec.convert(told["fidelity"], Fidelity)
    lines = [f"{told['runs']} runs of {told['tasks']} tasks, {told['calls']} calls on the twin"]
    if told["pass_hat"]:
        values = "  ".join(f"{k}: {value:.4f}" for k, value in told["pass_hat"].items())
        lines.append(f"  pass^k  {values}")
    if told["unjudged"]:
        values = "  ".join(
            f"{k}: {least:.4f} to {most:.4f}"
            for k, (least, most) in told["pass_hat_bounds"].items()
        )
        lines.append(f"  {told['unjudged']} runs could not be judged; all failed to all passed")
        lines.append(f"  pass^k  {values}")
    lines.append(
        f"  verified outcome as recorded: {seen.verdicts_agreeing} of {seen.verdicts_compared}"
    )
    if told["void"]:
        lines.append(f"  void: {told['void']}")
    lines.append("fidelity")
    for tool in seen.tools:
        lines += _tool_lines(tool)
    if seen.uncompared:
        lines.append(f"  not compared: {seen.uncompared} results")
    lines += [f"twin {name}  {digest}" for name, digest in told["twins"].items()]
    return "\n".join(map(plain, lines))


def _tool_lines(tool: ToolFidelity) -> Iterator[str]:
    mark = "" if tool.policy == "ok" else f"  {tool.policy}"
    exact = tool.matches["exact"]
    yield f"  {tool.tool}  {exact} of {tool.results} results equal{mark}"
    for one in tool.drift:
        yield f"    {one.place}  in {one.results}, verdict-{one.verdict}"
    if tool.errors_recorded != tool.errors_twin:
        yield f"    errors: {tool.errors_recorded} recorded, {tool.errors_twin} on the twin"
