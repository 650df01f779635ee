"""The oracle at one point: a clean worktree, its revisions laid in, a command, what it said.

**Rules**
1. A probe sees its commit and its revisions and nothing of another probe's; its folder goes when it
   ends, whatever it left there.
2. A path in the command is the commit's, unless it is absolute.
3. What a revision's file holds is read before anything runs; a symbolic link in a commit leads
   nothing out of its tree.
"""

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from sidecar.errors import SidecarError
from sidecar.plain import plain
from sidecar.replay.bisect.answer import Answer, Ran, answered
from sidecar.replay.bisect.process.git import (
    Repository,
    Untestable,
    environment,
    remove_tree,
)
from sidecar.replay.bisect.process.oracles import Oracle
from sidecar.replay.bisect.process.running import Launch, run
from sidecar.replay.bisect.process.setup import Environments
from sidecar.replay.bisect.question import Place
from sidecar.replay.bisect.revisions import Axis, filled, text_of

PREFIX = "AGENTTWIN_BISECT_"


class Bench(Struct, frozen=True, kw_only=True):
    """What every probe has in common.

    ``trees``: the folder for worktrees and revisions; ``start``: where without commits the command
    runs; ``mark`` begins that of every process. ``apart``: stdout is a file of
    its own (``stdout`` in the probe's folder), and no part of what the oracle says last.
    """

    argv: tuple[str, ...]
    axes: tuple[Axis, ...]
    files: Mapping[tuple[int, int], bytes]
    repository: Repository | None
    environments: Environments | None
    trees: Path
    start: Path
    timeout_seconds: float
    mark: str
    apart: bool
    oracle: Oracle


def probe(bench: Bench, point: int, place: Place, number: int) -> Answer:
    """Run the oracle at a place. Raises SidecarError where nothing can be run at all."""
    own = bench.trees / f"{number}"
    mark = f"{bench.mark}-{number}"
    try:
        own.mkdir(parents=True)
        with _tree(bench, place, own) as tree:
            variables, values = _revisions(bench, place, own, tree)
            given = {**environment(), **variables}
            if place.commit is not None:
                given[f"{PREFIX}COMMIT"] = place.commit
            if bench.environments is not None:
                more, failed = bench.environments.prepare(tree, given, mark)
                given |= more
                if failed is not None:
                    return _not_set_up(failed)
            folder = tree / bench.repository.inside if bench.repository else tree
            inside = folder.resolve().is_relative_to(tree.resolve())
            if not (folder.is_dir() and inside):
                said = f"{plain(str(folder.relative_to(tree)))} is not there"
                return Answer(verdict="skip", detail=said)
            ran = run(
                Launch(
                    argv=bench.oracle.argv(filled(bench.argv, values), own),
                    folder=folder,
                    environment=given,
                    timeout_seconds=bench.timeout_seconds,
                    mark=mark,
                    stdout=own / "stdout" if bench.apart else None,
                )
            )
            return bench.oracle.judge(point, ran, own)
    except Untestable as error:
        said = str(error).strip().rsplit("\n", 1)[-1]
        return Answer(verdict="skip", detail=f"it cannot be checked out: {plain(said)}")
    except OSError as error:
        raise SidecarError(
            f"a probe cannot be made: {error.strerror}", where=str(bench.trees)
        ) from None
    finally:
        remove_tree(own)


@contextlib.contextmanager
def _tree(bench: Bench, place: Place, own: Path) -> Iterator[Path]:
    if bench.repository is None or place.commit is None:
        yield bench.start
        return
    tree = own / "tree"
    with bench.repository.worktree(place.commit, tree):
        yield tree


def _revisions(
    bench: Bench, place: Place, own: Path, tree: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Variables and placeholders of a place's revisions; files are laid where they belong."""
    variables, values = {}, {}
    for number, (axis, at) in enumerate(zip(bench.axes, place.revisions, strict=True)):
        one = axis.revision(at)
        value = text_of(one)
        if one.file is not None or not isinstance(one.value, str):
            data = bench.files.get((number, at), value.encode())
            path = own / axis.name / Path(one.file or f"{axis.name}.json").name
            path.parent.mkdir()
            path.write_bytes(data)
            value = str(path)
            if axis.to is not None:
                _lay(path, tree, axis.to)
        values[axis.name] = value
        variables[f"{PREFIX}{axis.name.upper()}"] = value
    return variables, values


def _lay(path: Path, tree: Path, to: str) -> None:
    target = tree / to
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(tree.resolve()):
        raise Untestable(f"{to} leads out of the tree")
    if target.is_symlink():
        target.unlink()
    shutil.copyfile(path, target)


def _not_set_up(failed: Ran) -> Answer:
    found = answered(failed)
    said = found.detail or "it ended"
    return Answer(
        verdict="skip",
        code=failed.code,
        detail=f"its set-up failed: {said}",
        seconds=failed.seconds,
        tail=failed.tail,
    )
