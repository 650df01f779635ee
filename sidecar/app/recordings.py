"""A folder of recordings, read: tapes, and captures of OTLP requests.

Rules
1. ``*.tape`` are tapes. A capture is the folder itself, or a folder in it, as ``sidecar trace
   normalise`` takes them.
2. What proves nothing (tainted, partial, broken, not to be read) refuses the whole: a suite is not
   smaller because somebody damaged a file.
3. Links are not followed out of the folder.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from processors.model.span import Batch
from processors.model.trace import AgentTrace
from sidecar.errors import ExitCode, SidecarError
from sidecar.otlp.files import decoded, requests_of
from sidecar.pipeline.build import build
from sidecar.replay.recorded.trace import recorded_trace, refuse_unproven
from sidecar.tape.files import read_tape

_REQUEST = re.compile(r"\d+\.(traces|logs)\.(binpb|json)")


def read_recordings(folder: Path, *, project: str, now_ns: int) -> tuple[AgentTrace, ...]:
    """The traces of a folder's recordings, by name. Raises SidecarError."""
    places = sorted(one for one in folder.iterdir() if not one.name.startswith("."))
    inside = folder.resolve()
    for place in places:
        if not place.resolve().is_relative_to(inside):
            raise SidecarError("the link leads out of the folder", where=str(place))
    found = [trace for place in places for trace in _read(place, project, now_ns)]
    if any(_REQUEST.fullmatch(one.name) for one in places):
        found += _capture(folder, project, now_ns)
    if not found:
        raise SidecarError(
            "there is no tape and no capture in the folder",
            where=str(folder),
            do="Make some: sidecar tape record, sidecar tape import, or capture OTLP requests.",
            code=ExitCode.UNDECIDED,
        )
    _refuse_twice(found, folder)
    return tuple(found)


def _read(place: Path, project: str, now_ns: int) -> Iterator[AgentTrace]:
    if place.suffix == ".tape":
        tape = read_tape(place)
        refuse_unproven(tape, str(place))
        yield recorded_trace(tape, place.stem)
    elif place.is_dir() and any(_REQUEST.fullmatch(one.name) for one in place.iterdir()):
        yield from _capture(place, project, now_ns)


def _capture(folder: Path, project: str, now_ns: int) -> Sequence[AgentTrace]:
    batches = [decoded(file) for file in requests_of(folder)]
    whole = Batch(
        spans=tuple(span for batch in batches for span in batch.spans),
        logs=tuple(log for batch in batches for log in batch.logs),
    )
    return build(whole, project=project, now_ns=now_ns)


def _refuse_twice(found: Sequence[AgentTrace], folder: Path) -> None:
    names = [trace.trace_id for trace in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SidecarError(f"the run {twice} is recorded twice", where=str(folder), do="Keep one.")
