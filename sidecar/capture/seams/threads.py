"""SCHEDULER, threads: lanes for what threads and pools are given to do, joined by who waits.

**Rules**
1. A thread of the agent's (``threading.Thread`` or a class of its own files) is a lane, and so is
   each piece of work for a ``ThreadPoolExecutor``. A library's own kinds of threads are none: they
   work in the contexts they are handed.
2. ``join``, ``result`` and ``exception`` take over what the other had done.
3. Started inside a seam, it is mute as the seam is.
"""

import sys
import threading
from concurrent import futures
from typing import Any, Final

from sidecar.capture.seams.callers import is_handed_by_own
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.lanes import HERE, LANE, MUTE, Lane, muted
from sidecar.capture.seams.session import Session, current

_LANE: Final = "_agenttwin_lane"
_WORKER: Final = "concurrent.futures.thread"


def install(session: Session) -> None:
    """Patch threads and pools."""
    start, join = threading.Thread.start, threading.Thread.join

    def start_(self: threading.Thread) -> None:
        if _is_worker(self):
            start(self)
            return
        mute = MUTE.get()
        seen = None if mute else current()
        lane = None
        if seen is not None and _is_agents(session, self):
            lane = seen.lane().start(work=True)
            setattr(self, _LANE, lane)
        if lane is not None or mute:
            _wrap(session, self, lane, mute=mute)
        start(self)

    def join_(self: threading.Thread, timeout: float | None = None) -> None:
        join(self, timeout)
        if not self.is_alive():
            _joined(session, getattr(self, _LANE, None))

    patch(session, threading.Thread, "start", start_)
    patch(session, threading.Thread, "join", join_)
    _install_pools(session)


def _install_pools(session: Session) -> None:
    pool = futures.ThreadPoolExecutor
    submit = pool.submit

    def submit_(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        seen = current()
        if seen is None:
            if not MUTE.get():
                return submit(self, fn, *args, **kwargs)
            return submit(self, _muted, fn, args, kwargs)
        lane = seen.lane().start(work=True)
        lane.own = is_handed_by_own(sys._getframe(1))
        session.began(lane)
        try:
            future = submit(self, _worked, lane, fn, args, kwargs)
        except BaseException:
            session.finished(lane)
            raise
        future.add_done_callback(lambda _: session.finished(lane))
        setattr(future, _LANE, lane)
        return future

    def joining(real: Any) -> Any:
        def ended(self: Any, timeout: float | None = None) -> Any:
            try:
                return real(self, timeout)
            finally:
                if self.done():
                    _joined(session, lane_of(self))

        return ended

    patch(session, pool, "submit", submit_)
    for name in ("result", "exception"):
        patch(session, futures.Future, name, joining(getattr(futures.Future, name)))


def lane_of(future: Any) -> Lane | None:
    """The lane of a pool's future."""
    found: Lane | None = getattr(future, _LANE, None)
    return found


def is_known(thread: threading.Thread) -> bool:
    """Whether a thread is a pool's, or a lane's: we know when it is at work."""
    return hasattr(thread, _LANE) or _is_worker(thread)


def _worked(lane: Lane, fn: Any, args: Any, kwargs: Any) -> Any:
    """A piece of work, in its lane."""
    before, HERE.work = HERE.work, lane
    token, mute = LANE.set(lane), MUTE.set(False)
    try:
        return fn(*args, **kwargs)
    finally:
        HERE.work = before
        LANE.reset(token)
        MUTE.reset(mute)


def _muted(fn: Any, args: Any, kwargs: Any) -> Any:
    with muted():
        return fn(*args, **kwargs)


def _wrap(session: Session, thread: threading.Thread, lane: Lane | None, *, mute: bool) -> None:
    run = thread.run

    def run_() -> None:
        del thread.run
        HERE.work = lane
        LANE.set(lane)
        MUTE.set(mute)
        try:
            run()
        finally:
            if lane is not None:
                session.finished(lane)

    if lane is not None:
        session.began(lane)
    thread.run = run_  # type: ignore[method-assign]


def _joined(session: Session, lane: Lane | None) -> None:
    if lane is not None and current() is session:
        session.lane().join(lane)


def _is_agents(session: Session, thread: threading.Thread) -> bool:
    kind = type(thread)
    if kind in (threading.Thread, threading.Timer):
        return True
    run = getattr(kind.run, "__code__", None)
    return run is not None and session.sites.own(run) is not None


def _is_worker(thread: threading.Thread) -> bool:
    target = getattr(thread, "_target", None)
    return getattr(target, "__module__", None) == _WORKER
