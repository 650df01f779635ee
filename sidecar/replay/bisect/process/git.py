"""Git, asked by its command: commits, and a clean worktree for each probe.

**Rules**
1. Nobody's tree is touched: a probe has a worktree of its own, elsewhere, which goes when it
   ends.
2. No hook of the repository runs for what is done here, and no variable of a surrounding git
   command is passed on (``GIT_DIR`` of a hook would lead it astray).
3. What git says of itself becomes our own error; a full disk is never a verdict.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from sidecar.errors import SidecarError
from sidecar.plain import plain

LOCAL = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE"),
    *("GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_INDEX_FILE", "GIT_NO_REPLACE_OBJECTS"),
    *("GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR"),
    "GIT_INTERNAL_SUPER_PREFIX",
)
"""What of ``git rev-parse --local-env-vars`` ties git to a repository; settings stay."""
_OLDEST = (2, 36)
_BLOCK = 4096
_SETTINGS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "advice.detachedHead=false")


class GitFailed(Exception):
    """Git could not do it; the text is what it said."""


class Untestable(Exception):
    """A commit that cannot be checked out."""


def environment() -> dict[str, str]:
    """This process's environment without what ties git commands to one repository."""
    return {name: value for name, value in os.environ.items() if name not in LOCAL}


class Repository:
    """A repository by one of its folders. Raises SidecarError where there is none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._check_version()
        try:
            told = self._git("rev-parse", "--path-format=absolute", "--git-common-dir")
            self.common = Path(told.rstrip("\n"))
            top = self._git("rev-parse", "--path-format=absolute", "--show-toplevel").rstrip("\n")
        except GitFailed as error:
            # A bare one has no tree, but commits to bisect.
            bare = "must be run in a work tree" in str(error)
            if not bare:
                raise SidecarError(
                    f"no git repository: {plain(str(error))}",
                    where=str(folder.resolve()),
                    do="Name it with --repo.",
                ) from None
            top = ""
        self.inside = Path()
        """Where in the repository the given folder is."""
        if top:
            self.inside = folder.resolve().relative_to(Path(top).resolve())

    def commit(self, name: str, option: str) -> str:
        """The id of the commit that a name stands for. Raises SidecarError."""
        if "\0" not in name:
            with contextlib.suppress(GitFailed):
                asked = ("rev-parse", "--verify", "--quiet", "--end-of-options")
                return self._git(*asked, f"{name}^{{commit}}").strip()
        raise SidecarError(f"{plain(name)} names no commit", where=option)

    def dirty(self) -> bool:
        """Whether the tree has changes that no commit has."""
        try:
            return bool(self._git("status", "--porcelain", "-z", "--untracked-files=no"))
        except GitFailed:  # a bare repository
            return False

    def shallow(self) -> bool:
        """Whether history is cut off."""
        return self._git("rev-parse", "--is-shallow-repository").strip() == "true"

    def is_ancestor(self, one: str, other: str) -> bool:
        """Whether a commit is another, or comes before it."""
        try:
            self._git("merge-base", "--is-ancestor", one, other)
        except GitFailed:
            return False
        return True

    def bases(self, one: str, other: str) -> list[str]:
        """Where the histories of two commits part."""
        try:
            return self._git("merge-base", "--all", one, other).split()
        except GitFailed:
            return []

    def suspects(self, bad: str, goods: Sequence[str], *, first_parent: bool) -> list[list[str]]:
        """Commits reachable from ``bad`` and not from ``goods``, oldest first, with parents."""
        asked = ["rev-list", "--topo-order", "--reverse", "--parents"]
        asked += ["--first-parent"] if first_parent else []
        told = self._git(*asked, bad, "--not", *goods)
        return [line.split() for line in told.splitlines()]

    def subjects(self, commits: Sequence[str]) -> dict[str, str]:
        """The first lines of some commits' messages."""
        if not commits:
            return {}
        asked = ("log", "--no-walk=unsorted", "--stdin", "-z", "--format=%H %s")
        told = self._git(*asked, said="\n".join(commits))
        pairs = (entry.partition(" ") for entry in told.split("\0") if entry)
        return {one: subject for one, _, subject in pairs}

    @contextlib.contextmanager
    def worktree(self, commit: str, folder: Path) -> Iterator[None]:
        """A clean checkout, for as long as the block. Raises Untestable, SidecarError."""
        try:
            try:
                self._git(
                    *("worktree", "add", "--quiet", "--detach", "--force", "--lock"),
                    *("--reason", "sidecar bisect", str(folder), commit),
                )
            except GitFailed as error:
                if not self._fits(commit, folder.parent):
                    raise _full(folder.parent) from None
                raise Untestable(str(error)) from None
            yield
        finally:
            self.remove(folder)

    def remove(self, folder: Path) -> None:
        """Take a worktree away, whatever a probe did to it; none is no fault."""
        remove_tree(folder)
        with contextlib.suppress(GitFailed):
            self._git("worktree", "remove", "--force", "--force", str(folder))

    def worktrees(self) -> list[Path]:
        """The folders of all worktrees."""
        told = self._git("worktree", "list", "--porcelain", "-z")
        lines = told.split("\0")
        return [Path(one.removeprefix("worktree ")) for one in lines if one.startswith("worktree ")]

    def _fits(self, commit: str, folder: Path) -> bool:
        """Whether there is room for a commit's tree; git does not say that there was none."""
        try:
            told = self._git("ls-tree", "-r", "-l", "-z", commit)
        except GitFailed:
            return True
        sizes = [entry.split(None, 4)[3] for entry in told.split("\0") if entry]
        needed = sum(_BLOCK * -(-int(one) // _BLOCK) for one in sizes if one.isdigit())
        there = os.statvfs(folder)
        room = there.f_bavail * there.f_frsize
        return needed + _BLOCK < room and (not there.f_files or len(sizes) < there.f_favail)

    def _check_version(self) -> None:
        told = self._git("version")
        found = re.search(r"(\d+)\.(\d+)", told)
        if found is None or (int(found[1]), int(found[2])) < _OLDEST:
            raise SidecarError(f"{plain(told.strip())} is too old", do="Install git 2.36 or later.")

    def _git(self, *arguments: str, said: str = "") -> str:
        settings = [part for each in _SETTINGS for part in ("-c", each)]
        try:
            run = subprocess.run(  # noqa: S603 - git itself; names stand behind --end-of-options
                ["git", "-C", str(self._folder), *settings, *arguments],  # noqa: S607
                input=os.fsencode(said),
                capture_output=True,
                env={**environment(), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
                check=False,
            )
        except OSError as error:
            raise SidecarError(
                f"git cannot be started: {error.strerror}", do="Install it."
            ) from None
        if run.returncode:
            raise GitFailed(os.fsdecode(run.stderr).strip() or f"git exited {run.returncode}")
        return os.fsdecode(run.stdout)


def remove_tree(folder: Path) -> None:
    """Remove a folder, also one whose permissions were taken away."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError:
        for place, folders, _ in os.walk(folder):  # a folder is opened before it is walked
            for one in folders:
                with contextlib.suppress(OSError):
                    if not (path := Path(place, one)).is_symlink():
                        path.chmod(stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)


def _full(folder: Path) -> SidecarError:
    return SidecarError(
        "the disk is full: no worktree can be made",
        where=str(folder),
        do="Make room, or name another place in TMPDIR, and start the same again.",
    )
