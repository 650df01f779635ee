"""No way out of a process that is replayed strictly: no connection, no name looked up, no program
started from the agent's own code.

**Rules**
1. Sockets between processes of this machine (AF_UNIX, pairs) stay: event loops need them.
2. What the agent's own code causes is a drift. What a library does of itself (telemetry from a
   thread of its own) is refused as a connection that failed, and counted.
3. Where models are live only what the agent's own code causes outside of them is a drift; a fork
   is not guarded.
4. Python calls an audit hook for good; it does nothing once the session is over.
"""

import socket
import sys
from typing import Any, Final

from sidecar.capture.seams.lanes import MUTE
from sidecar.capture.seams.session import Session, active

_ADDRESSED: Final = frozenset(("socket.connect", "socket.sendto", "socket.sendmsg"))
_NAMED: Final = frozenset(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"))
_STARTED: Final = frozenset(("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"))
_UNIX: Final = getattr(socket, "AF_UNIX", None)
_ALL: Final = _ADDRESSED | _NAMED | _STARTED
_hooked = False


def guard(session: Session, *, strict: bool = True) -> None:
    """Guard a replay until its session ends; not ``strict``: what libraries do is let through."""
    global _hooked
    assert session is active()
    if not _hooked:
        sys.addaudithook(_heard)
        _hooked = True
    _guarded[session] = strict

    def undo() -> None:
        _guarded.pop(session, None)

    session.on_end(undo)


_guarded: dict[Session, bool] = {}


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if event not in _ALL or not _guarded:
        return
    session = active()
    if session is None or session not in _guarded:
        return
    if not _guarded[session] and (MUTE.get() or session.own_frame() is None):
        return  # inside what the mode lets go live, or none of the agent's own
    if event in _ADDRESSED:
        family = getattr(args[0], "family", None)
        if family == _UNIX or (event == "socket.sendmsg" and args[1] is None):
            return
        if sys._getframe(1).f_code.co_name == "socketpair":  # Windows makes pairs of loopback ones
            return
        _refuse(session, "the network would be asked")
    elif event in _NAMED:
        _refuse(session, "a name would be looked up")
    elif session.sites.is_asked_by_own(sys._getframe(1)):
        session.refuse("a program would be started")


def _refuse(session: Session, reason: str) -> None:
    if session.own_frame() is not None:
        session.refuse(reason)
    session.refused += 1
    raise ConnectionRefusedError(f"strict replay: {reason}")
