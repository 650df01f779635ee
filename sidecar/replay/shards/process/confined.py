"""A worker reaches nothing but twins: no network, no other program.

Rules
1. Two walls. On Linux the process moves into a network namespace of its own, where there is no
   interface that is up: the kernel lets nothing out, whatever the agent's code does. Everywhere an
   audit hook refuses sockets and new processes, and says which was tried.
2. The hook is no wall against code that means harm (it runs in the same interpreter); the
   namespace is one. Where the system grants none, only the hook stands, and ``namespace`` is False.
3. What was tried is told even where the agent swallowed the refusal: its episode is void.
4. What an agent has to load, it loads when it is imported; calls are confined, imports are not.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

_REFUSED = (
    *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"),
    *("socket.gethostbyname", "socket.gethostbyaddr", "subprocess.Popen", "os.system", "os.exec"),
    *("os.posix_spawn", "os.spawn", "os.startfile", "os.fork", "os.forkpty", "pty.spawn"),
)
_TRIED_MAX = 5
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


class EgressDenied(PermissionError):
    """What an agent under replay tried, and may not."""


class Confinement:
    """The hook of this process; made once, since a hook cannot be taken back."""

    def __init__(self) -> None:
        self.namespace = False
        self._on = False
        self._tried: list[str] = []
        sys.addaudithook(self._audit)

    @contextmanager
    def confined(self) -> Iterator[list[str]]:
        """Refuse while the block runs; what was tried in it."""
        self._tried, self._on = [], True
        try:
            yield self._tried
        finally:
            self._on = False

    def move_out(self) -> None:
        """Leave the network for good, where the system lets a process do so.

        To be called before the process has a second thread.
        """
        self.namespace = self.namespace or _unshared()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on or event not in _REFUSED:
            return
        if len(self._tried) < _TRIED_MAX:
            self._tried.append(_said(event, arguments))
        raise EgressDenied(
            f"{event} is refused in a replay: agents reach nothing but the twins' tools"
        )


@cache
def confinement() -> Confinement:
    """This process' own."""
    return Confinement()


def _said(event: str, arguments: tuple[Any, ...]) -> str:
    shown = [repr(one) for one in arguments if isinstance(one, str | tuple | bytes | int)]
    return f"{event}({', '.join(shown)})"[:200]


def _unshared() -> bool:
    if sys.platform != "linux":
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        user, group = os.getuid(), os.getgid()
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            return False
        # Files are still this user's: without a map the process would be nobody.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except (OSError, AttributeError):
        return False
    return True
