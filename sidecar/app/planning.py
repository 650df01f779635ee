"""The plan of a replay, from what was named: a suite, stored traces, or a folder of recordings.

Rules
1. A query and a folder are recordings: of both the users' words become the input, and the recorded
   tool traffic becomes a twin's state where a twin is named, else the tools themselves.
2. Every read of the store names the project.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from processors.model.trace import AgentTrace
from sidecar.analyse.draft.draft import draft
from sidecar.analyse.draft.model import asked_of
from sidecar.analyse.draft.written import written
from sidecar.app.known import classes, known_tools
from sidecar.app.played import with_tapes
from sidecar.app.recordings import read_recordings
from sidecar.app.taping import stored_traces
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.replay.import_otlp import taped
from sidecar.replay.planning import Asked, CapturedPlan, captured_plan, suite_plan
from sidecar.replay.query import PREFIX, read_query
from sidecar.replay.recorded.twin import KnownTools
from sidecar.replay.taped import run_of
from sidecar.twins import examples
from sidecar.twins.files import LoadedTwins, load_suite, load_twins
from sidecar.twins.group import TwinGroup
from sidecar.twins.state.files import with_state

DRAFT = Path("draft")
"""In place of a twin: the one that the recordings themselves bear."""


class Named(Struct, frozen=True, kw_only=True):
    """What is replayed, and with which twins in which world (``state``); ``now_ns``: when it was
    asked for."""

    suite: str
    twins: tuple[Path, ...]
    now_ns: int
    state: Path | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether it names recordings, which twins may be named for."""
        return self.suite.startswith(PREFIX) or Path(self.suite).is_dir()


def plan_of(loaded: Loaded, named: Named, asked: Asked) -> CapturedPlan:
    """The plan, and what people should know of it. Raises SidecarError."""
    return with_tapes(_planned(loaded, named, asked))


def _planned(loaded: Loaded, named: Named, asked: Asked) -> CapturedPlan:
    if named.state is not None and not (named.is_recorded and set(named.twins) - {DRAFT}):
        raise SidecarError(
            "only twins that are named for recordings take a state",
            where="--state",
            do="Name them with --twin; a suite names its own state.",
        )
    if not named.is_recorded:
        if named.twins:
            raise SidecarError("a suite names its own twins", where="--twin", do="Leave it out.")
        if asked.baseline is not None and asked.baseline.kind == "recorded":
            raise SidecarError(
                "scenarios were written, not recorded", where="--baseline", do="Name a version."
            )
        return CapturedPlan(plan=suite_plan(load_suite(Path(named.suite)), asked), notes=())
    traces = _recorded(loaded, named, asked.project)
    notes: list[str] = []
    known = _known(loaded)
    own = DRAFT in named.twins
    twins = _drafted(traces, known, notes) if own else _twins(named.twins, named.state)
    made = captured_plan(named.suite, traces, twins, asked, known)
    return CapturedPlan(plan=made.plan, notes=(*notes, *made.notes))


def shipped(path: Path) -> Path:
    """A twin's file: as named, or one that ships with the program by its name."""
    own = Path(examples.__path__[0]) / path / "twin.yaml"
    return own if not path.exists() and len(path.parts) == 1 and own.is_file() else path


def _drafted(
    traces: Sequence[AgentTrace], known: KnownTools, notes: list[str]
) -> LoadedTwins | None:
    """The twin that the recordings bear; None where they do not bear one of every tool."""
    runs = [run_of(taped(trace, "full")) for trace in traces]
    try:
        made = draft(runs, name="drafted", asked=asked_of(known.tools.values()))
    except ValueError as error:
        notes.append(f"no twin can be drafted: {error}")
        return None
    bare = [name for name, rules in made.tools().items() if not rules]
    if bare:
        notes.append(f"no twin can be drafted: too little is recorded of {', '.join(bare)}")
        return None
    notes.append(f"drafted from the recordings: {len(made.rules)} rules, {len(made.left_out)} not")
    return LoadedTwins(
        group=TwinGroup([made.twin()]), files={"drafted.yaml": written(made).encode()}
    )


def _twins(paths: Sequence[Path], state: Path | None) -> LoadedTwins | None:
    if not paths:
        return None
    found = load_twins([shipped(path) for path in paths])
    return found if state is None else replace(found, group=with_state(found.group, state))


def _recorded(loaded: Loaded, named: Named, project: str) -> Sequence[AgentTrace]:
    if not named.suite.startswith(PREFIX):
        return read_recordings(Path(named.suite), project=project, now_ns=named.now_ns)
    wanted = read_query(named.suite, project=project, now_ns=named.now_ns)
    return stored_traces(loaded, wanted)


def _known(loaded: Loaded) -> KnownTools:
    config = loaded.config.gateway
    found = known_tools(loaded).tools
    return KnownTools(tools={one.name: one for one in config.tools}, classes=classes(found))
