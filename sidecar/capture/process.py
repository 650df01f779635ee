"""What a recording wants to know of the machine: the commit, the packages, the environment of a
child that is to record or replay.

**Rules**
1. Nothing here fails a recording: what cannot be found out is left out.
2. A child gets one folder more on its module path, with a ``sitecustomize`` in it, and one
   variable; both are taken away again before the agent's own code runs.
"""

import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sidecar import clock
from sidecar.canonical import canonical
from sidecar.capture.order import VARIABLE, Order, as_text
from sidecar.capture.record import Circumstances
from sidecar.tape.model import AgentBuild, Git
from sidecar.tape.value import address

_BOOTSTRAP: Final = Path(__file__).parent / "seams" / "bootstrap"
_GIT_SECONDS: Final = 5.0


def git_of(folder: Path) -> Git | None:
    """The commit a folder is at, and whether tracked files in it were changed."""
    sha = _git(folder, "rev-parse", "HEAD")
    if not sha:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return Git(sha=sha, dirty=bool(changes))


def build_of(folder: Path) -> AgentBuild | None:
    """What the agent's project says of itself: its name and version, and the file's digest."""
    try:
        text = (folder / "pyproject.toml").read_bytes()
        project = tomllib.loads(text.decode()).get("project", {})
    except (OSError, ValueError):
        return None
    name, version = project.get("name"), project.get("version")
    return AgentBuild(
        name=name if isinstance(name, str) else None,
        version=version if isinstance(version, str) else None,
        manifest=address(text),
    )


def environment_digest(path: Sequence[str]) -> str:
    """The digest of the interpreter, the platform and the installed packages by version."""
    packages: set[str] = set()
    for folder in path:
        try:
            names = [one.name for one in Path(folder or ".").iterdir()]
        except OSError:
            continue
        packages.update(name[: -len(".dist-info")] for name in names if name.endswith(".dist-info"))
    told = [
        platform.python_implementation(),
        ".".join(map(str, sys.version_info[:3])),
        sys.platform,
        platform.machine(),
        sorted(packages),
    ]
    return address(canonical(told))


def circumstances(
    *,
    git: Git | None,
    agent: AgentBuild | None = None,
    argv: tuple[str, ...] = (),
    tenant: str = "default",
    labels: Mapping[str, str] | None = None,
    lasts_ns: int | None = None,
) -> Circumstances:
    """What is given of a recording that begins now in this process, with a new id, the time and
    the packages. ``lasts_ns``: after which it expires."""
    now_ns = clock.now_ns()
    return Circumstances(
        tape_id=clock.new_id(),
        now_ns=now_ns,
        argv=argv,
        git=git,
        agent=agent,
        env=environment_digest(sys.path),
        tenant=tenant,
        labels=dict(labels or {}),
        expires_ns=None if lasts_ns is None else now_ns + lasts_ns,
    )


def folders_of(roots: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The folders of an agent's own files: those that are named, or the working directory."""
    return [Path(root) for root in roots] or [Path.cwd()]


def child_environment(order: Order, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is to record or replay."""
    found = dict(environment)
    parts = [str(_BOOTSTRAP), *filter(None, [found.get("PYTHONPATH")])]
    found["PYTHONPATH"] = os.pathsep.join(parts)
    found[VARIABLE] = as_text(order)
    return found


def _git(folder: Path, *words: str) -> str | None:
    try:
        found = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), *words],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
