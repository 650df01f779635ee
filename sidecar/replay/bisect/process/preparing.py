"""A bisection made ready: its ends, revisions and evidence read and resolved.

**Rules**
1. Everything that can be wrong with what was asked is said here, before anything runs.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from sidecar.canonical import sha256
from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.files import assertions_in
from sidecar.evaluate.assertions.parse import Named
from sidecar.plain import plain
from sidecar.replay.bisect.history import History, history
from sidecar.replay.bisect.model import Asked
from sidecar.replay.bisect.order import POINTS_MAX
from sidecar.replay.bisect.process.git import Repository
from sidecar.replay.bisect.question import Question
from sidecar.replay.bisect.revisions import Axis, axes_of
from sidecar.replay.bisect.wanted import Wanted
from sidecar.tape.files import read_tape

STATE = ".sidecar-bisect"
_FILE_BYTES_MAX = 64 * 1024**2


class Prepared(Struct, frozen=True, kw_only=True):
    """A question that can be asked: who is suspected, of what, in which repository."""

    question: Question
    asked: Asked
    axes: tuple[Axis, ...]
    files: Mapping[tuple[int, int], bytes]
    repository: Repository | None
    dirty: bool
    state: Path
    named: tuple[Named, ...]
    digests: Mapping[str, str]


def prepare(wanted: Wanted) -> Prepared:
    """Resolve ends and revisions. Raises SidecarError for what is no bisection."""
    named, digests = _evidence(wanted)
    axes: tuple[Axis, ...] = ()
    files: dict[tuple[int, int], bytes] = {}
    if wanted.revisions:
        axes, files = _axes(Path(wanted.revisions))
    repository, commits, dirty = None, None, False
    if wanted.goods or wanted.bad:
        repository = Repository(Path(wanted.repo))
        commits = _history(repository, wanted)
        dirty = repository.dirty()
    elif not axes:
        raise SidecarError("no ends", where="--good, --bad", do="Name them, or --revisions.")
    elif any(axis.to for axis in axes):
        raise SidecarError("`to` is of a commit's tree", where=wanted.revisions)
    try:
        question = Question(commits, axes)
    except ValueError as error:
        raise SidecarError(str(error), do="Leave out axes or revisions.") from None
    asked = question.asked(**wanted.search())
    if repository is not None:
        state = repository.common / "sidecar-bisect"
    else:
        state = Path(wanted.revisions).resolve().parent / STATE
    return Prepared(
        question=question,
        asked=asked,
        axes=axes,
        files=files,
        repository=repository,
        dirty=dirty,
        state=state,
        named=named,
        digests=digests,
    )


def _evidence(wanted: Wanted) -> tuple[tuple[Named, ...], dict[str, str]]:
    """The assertions, and what the evidence is known by. Raises SidecarError."""
    given = [one for one in ("tape", "assertions", "signature") if getattr(wanted, one)]
    if len(given) > 1:
        raise SidecarError(
            "each is an oracle of its own", where=" and ".join(f"--{one}" for one in given)
        )
    if wanted.tape:
        tape = read_tape(Path(wanted.tape))
        if not tape.examination.holds or tape.header.fidelity != "L3":
            raise SidecarError(
                "a bisection needs a tape that is sealed, holds and has every seam (L3)",
                where=wanted.tape,
                do="Record the bad run with `sidecar tape record --capture full`.",
            )
        return (), {"tape": tape.examination.computed.exact_digest}
    if not wanted.assertions:
        return (), {}
    data = _read(Path(wanted.assertions))
    return assertions_in(data, name=wanted.assertions), {"assertions": sha256(data)}


def _history(repository: Repository, wanted: Wanted) -> History:
    if not wanted.goods or not wanted.bad:
        raise SidecarError("one end is missing", where="--good, --bad", do="Name both.")
    goods = [repository.commit(one, "--good") for one in wanted.goods]
    bad = repository.commit(wanted.bad, "--bad")
    bases: list[str] = []
    for name, good in zip(wanted.goods, goods, strict=True):
        if good == bad:
            raise SidecarError(f"{plain(name)} is both ends", where="--good, --bad")
        if repository.is_ancestor(bad, good):
            raise SidecarError(
                f"the bad end comes before the good end {plain(name)}",
                where="--good, --bad",
                do="To find what repaired it, swap them and have the command say the opposite.",
            )
        if not repository.is_ancestor(good, bad):
            found = repository.bases(good, bad)
            if not found:
                cut = " in a shallow clone" if repository.shallow() else ""
                raise SidecarError(
                    f"the ends have no history in common{cut}",
                    where="--good, --bad",
                    do="Fetch it: git fetch --unshallow." if cut else "Name others.",
                )
            bases += found
    first_parent = not wanted.all_parents
    listed = repository.suspects(bad, goods, first_parent=first_parent)
    found_history = history(listed, goods, bad, bases=bases, first_parent=first_parent)
    if len(listed) > POINTS_MAX and not found_history.order().linear:
        raise SidecarError(
            f"{len(listed)} commits are more than {POINTS_MAX}",
            where="--all-parents",
            do="Leave it out, or name a nearer good end.",
        )
    return found_history


def _axes(path: Path) -> tuple[tuple[Axis, ...], dict[tuple[int, int], bytes]]:
    try:
        axes = axes_of(path.read_text("utf-8"), name=str(path))
    except UnicodeDecodeError:
        raise SidecarError("the revisions are no UTF-8", where=str(path)) from None
    except OSError as error:
        raise SidecarError(
            f"the revisions cannot be read: {error.strerror}", where=str(path)
        ) from None
    files = {}
    for number, axis in enumerate(axes):
        for at in range(len(axis.revisions)):
            name = axis.revision(at).file
            if name is not None:
                files[number, at] = _read(path.parent / name)
    return axes, files


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SidecarError(f"it cannot be read: {error.strerror}", where=str(path)) from None
    if len(data) > _FILE_BYTES_MAX:
        raise SidecarError("it is larger than 64 MiB", where=str(path))
    return data
