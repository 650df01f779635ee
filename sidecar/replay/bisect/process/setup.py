"""An environment for the probes of commits that lock the same dependencies: made once, kept.

**Rules**
1. It is known by the set-up command and the names and content of the lock files; commits that agree
   in these share it.
2. One that was not made to its end is made anew.
3. A commit whose set-up fails cannot be tested.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from sidecar.errors import SidecarError
from sidecar.replay.bisect.answer import Ran
from sidecar.replay.bisect.process.git import remove_tree
from sidecar.replay.bisect.process.running import Launch, run

LOCKS = (
    *("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "requirements.lock"),
    *("requirements.txt", "conda-lock.yml", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"),
    *("npm-shrinkwrap.json", "bun.lock", "go.sum", "Cargo.lock", "Gemfile.lock"),
)
VARIABLE = "AGENTTWIN_BISECT_ENV"
_DONE = ".sidecar-bisect-complete"


class Environments:
    """Set-up by a shell command, in folders below ``folder``."""

    def __init__(
        self, command: str, folder: Path, locks: Sequence[str], timeout_seconds: float
    ) -> None:
        self._command = command
        self._folder = folder
        self._locks = tuple(locks) or LOCKS
        self._timeout = timeout_seconds

    def prepare(
        self, tree: Path, environment: Mapping[str, str], mark: str
    ) -> tuple[dict[str, str], Ran | None]:
        """Variables for a probe in a tree, and how the set-up ended where it failed."""
        place = self._folder / self._key(tree)
        variables = {VARIABLE: str(place)}
        if not (place / _DONE).is_file():
            try:
                remove_tree(place)
                place.mkdir(parents=True)
            except OSError as error:
                raise SidecarError(
                    f"no environment can be made: {error.strerror}", where=str(place)
                ) from None
            ran = run(
                Launch(
                    argv=["/bin/sh", "-c", self._command],
                    folder=tree,
                    environment={**environment, **variables},
                    timeout_seconds=self._timeout,
                    mark=mark,
                )
            )
            if ran.code != 0:
                return variables, ran
            (place / _DONE).touch()
        if (place / "bin").is_dir():
            variables["PATH"] = f"{place / 'bin'}:{environment.get('PATH', '')}"
        if (place / "pyvenv.cfg").is_file():
            variables["VIRTUAL_ENV"] = str(place)
        return variables, None

    def _key(self, tree: Path) -> str:
        found = hashlib.sha256(self._command.encode("utf-8", "surrogateescape"))
        for name in self._locks:
            path = tree / name
            if path.is_file():
                data = path.read_bytes()
                found.update(b"\0" + name.encode() + b"\0" + hashlib.sha256(data).digest())
        return found.hexdigest()[:32]
