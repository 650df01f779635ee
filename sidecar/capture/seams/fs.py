"""The seam FS: files that an agent's own files read, write, list and move.

**Rules**
1. What is asked of the file system is a call and its result: ``open``, then a ``read`` or ``write``
   with the content (``fs_file``); ``os.stat``, ``os.listdir`` and their like by their answers;
   ``os.rename``, ``shutil.copy`` and their like by what they were given. ``pathlib``, ``glob``,
   ``gzip`` and ``zipfile`` are looked through to these.
2. Played, nothing is read from the disk and nothing written to it; what the agent reads back of
   what it wrote was recorded as any read. Libraries see the disk as it is.
3. Where links lead (``realpath``, ``Path.resolve``), where the working directory and home are, is
   asked live: it places the agent's own files on this machine.
4. A file told by number, and functions told a ``dir_fd``, are left alone.
"""

import builtins
import inspect
import io
import os
import pathlib
import shutil
from typing import Any, Final

from sidecar.capture.seams import fs_numbers, fs_temporary
from sidecar.capture.seams.ambient import ask, described
from sidecar.capture.seams.fs_file import settle_all
from sidecar.capture.seams.fs_list import Entry, Listing, kinds_of
from sidecar.capture.seams.fs_open import open_
from sidecar.capture.seams.fs_place import is_path, path_back, path_told, place
from sidecar.capture.seams.lanes import muted
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.told import read_back, told
from sidecar.capture.seams.wrapping import Handler, Wrapping, as_own

# Function: how many of its first arguments are paths.
_OS: Final = {
    **dict.fromkeys(("listdir", "readlink", "stat", "lstat", "access", "mkdir", "rmdir"), 1),
    **dict.fromkeys(("remove", "unlink", "chmod", "lchmod", "utime", "truncate", "mkfifo"), 1),
    **dict.fromkeys(("rename", "replace", "link", "symlink"), 2),
    **dict.fromkeys(("getxattr", "setxattr", "listxattr", "removexattr", "chown"), 1),
}
_OS_PATH: Final = {
    **dict.fromkeys(("exists", "lexists", "isfile", "isdir", "islink", "ismount", "isjunction"), 1),
    **dict.fromkeys(("getsize", "getmtime", "getatime", "getctime"), 1),
    "samefile": 2,
}
_SHUTIL: Final = {
    **dict.fromkeys(("copyfile", "copymode", "copystat", "copy", "copy2", "copytree", "move"), 2),
    **dict.fromkeys(("rmtree", "chown", "make_archive", "unpack_archive"), 1),
}


def install(session: Session) -> None:
    """Stand in for ``open`` and for what ``os``, ``os.path``, ``shutil`` and ``tempfile`` do."""
    wrapping = Wrapping(session)
    wrapping.function(builtins, "open", open_)
    wrapping.function(io, "open", open_)
    for module, called, names in (
        (os, "os", _OS),
        (os.path, "os.path", _OS_PATH),
        (shutil, "shutil", _SHUTIL),
    ):
        for name, paths in names.items():
            wrapping.function(module, name, _call(f"{called}.{name}", paths))
    wrapping.function(os, "scandir", _scan)
    wrapping.method(pathlib.Path, "resolve", _live)
    fs_numbers.stand_in(wrapping)
    fs_temporary.stand_in(wrapping)
    wrapping.bind()
    session.on_end(settle_all)


def _call(name: str, paths: int) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
        where, more = _placed(real, args, kwargs, paths)
        if not _is_told(where, kwargs):
            return real(*args, **kwargs)
        return ask(
            session,
            "fs",
            name,
            lambda: real(*args, **kwargs),
            given=_given(session, where, more),
            tell=lambda value: path_told(session, value),
            back=lambda out: path_back(session, out),
            kind="tool_call",
        )

    return handle


def _live(session: Session, real: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    with muted():
        return real(*args, **kwargs)


def _scan(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    (path,) = args or kwargs.values() or (".",)
    path = "." if path is None else path
    if not is_path(path):
        return real(*args, **kwargs)

    def scanned() -> list[Any]:
        with real(path) as entries:
            return [[told(entry.name), kinds_of(entry)] for entry in entries]

    listed = ask(
        session,
        "fs",
        "os.scandir",
        scanned,
        given={"path": place(session, path)},
        tell=lambda value: value,
        back=lambda value: value,
        kind="tool_call",
    )
    return Listing(
        [Entry(os.fspath(path), read_back(name), kinds, _state) for name, kinds in listed]
    )


def _state(path: Any, follow: bool) -> Any:
    return as_own(os, "stat" if follow else "lstat", path)


def _placed(real: Any, args: Any, kwargs: Any, paths: int) -> tuple[list[Any], dict[str, Any]]:
    """The paths a function was given, and all else."""
    if not args and not kwargs:
        return ["."], {}  # the working directory is listed
    if len(args) >= paths:
        more = {"args": args[paths:]} if len(args) > paths else {}
        return list(args[:paths]), {**more, **kwargs}
    try:
        bound = inspect.signature(real).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return [], {}  # it is refused
    names = list(inspect.signature(real).parameters)[:paths]
    return [bound.get(name) for name in names], {
        name: one for name, one in bound.items() if name not in names
    }


def _is_told(paths: list[Any], kwargs: Any) -> bool:
    by_number = any(kwargs.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"))
    return not by_number and bool(paths) and all(map(is_path, paths))


def _given(session: Session, paths: list[Any], more: dict[str, Any]) -> Any:
    where = [place(session, one) for one in paths]
    given = dict(zip(("path", "to"), where, strict=False))
    named = {key: one for key, one in more.items() if one is not None}
    if named:
        given["with"] = {key: described((one,))[0] for key, one in named.items()}
    return given
