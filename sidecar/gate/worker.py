"""A process that makes a verdict again from a bundle it is handed, and can do nothing else.

**Rules**
1. It is started with no environment, in an empty folder, without the store: it asks on stdout for
   the files of the bundle, which come in on stdin, and says there what it comes to.
2. Once all code is loaded, an audit hook that cannot be taken back refuses network, processes,
   databases, and every file but the program's own: a tool, a twin or a store cannot be reached.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

_DENIED = ("socket.", "subprocess.", "sqlite3.", "ctypes.dlopen", "os.exec", "os.posix_spawn")
_ALSO = frozenset(
    {
        *("os.fork", "os.forkpty", "os.spawn", "os.system", "os.startfile", "os.remove"),
        *("os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"),
        *("shutil.rmtree", "shutil.copyfile", "webbrowser.open", "urllib.Request"),
    }
)


def main() -> None:
    """Ask for the files of a bundle, say what it comes to."""
    from sidecar.gate.asked import Asking
    from sidecar.gate.examine import derive, needs_statistics

    files = Asking(sys.stdin.buffer, sys.stdout.buffer)
    if needs_statistics(files):
        importlib.import_module("sidecar.gate.sampled")  # a second, which others need not wait
    _seal()
    files.tell(derive(files))


def _seal() -> None:
    roots = tuple(
        str(Path(one).resolve()) for one in (*sys.path, sys.prefix, sys.base_prefix) if one
    )

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_DENIED) or event in _ALSO:
            _refused(event)
        if event == "open" and not _own(arguments, roots):
            _refused(f"open {arguments[0]!r}")

    sys.addaudithook(refuse)


def _own(arguments: tuple[Any, ...], roots: tuple[str, ...]) -> bool:
    path, _, flags = arguments
    if isinstance(path, int):
        return True  # what is open already
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    return not flags & writes and os.fsdecode(path).startswith(roots)


def _refused(what: str) -> NoReturn:
    raise PermissionError(f"{what} is not allowed where a verdict is made again")
