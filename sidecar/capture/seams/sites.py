"""Where in the agent's own files a crossing is made.

**Rules**
1. Own files are those below the agent's roots that are no installed packages, no standard library
   and none of ours. A file that is in no file system (``<string>``) is nobody's.
2. A site names module and qualified name, never a line. The module is told by the file's place
   below its root, so that it is one whether it was run or imported, and wherever it is checked out.
"""

import functools
import os
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from msgspec import Struct

from sidecar.tape.compose import site as site_of

_INSTALLED: Final = frozenset(("site-packages", "dist-packages"))
_INNER: Final = (".<listcomp>", ".<dictcomp>", ".<setcomp>")
_OURS: Final = str(Path(__file__).resolve().parents[2])


class Site(Struct, frozen=True, gc=False):
    """A place in the agent's own files."""

    module: str
    qualname: str


class Sites:
    """Finds the first frame of own files; what a code object is, is found out once."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = [str(root.resolve()) for root in roots]
        paths = sysconfig.get_paths()
        self._foreign = {
            _OURS,
            *(str(Path(paths[key]).resolve()) for key in ("stdlib", "platstdlib", "purelib")),
        }
        self._library = str(Path(paths["stdlib"]).resolve())
        # By name, not by code: code objects that look alike are equal, whatever file they are in.
        self._known: dict[tuple[str, str], Site | None] = {}
        self._modules: dict[str, str | None] = {}
        self._installed: dict[str, bool] = {}
        self._ids: dict[tuple[Site | None, str, str], str] = {}

    @property
    def roots(self) -> tuple[str, ...]:
        """The agent's folders, links followed."""
        return tuple(self._roots)

    def own(self, code: CodeType) -> Site | None:
        """The site of a code object; None where it is not the agent's own."""
        key = (code.co_filename, code.co_qualname)
        try:
            return self._known[key]
        except KeyError:
            found = self._known[key] = self._found(*key)
            return found

    def module(self, file: str) -> str | None:
        """What a file's module is called on a tape; None where it is not the agent's own."""
        try:
            return self._modules[file]
        except KeyError:
            found = self._modules[file] = self._told(file)
            return found

    def first(self, frame: FrameType | None) -> Site | None:
        """The first own site from a frame outwards; None where there is none."""
        own = self.own
        while frame is not None:
            found = own(frame.f_code)
            if found is not None:
                return found
            frame = frame.f_back
        return None

    def place(self, frame: FrameType | None) -> str | None:
        """File, line and function of the first own frame from one outwards, for a person; the file
        is told from its root. None where there is no such frame."""
        while frame is not None:
            code = frame.f_code
            if self.own(code) is not None:
                file = _real(code.co_filename)
                root = next((one for one in self._roots if file.startswith(one + os.sep)), "")
                file = file[len(root) + 1 :] if root else file
                return f"{file}:{frame.f_lineno} in {code.co_name}"
            frame = frame.f_back
        return None

    def id_of(self, site: Site | None, seam: str, label: str) -> str:
        """A site's id on a tape (``s:<16 hex>``)."""
        key = (site, seam, label)
        found = self._ids.get(key)
        if found is None:
            module, qualname = ("", "") if site is None else (site.module, site.qualname)
            found = self._ids[key] = site_of(module, qualname, seam, label)
        return found

    def is_asked_by_own(self, frame: FrameType | None) -> bool:
        """Whether the nearest frame beyond the standard library and us is the agent's."""
        while frame is not None:
            if self.own(frame.f_code) is not None:
                return True
            ours = _real(frame.f_code.co_filename).startswith(_OURS + os.sep)
            if not ours and not self.is_library(frame.f_code):
                return False
            frame = frame.f_back
        return False

    def is_library(self, code: CodeType) -> bool:
        """Whether a code object is of the standard library, or of no file."""
        place = _real(code.co_filename)
        if _INSTALLED.intersection(Path(place).parts):
            return False
        return code.co_filename.startswith("<") or place.startswith(self._library + os.sep)

    def _found(self, file: str, qualname: str) -> Site | None:
        module = self.module(file)
        if module is None:
            return None
        for inner in _INNER:
            qualname = qualname.removesuffix(inner)
        return Site(module, qualname)

    def _told(self, file: str) -> str | None:
        if file.startswith("<") or self._is_installed(os.path.dirname(file)):  # noqa: PTH120
            return None
        place = _real(file)
        for root in self._roots:
            if not place.startswith(root + os.sep):
                continue
            if _INSTALLED.intersection(Path(place).parts) or self._is_foreign(place, root):
                return None
            module = place[len(root) + 1 :].removesuffix(".py").replace(os.sep, ".")
            return module.removesuffix(".__init__")
        return None

    def _is_installed(self, folder: str) -> bool:
        """Whether a folder is one of packages, or the library's; most files' are, and few folders
        hold them all."""
        found = self._installed.get(folder)
        if found is None:
            place = os.path.realpath(folder)
            library = place.startswith(self._library) and not any(
                root.startswith(self._library) for root in self._roots
            )
            found = library or not _INSTALLED.isdisjoint(Path(place).parts)
            self._installed[folder] = found
        return found

    def _is_foreign(self, place: str, root: str) -> bool:
        """Whether a file is in a folder that is not the agent's, though below its root."""
        return any(
            place.startswith(folder + os.sep) and len(folder) >= len(root)
            for folder in self._foreign
        )


def _real(file: str) -> str:
    """Where a file is, links followed: as far as its folder goes, which is asked once."""
    folder, name = os.path.split(file)
    return os.path.join(real_folder(folder), name)  # noqa: PTH118 - for every module there is


@functools.lru_cache(maxsize=4096)
def real_folder(folder: str) -> str:
    """Where a folder is, links followed; asked once."""
    return os.path.realpath(folder)
