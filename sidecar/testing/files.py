"""Tapes and assertions of a test project, on disk.

**Rules**
1. A recording is written beside its place and takes it whole, at its end: who reads it meanwhile
   finds the old tape, and a run that failed leaves it as it was.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.errors import SidecarError
from sidecar.tape.files import read_tape
from sidecar.tape.tape import Tape

if TYPE_CHECKING:  # loaded where something is asserted: it brings the expression engine
    from sidecar.evaluate.assertions.parse import Named
    from sidecar.evaluate.assertions.specs import Assertion
    from sidecar.expression.document import Document

StrPath = str | os.PathLike[str]


def path_of(path: StrPath) -> Path:
    """A path as the program has it."""
    return Path(path)


def load(path: StrPath) -> Tape:
    """The tape of a file, whole or partial. Raises SidecarError for what is none."""
    return read_tape(Path(path))


def yaml_of(path: StrPath) -> "Document":
    """A YAML file with its lines. Raises SidecarError."""
    from sidecar.expression.document import read

    try:
        return read(Path(path).read_text(encoding="utf-8"), name=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SidecarError(f"the file cannot be read: {error}", where=str(path)) from None


def named(wanted: "Sequence[Assertion | StrPath | Named]") -> "tuple[Named, ...]":
    """Assertions, and those of YAML files among them, each by an id; one that has an id keeps it.

    Raises SidecarError.
    """
    from sidecar.evaluate.assertions.files import read_assertions
    from sidecar.evaluate.assertions.parse import Named
    from sidecar.evaluate.assertions.specs import SPEC_OF, Assertion

    found: list[Named] = []
    for one in wanted:
        if isinstance(one, Named):
            found.append(one)
            continue
        if isinstance(one, Assertion):
            found.append(Named(id=f"{SPEC_OF[type(one)]}-{len(found) + 1}", assertion=one))
            continue
        if not isinstance(one, str | os.PathLike):
            raise SidecarError(
                f"a {type(one).__name__} is no assertion",
                do="Give what a factory of sidecar.evaluate.assertions.factories made, or a file.",
            )
        found += read_assertions(Path(one))
    return tuple(found)


def waiting_place(place: StrPath) -> Path:
    """Where a tape is written until it takes its place, on the same disk; its folder is made."""
    path = Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting = path.absolute().with_name(f".{path.name}.{os.getpid()}")
        waiting.unlink(missing_ok=True)
    except OSError as error:
        raise SidecarError(
            f"the tape cannot be written: {error.strerror}", where=str(path)
        ) from None
    return waiting


def take_place(waiting: StrPath, path: StrPath) -> None:
    """A finished tape in its place. Raises SidecarError."""
    try:
        Path(waiting).replace(path)
    except OSError as error:
        raise SidecarError(
            f"the tape cannot be written: {error.strerror}", where=str(path)
        ) from None


def fixed(path: StrPath) -> Path:
    """A place that stays where it is when a test changes the working directory."""
    return Path(path).absolute()


def give_up(waiting: StrPath) -> None:
    """A tape that does not take its place is gone."""
    Path(waiting).unlink(missing_ok=True)


def is_there(path: StrPath) -> bool:
    """Whether there is a file, or may be: where nobody lets us look, reading it says so."""
    try:
        return Path(path).exists()
    except OSError:
        return True
