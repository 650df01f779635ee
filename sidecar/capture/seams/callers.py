"""Whose a call is: told by the file of the frame it comes from, at the price of one look.

**Rules**
1. ``KNOWN`` maps files to whether they are the agent's own. It holds for one session and is empty
   where there is none: then no call is the agent's.
2. A file that is looked through belongs to whoever called it: ``Path.read_text`` is a read of its
   caller's, and so are ``os.environ.get`` and a default that a pydantic model is made with. Nothing
   else is: a library that the agent calls keeps its clock, its dice and its files.
3. What a pool is given to do (``to_thread(time.time)``) is the agent's where its own code gave it.
4. Code of no file (``<string>``: what ``dataclass`` writes) belongs to the module it runs in.
"""

import os
from collections.abc import Iterator
from types import FrameType
from typing import Final

from sidecar.capture.seams.lanes import MUTE, muted
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.sites import Sites

KNOWN: Final[dict[str, bool]] = {}
FOREIGN: Final[set[str]] = set()  # those of them that are not
_LOOKED_THROUGH: Final = (
    *("os", "_collections_abc", "pathlib", "pathlib._local", "pathlib._abc", "pathlib._os"),
    *("glob", "codecs", "fileinput", "configparser", "gzip", "bz2", "lzma", "zipfile"),
)
_MAKERS: Final = tuple(  # of objects, which call what their class was given
    os.path.join("site-packages", "pydantic", name)  # noqa: PTH118 - as the frames spell it
    for name in ("main.py", "root_model.py", "_internal" + os.sep + "_dataclasses.py")
)
_LIBRARY: Final = os.path.dirname(os.__file__)  # noqa: PTH120 - as the frames spell it
_HERE: Final = os.path.dirname(__file__)  # noqa: PTH120
_POOLS: Final = os.path.join(_HERE, "threads.py")  # noqa: PTH118
_sites: Sites | None = None


def begin(session: Session) -> None:
    """Know this session's own files; forgotten when it ends. Twice is once."""
    global _sites
    if _sites is not session.sites:
        _forget()
        _sites = session.sites
        session.on_end(_forget)


def is_own(frame: FrameType | None) -> bool:
    """Whether a call from this frame is the agent's own."""
    if _sites is None:
        return False
    while frame is not None:
        name = frame.f_code.co_filename
        known = KNOWN.get(name)
        if known is not None:
            return known
        if name in THROUGH or name.endswith(_MAKERS):
            frame = frame.f_back
        elif name == _POOLS:
            return getattr(frame.f_locals.get("lane"), "own", False)
        elif name[:1] != "<":
            return is_own_file(name)
        elif name.startswith("<frozen "):
            FOREIGN.add(name)
            return False
        else:
            file = frame.f_globals.get("__file__")
            if file is not None:
                return is_own_file(file)
            frame = frame.f_back
    return False


def is_own_file(name: object) -> bool:
    """Whether a file is the agent's own."""
    sites = _sites
    if sites is None or not isinstance(name, str):
        return False
    if name in THROUGH or name == _POOLS or name.endswith(_MAKERS):
        return False
    found = KNOWN.get(name)
    if found is None:
        if MUTE.get():
            return False
        with muted():  # finding out asks the disk
            KNOWN[name] = found = sites.module(name) is not None
        if not found:
            FOREIGN.add(name)
    return found


def is_handed_by_own(frame: FrameType | None) -> bool:
    """Whether the nearest code that is neither Python's nor ours is the agent's own."""
    while frame is not None:
        name = frame.f_code.co_filename
        passes = name.startswith(("<", _HERE)) or (
            name.startswith(_LIBRARY) and "site-packages" not in name
        )
        if not passes or KNOWN.get(name):
            return is_own_file(name)
        frame = frame.f_back
    return False


def _forget() -> None:
    global _sites
    _sites = None
    KNOWN.clear()
    FOREIGN.clear()


def _through() -> Iterator[str]:
    for name in _LOOKED_THROUGH:
        place = os.path.join(_LIBRARY, *name.split("."))  # noqa: PTH118
        yield from (f"<frozen {name}>", f"{place}.py", os.path.join(place, "__init__.py"))  # noqa: PTH118


THROUGH: Final = frozenset(_through())
