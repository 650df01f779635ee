"""No way out of a process that is replayed strictly: no connection, no name looked up, no program
started from the agent's own code, nor from a process it forked.

**Rules**
1. Sockets between processes of this machine (AF_UNIX, pairs) stay: event loops need them.
2. What the agent's own code causes is a drift. What a library does of itself (telemetry from a
   thread of its own) is refused as a connection that failed, and counted.
3. Where models are live only what the agent's own code causes outside of them is a drift; a fork
   is not guarded.
4. A forked child is guarded too. There a way out fails as a connection or a program does; what the
   agent's own code tried is a drift of the run, told at its end.
5. Python calls an audit hook for good; it does nothing once the session is over.
6. While it is recorded nothing is refused: programs that start unseen are counted, since a strict
   replay will stop there.
"""

import mmap
import os
import socket
import sys
from typing import Any, Final

from sidecar.capture.play import Drifted
from sidecar.capture.seams.lanes import MUTE
from sidecar.capture.seams.session import Session, active

_ADDRESSED: Final = frozenset(("socket.connect", "socket.sendto", "socket.sendmsg"))
_NAMED: Final = frozenset(
    ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
)
_STARTED: Final = frozenset(
    (
        *("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.spawn", "os.startfile"),
        *("pty.spawn", "_winapi.CreateProcess"),
    )
)
_UNIX: Final = getattr(socket, "AF_UNIX", None)
_ALL: Final = _ADDRESSED | _NAMED | _STARTED
_PROGRAM: Final = "a program would be started"
_hooked = False
_forked: tuple[Session, bool] | None = None  # in a child: whose, and whether strictly
_tried: mmap.mmap | None = None  # shared with children: own code's attempts, libraries'


def guard(session: Session, *, strict: bool = True) -> None:
    """Guard a replay until its session ends; not ``strict``: what libraries do is let through."""
    global _tried
    assert session is active()
    _hook()
    _guarded[session] = strict
    tried = _tried = mmap.mmap(-1, 2)

    def undo() -> None:
        _guarded.pop(session, None)
        session.refused += tried[1]
        if tried[0] and session.drift is None:
            try:
                session.refuse("a process that the agent forked would go out")
            except Drifted:
                pass  # told with the run's end

    session.on_end(undo)


def watch(session: Session) -> None:
    """Count in ``session.unseen`` what a recording does not see, until its session ends."""
    _hook()
    _watched.add(session)
    session.on_end(lambda: _watched.discard(session))


def _hook() -> None:
    global _hooked
    if not _hooked:
        sys.addaudithook(heard)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child)
        _hooked = True


_guarded: dict[Session, bool] = {}
_watched: set[Session] = set()


def is_guarded(session: Session) -> bool:
    """Whether a session's process has a guard, or is watched."""
    return session in _guarded or session in _watched


def heard(event: str, args: tuple[Any, ...]) -> None:
    """An audit event, or what Python has none for under the name of one that is alike.

    Raises Drifted or OSError where it is a way out.
    """
    if event not in _ALL or not (_guarded or _watched):
        return
    if _forked is not None:
        _heard_in_child(event, args)
        return
    session = active()
    if session in _watched:
        started = event in _STARTED and not MUTE.get()  # muted: in what is recorded
        session.unseen += started and session.sites.is_asked_by_own(sys._getframe(1))
    if session is None or session not in _guarded:
        return
    if not _guarded[session] and (MUTE.get() or session.own_frame() is None):
        return  # inside what the mode lets go live, or none of the agent's own
    if event in _ADDRESSED:
        if _stays_here(event, args):
            return
        if sys._getframe(1).f_code.co_name == "socketpair":  # Windows makes pairs of loopback ones
            return
        _refuse(session, "the network would be asked")
    elif event in _NAMED:
        _refuse(session, "a name would be looked up")
    elif session.sites.is_asked_by_own(sys._getframe(1)):
        session.refuse(_PROGRAM)


def _stays_here(event: str, args: tuple[Any, ...]) -> bool:
    """Whether a socket is one between processes of this machine."""
    family = getattr(args[0], "family", None)
    return family == _UNIX or (event == "socket.sendmsg" and args[1] is None)


def _in_child() -> None:
    """This process was forked: a child's child is one, too."""
    global _forked
    if _forked is None and _guarded:
        _forked = next(iter(_guarded.items()))


def _heard_in_child(event: str, args: tuple[Any, ...]) -> None:
    assert _forked is not None and _tried is not None
    session, strict = _forked
    if event in _ADDRESSED and _stays_here(event, args):
        return
    own = session.own_frame() is not None
    if not own and (not strict or event in _STARTED):
        return
    _tried[0 if own else 1] = min(255, _tried[0 if own else 1] + 1)
    if event in _STARTED:
        raise PermissionError(f"strict replay: {_PROGRAM}")
    raise ConnectionRefusedError("strict replay: a forked process would go out")


def _refuse(session: Session, reason: str) -> None:
    if session.own_frame() is not None:
        session.refuse(reason)
    session.refused += 1
    raise ConnectionRefusedError(f"strict replay: {reason}")
