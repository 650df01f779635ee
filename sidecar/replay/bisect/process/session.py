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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from sidecar import clock
from sidecar.canonical import sha256
from sidecar.errors import SidecarError
from sidecar.replay.bisect.answer import Answer
from sidecar.replay.bisect.driver import Bisected, Tell, bisect
from sidecar.replay.bisect.files import Journal, abandoned, held
from sidecar.replay.bisect.model import Conclusion
from sidecar.replay.bisect.process.git import Repository, remove_tree
from sidecar.replay.bisect.process.oracle import Bench, probe
from sidecar.replay.bisect.process.oracles import (
    CommandOracle,
    Oracle,
    RecordOracle,
    ReplayOracle,
)
from sidecar.replay.bisect.process.preparing import Prepared
from sidecar.replay.bisect.process.setup import Environments
from sidecar.replay.bisect.question import Place
from sidecar.replay.bisect.signature import signature
from sidecar.replay.bisect.told import Told, mentioned, told
from sidecar.replay.bisect.wanted import Wanted, again
from sidecar.replay.leftover.process import guarded

_PREFIX = "sidecar-bisect-"
_MARKER = ".sidecar-bisect"
_ENDS = (signal.SIGTERM, signal.SIGHUP)


class Result(Struct, frozen=True, kw_only=True):
    """What came of it: the result in JSON but for outcome and exit code."""

    value: dict[str, Any]
    conclusion: Conclusion
    aborted: Answer | None


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
                remove_tree(kept)
                journal.discard()
    return Result(value=value, conclusion=done.conclusion, aborted=done.aborted)


def _oracle(wanted: Wanted, prepared: Prepared, kept: Path, journal: Journal) -> Oracle:
    if wanted.tape:
        return ReplayOracle(Path(wanted.tape).absolute(), journal.entries, wanted.roots)
    if prepared.named:
        return RecordOracle(
            prepared.named,
            prepared.asked.bad,
            kept,
            journal.entries,
            clock.now_ns(),
            wanted.roots,
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
