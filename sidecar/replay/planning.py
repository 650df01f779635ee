"""A plan from what the command line named: a suite's scenarios, or captured traffic."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from processors.model.trace import AgentTrace
from processors.value import duration_ns
from sidecar.canonical import digest, sha256
from sidecar.errors import ExitCode, SidecarError
from sidecar.replay.captured import Captured, captured
from sidecar.replay.driver import ReplayPlan
from sidecar.replay.recorded.twin import KnownTools, recorded_group
from sidecar.replay.reference import AgentRef, recorded
from sidecar.twins.files import LoadedSuite, LoadedTwins
from sidecar.twins.scenario import cases


class Asked(Struct, frozen=True, kw_only=True):
    """What is the same for both kinds of plan; ``deadline`` empty means the suite's."""

    project: str
    candidate: AgentRef
    baseline: AgentRef | None = None
    deterministic: bool = False
    deadline: str = ""
    agent: str = ""
    program_version: str = ""


class CapturedPlan(Struct, frozen=True, kw_only=True):
    """A plan from captured traffic, and what people should know: what was left out, and why."""

    plan: ReplayPlan
    notes: tuple[str, ...]


def suite_plan(loaded: LoadedSuite, asked: Asked) -> ReplayPlan:
    """The plan of a suite. Raises SidecarError without a baseline."""
    if asked.baseline is None:
        raise SidecarError(
            "a suite needs a baseline", where="--baseline", do="Name the version now in use."
        )
    suite = loaded.suite
    several = next((one.id for one in suite.scenarios if one.agents), None)
    if several is not None:
        raise SidecarError(
            f"the scenario {several!r} is of several agents at once, which a replay does not run",
            where="SUITE",
            do="Run it with sidecar scenario fuzz SUITE --budget 0.",
        )
    return ReplayPlan(
        suite=suite.suite,
        suite_version=suite.version,
        suite_digest=loaded.digest(),
        agent=asked.agent or suite.agent or suite.suite,
        project=asked.project,
        cases=cases(suite),
        group=loaded.group,
        baseline=asked.baseline,
        candidate=asked.candidate,
        deterministic=suite.deterministic or asked.deterministic,
        seed=suite.seed,
        deadline_s=duration_ns(asked.deadline or suite.deadline) / 1e9,
        environment=suite.environment,
        files=loaded.files,
        fairness=suite.fairness,
        tapes=suite.tapes,
        folder=loaded.folder,
        program_version=asked.program_version,
    )


def captured_plan(
    query: str,
    traces: Sequence[AgentTrace],
    twins: LoadedTwins | None,
    asked: Asked,
    known: KnownTools = KnownTools(),  # noqa: B008 - frozen
) -> CapturedPlan:
    """The plan of recorded traces; without twins, their tools are answered from the recordings.

    Raises SidecarError (exit 2) where none can be replayed.
    """
    if not traces:
        raise SidecarError(
            "no stored trace matches",
            where=query,
            do="See what there is: sidecar trace list.",
            code=ExitCode.UNDECIDED,
        )
    notes: list[str] = []
    if twins is None:
        group, notes = recorded_group(traces, known)
        twins = LoadedTwins(group=group, files={})
        notes.insert(0, "no twin is named: tools answer as they were recorded, and nothing else")
    found = [one for one in (captured(trace, twins.group) for trace in traces) if one is not None]
    if not found:
        raise SidecarError(
            f"none of the {len(traces)} recorded runs was kept with its content, "
            "so there is no user input to replay",
            where=query,
            do="Set content.capture of the project to redacted or full, and capture traffic.",
            code=ExitCode.UNDECIDED,
        )
    return CapturedPlan(
        plan=_captured_plan(query, found, twins, asked),
        notes=(*notes, *_notes(len(traces), found)),
    )


def _captured_plan(
    query: str, found: Sequence[Captured], twins: LoadedTwins, asked: Asked
) -> ReplayPlan:
    inputs = [[one.case.id, one.recorded.digest, _pinned(one)] for one in found]
    by_record = asked.baseline is None or asked.baseline.kind == "recorded"
    return ReplayPlan(
        suite=query,
        suite_version="captured",
        suite_digest=digest(
            {"inputs": inputs, "twins": twins.group.digests()}, domain="agenttwin-captured/1"
        ),
        agent=asked.agent or _service(found) or "captured",
        project=asked.project,
        cases=tuple(one.case for one in found),
        group=twins.group,
        baseline=asked.baseline if asked.baseline is not None else recorded(),
        candidate=asked.candidate,
        deterministic=asked.deterministic,
        deadline_s=duration_ns(asked.deadline or "60s") / 1e9,
        files=twins.files,
        recorded=tuple(one.recorded for one in found) if by_record else (),
        source="captured",
        program_version=asked.program_version,
    )


def _pinned(one: Captured) -> str:
    """The world that a case begins with; a recording's answers are in no twin's digest."""
    return sha256(msgspec.json.encode(one.case.beginning, order="sorted"))


def _service(found: Sequence[Captured]) -> str | None:
    names = {one.recorded.trace.service.name for one in found}
    return names.pop() if len(names) == 1 else None


def _notes(total: int, found: Sequence[Captured]) -> tuple[str, ...]:
    notes = [f"{one.case.id}: {note}" for one in found for note in one.notes]
    if total > len(found):
        notes.insert(0, f"{total - len(found)} of {total} traces hold no user input: left out")
    return tuple(notes)
