"""One bisection from its options to its result: ends, worktrees, journal, loop, and nothing left.

**Rules**
1. Whatever ends it (a conclusion, an error, an interrupt), its processes end and its worktrees go;
   after ``kill -9`` a guard ends the processes, and the next start takes the worktrees away.
2. A conclusion ends its journal; what was given up or interrupted keeps it.
"""

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from sidecar import clock
from sidecar.canonical import sha256
from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.parse import Named, assertions_of
from sidecar.plain import plain
from sidecar.replay.bisect.answer import Answer
from sidecar.replay.bisect.driver import Bisected, Tell, bisect
from sidecar.replay.bisect.files import Journal, abandoned, held
from sidecar.replay.bisect.history import History, history
from sidecar.replay.bisect.model import Asked, Conclusion
from sidecar.replay.bisect.order import POINTS_MAX
from sidecar.replay.bisect.process.git import Repository, remove_tree
from sidecar.replay.bisect.process.oracle import Bench, probe
from sidecar.replay.bisect.process.oracles import (
    CommandOracle,
    Oracle,
    RecordOracle,
    ReplayOracle,
)
from sidecar.replay.bisect.process.setup import Environments
from sidecar.replay.bisect.question import Place, Question
from sidecar.replay.bisect.revisions import Axis, axes_of
from sidecar.replay.bisect.signature import signature
from sidecar.replay.bisect.told import Told, mentioned, told
from sidecar.replay.bisect.wanted import Wanted, again
from sidecar.replay.leftover.process import guarded
from sidecar.tape.files import read_tape

_PREFIX = "sidecar-bisect-"
_MARKER = ".sidecar-bisect"
_ENDS = (signal.SIGTERM, signal.SIGHUP)
_FILE_BYTES_MAX = 64 * 1024**2


class Result(Struct, frozen=True, kw_only=True):
    """What came of it: the result in JSON but for outcome and exit code."""

    value: dict[str, Any]
    conclusion: Conclusion
    aborted: Answer | None


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
        state = Path(wanted.revisions).resolve().parent / _MARKER
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


def run_bisection(wanted: Wanted, prepared: Prepared, tell: Tell) -> Result:
    """Make the runs and conclude. Raises SidecarError, KeyboardInterrupt."""
    with _interruptible(), _folder(prepared) as trees:
        mark = clock.new_id()
        key = _key(wanted, prepared)
        kept = prepared.state / f"{key}.tapes"
        with guarded(mark), held(prepared.state, key, trees, fresh=wanted.fresh) as journal:
            oracle = _oracle(wanted, prepared, kept, journal)
            bench = _bench(wanted, prepared, trees, mark, oracle)
            count = 0

            def ask(place: Place, point: int) -> Answer:
                nonlocal count
                count += 1
                return probe(bench, point, place, count)

            done = bisect(prepared.question, prepared.asked, ask, journal, tell)
            value = _value(wanted, prepared, done, oracle)
            if done.aborted is None:
                journal.discard()
                remove_tree(kept)
    return Result(value=value, conclusion=done.conclusion, aborted=done.aborted)


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
    try:
        return assertions_of(data.decode(), name=wanted.assertions), {"assertions": sha256(data)}
    except UnicodeDecodeError:
        raise SidecarError("the assertions are no UTF-8", where=wanted.assertions) from None


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


def _oracle(wanted: Wanted, prepared: Prepared, kept: Path, journal: Journal) -> Oracle:
    if wanted.tape:
        return ReplayOracle(Path(wanted.tape).absolute(), journal.entries)
    if prepared.named:
        return RecordOracle(
            prepared.named, prepared.asked.bad, kept, journal.entries, clock.now_ns()
        )
    return CommandOracle(signature(wanted.signature) if wanted.signature else None)


def _bench(wanted: Wanted, prepared: Prepared, trees: Path, mark: str, oracle: Oracle) -> Bench:
    environments = None
    if wanted.setup:
        folder = Path(wanted.cache) if wanted.cache else _cache()
        environments = Environments(
            wanted.setup, folder.absolute(), wanted.locks, wanted.timeout_seconds
        )
    return Bench(
        argv=wanted.command,
        axes=prepared.axes,
        files=prepared.files,
        repository=prepared.repository,
        environments=environments,
        trees=trees,
        start=Path.cwd(),
        timeout_seconds=wanted.timeout_seconds,
        mark=mark,
        oracle=oracle,
        apart=bool(wanted.tape),
    )


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return folder / "agenttwin-sidecar" / "bisect"


def _key(wanted: Wanted, prepared: Prepared) -> str:
    files = [[*place, sha256(data)] for place, data in sorted(prepared.files.items())]
    where = str(prepared.repository.inside) if prepared.repository else str(Path.cwd())
    return prepared.question.digest(
        search=wanted.search(),
        oracle={**wanted.oracle(), **prepared.digests},
        files=files,
        where=where,
    )


def _value(wanted: Wanted, prepared: Prepared, done: Bisected, oracle: Oracle) -> dict[str, Any]:
    subjects: dict[str, str] = {}
    if prepared.repository is not None:
        named = mentioned(prepared.question, done.conclusion, done.runs)
        subjects = prepared.repository.subjects(named)
    return told(
        done.conclusion,
        Told(
            question=prepared.question,
            asked=prepared.asked,
            subjects=subjects,
            runs=done.runs,
            resumed=done.resumed,
            dirty=prepared.dirty,
            first_divergence=_divergence(done.conclusion, oracle),
            repro=_repro(wanted, prepared, done.conclusion),
        ),
    )


def _divergence(found: Conclusion, oracle: Oracle) -> dict[str, Any] | None:
    if found.culprit is None:
        return None
    parts = (oracle.divergence(one, found.culprit) for one in found.last_good)
    return next((one for one in parts if one is not None), None)


def _repro(wanted: Wanted, prepared: Prepared, found: Conclusion) -> Sequence[str]:
    """The least that shows it again: both sides of the culprit; else the whole once more."""
    if found.culprit is None or prepared.axes or not found.last_good:
        return again(wanted, wanted.goods, wanted.bad)
    places = [prepared.question.place(one).commit for one in (*found.last_good, found.culprit)]
    commits = [one for one in places if one is not None]
    return again(wanted, commits[:-1], commits[-1])


@contextlib.contextmanager
def _folder(prepared: Prepared) -> Iterator[Path]:
    """A folder for worktrees, and those taken away that earlier starts left."""
    for left in abandoned(prepared.state):
        _clear(prepared.repository, left)
    try:
        trees = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        (trees / _MARKER).touch()
    except OSError as error:
        raise SidecarError(
            f"there is no place for worktrees: {error.strerror}",
            where=tempfile.gettempdir(),
            do="Make room, or name another place in TMPDIR.",
        ) from None
    try:
        yield trees
    finally:
        _clear(prepared.repository, trees)


def _clear(repository: Repository | None, trees: Path) -> None:
    if not trees.name.startswith(_PREFIX):
        return  # no folder of ours, whatever a journal says
    if repository is not None:
        for tree in repository.worktrees():
            if trees in tree.parents:
                repository.remove(tree)
    if (trees / _MARKER).is_file():
        remove_tree(trees)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Who is told to end ends as if interrupted at the terminal: what was made is taken away."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    told = [one for one in _ENDS if signal.getsignal(one) is not signal.SIG_IGN]  # as under nohup
    before = {one: signal.signal(one, interrupt) for one in told}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
