"""Where a file is, told so that it is one on every machine.

**Rules**
1. What is below the agent's folder is told from there, with ``/``; else from the working directory,
   the folder of temporary files, or home: ``{cwd}/x``, ``{tmp}/x``, ``~/x``. The rest is absolute.
2. ``expanded`` gives a path that is told so here.
3. Nothing here asks the disk: links are not followed.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

from sidecar.capture.seams.session import Session
from sidecar.capture.seams.sites import real_folder
from sidecar.capture.seams.told import read_back, told

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def is_path(value: Any) -> bool:
    """Whether a value names a file by its place; a number names one that is open."""
    return isinstance(value, str | bytes) or hasattr(type(value), "__fspath__")


def place(session: Session, path: Path) -> Any:
    """A path as a payload."""
    text = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - no link is followed
    plain = os.path.normcase(text)
    for name, folder in _folders(session):
        if plain == os.path.normcase(folder):
            return name or "."
        if plain.startswith(os.path.normcase(folder).rstrip(os.sep) + os.sep):
            rest = text[len(folder) :].strip(os.sep).replace(os.sep, "/")
            return told(f"{name}/{rest}" if name else rest)
    return told(text.replace(os.sep, "/"))


def path_told(session: Session, path: Any) -> Any:
    """A path that was answered; ``path_back`` gives one of its kind."""
    if isinstance(path, str) and os.path.isabs(path):  # noqa: PTH117
        return {"place": place(session, path)}
    return {"value": told(path)}


def path_back(session: Session, out: Any) -> Any:
    """A path that was answered, here."""
    return expanded(session, out["place"]) if "place" in out else read_back(out["value"])


def expanded(session: Session, payload: Any) -> str:
    """A place as a path of this machine."""
    text = str(read_back(payload))
    folders = dict(reversed([*_folders(session)]))
    head, _, rest = text.partition("/")
    if head in folders and head:
        return os.path.join(folders[head], *rest.split("/")) if rest else folders[head]  # noqa: PTH118
    if text.startswith("/") or os.path.splitdrive(text)[0]:
        return text.replace("/", os.sep)
    return os.path.join(folders[""], text.replace("/", os.sep)) if text != "." else folders[""]  # noqa: PTH118


def _folders(session: Session) -> Iterator[tuple[str, str]]:
    """Folders and what they are called; who finds what he looks for asks for no more."""
    yield from (("", root) for root in session.sites.roots)
    yield "{cwd}", os.getcwd()  # noqa: PTH109
    temporary = tempfile.gettempdir()
    yield "{tmp}", temporary
    yield "{tmp}", real_folder(temporary)
    yield "~", os.path.expanduser("~")  # noqa: PTH111
