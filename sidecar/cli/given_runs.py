"""Recorded runs given on a command line: tapes, OTLP captures, tau-bench results.

Rules
1. A folder is tapes where it holds any, else a capture; a file says by its first bytes what it is,
   unless ``--format`` does. A tape that proves nothing (tainted, partial, broken) is refused.
2. What is no tape yet is redacted as a tape would be before anything else sees it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import click

from processors.model.names import Capture
from sidecar.cli.tape_import import runs_in
from sidecar.errors import ExitCode, SidecarError
from sidecar.replay.import_tape import redactor_of
from sidecar.replay.recorded.trace import refuse_unproven
from sidecar.replay.taped import TapedRun, run_of, taped_run
from sidecar.tape.files import read_tape
from sidecar.tape.value import decoded, encoded

Form = Literal["tape", "otlp", "tau"]
FORMS = ("auto", "tape", "otlp", "tau")
_HEAD_BYTES = 1 << 20


def format_option(function: Any) -> Any:
    """Add ``form`` and ``capture`` parameters."""
    function = click.option(
        "--capture",
        type=click.Choice(["redacted", "full"]),
        default="redacted",
        show_default=True,
        help="What is kept of content that is no tape yet.",
    )(function)
    return click.option(
        "--format",
        "form",
        type=click.Choice(FORMS),
        default="auto",
        show_default=True,
        help="What TAPES are.",
    )(function)


def given_runs(paths: Sequence[Path], form: str, capture: str) -> list[TapedRun]:
    """All runs of the paths, in order; two of one name are numbered. Raises SidecarError."""
    found: list[TapedRun] = []
    names: dict[str, int] = {}
    for path in paths:
        for run in _runs(path, form, capture):
            names[run.name] = number = names.get(run.name, 0) + 1
            name = run.name if number == 1 else f"{run.name}-{number}"
            found.append(_named(run, name))
    if not found:
        raise SidecarError(
            "there are no runs in it",
            where=", ".join(map(str, paths)),
            do="Record or import some: sidecar tape record, sidecar tape import.",
            code=ExitCode.UNDECIDED,
        )
    return found


def _runs(path: Path, form: str, capture: str) -> Iterator[TapedRun]:
    if not path.exists():
        raise SidecarError("there is no such file or folder", where=str(path), do="Check the path.")
    kind = form if form != "auto" else _kind(path)
    if kind == "tape":
        files = sorted(path.glob("*.tape")) if path.is_dir() else [path]
        for file in files:
            tape = read_tape(file)
            refuse_unproven(tape, str(file))
            yield taped_run(file.stem, tape)
        return
    kept = cast(Capture, capture)
    redactor = redactor_of(kept)
    for one in runs_in(path, kind, kept):
        yield run_of(one, lambda value: decoded(redactor.value(encoded(value))))


def _kind(path: Path) -> Form:
    if path.is_dir():
        return "tape" if any(path.glob("*.tape")) else "otlp"
    if path.suffix == ".tape":
        return "tape"
    if path.suffix == ".binpb":
        return "otlp"
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if path.suffix == ".gz" or b'"messages"' in head or b'"traj"' in head:
        return "tau"
    return "tape" if head[:200].find(b'"rec":"header"') >= 0 else "otlp"


def _named(run: TapedRun, name: str) -> TapedRun:
    from msgspec.structs import replace

    return run if run.name == name else replace(run, name=name)
