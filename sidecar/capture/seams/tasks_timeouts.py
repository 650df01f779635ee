"""SCHEDULER, asyncio: how ``wait_for`` and ``timeout`` of the agent's own files ended.

**Rules**
1. Recorded: a decision, whether the time was up (``timed_out``); what was waited for comes before.
2. Replayed: where it was up it is again, whatever came meanwhile; where it was not there is no
   limit. In a strict replay it comes to that when it is due.
3. Who waits without a limit decides nothing; neither does who is stopped from outside, which is no
   event: whether it had begun to wait is a matter of time.
"""

import asyncio
import math
from asyncio import tasks
from typing import Any

from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.sites import Site


async def timed(session: Session, site: Site, fut: Any, limit: Any, real: Any, joined: Any) -> Any:
    """``wait_for(fut, limit)`` as a decision; ``real``: Python's, ``joined`` takes over causes."""
    task = asyncio.ensure_future(fut)
    x = session.enter(
        kind="decision",
        seam="scheduler",
        name="asyncio.wait_for",
        given={"timeout": _told(limit)},
        site=site,
        label="asyncio.wait_for",
        awaited=True,
        silent=True,
    )
    if not x.played:
        return await _recorded(x, task, limit, real, joined)
    if x.out["timed_out"]:
        return await _expired(session, x, task, limit, joined)
    try:
        await real(task, None)
    except Exception:  # noqa: S110  it is the task's, and is raised when it is due
        pass
    except BaseException:
        joined(task)  # stopped from outside, as it was not when it was recorded: it is not over
        raise
    joined(task)
    x.settle()
    await x.arrive()
    return task.result()


async def _recorded(x: Crossing, task: Any, limit: Any, real: Any, joined: Any) -> Any:
    try:
        return await real(task, None if x.absent else limit)
    except BaseException as error:
        if not isinstance(error, Exception):
            joined(task)
            x.cancelled()
        raise
    finally:
        joined(task)
        x.settle()
        x.done({"timed_out": task.cancelled() or _was_told_to_stop(task)})


async def _expired(session: Session, x: Crossing, task: Any, limit: Any, joined: Any) -> Any:
    over = False
    try:
        await tasks.wait([task], timeout=limit)
        await session.turn(x)
        over = task.done()
    finally:
        if not task.done():
            task.cancel()
            await tasks.wait([task])
        _over(x, task, joined)
    if over and not task.cancelled():
        task.exception()  # nobody is told: it came too late
    if over or task.cancelled():
        raise TimeoutError
    return task.result()


def _over(x: Crossing, task: Any, joined: Any) -> None:
    joined(task)
    x.settle()
    x.done()


def _was_told_to_stop(task: Any) -> bool:
    """Whether a task that goes on, or failed otherwise, was cancelled before."""
    return bool(getattr(task, "cancelling", int)())


def _told(limit: Any) -> float | None:
    number = float(limit)
    return number if math.isfinite(number) else None


def blocks(session: Session) -> None:
    """Patch the blocks of ``asyncio.timeout`` and ``timeout_at``, where there are such."""
    kind: Any = getattr(asyncio, "Timeout", None)
    if kind is None:
        return
    enter, leave = kind.__aenter__, kind.__aexit__

    def aenter(self: Any) -> Any:
        seen = current()
        site = None if seen is None or self.when() is None else seen.caller()
        return enter(self) if seen is None or site is None else entered(self, seen, site)

    async def entered(self: Any, seen: Session, site: Site) -> Any:
        x = seen.enter(
            kind="decision",
            seam="scheduler",
            name="asyncio.timeout",
            site=site,
            label="asyncio.timeout",
            awaited=True,
            silent=True,
        )
        self._agenttwin = seen, x
        if x.absent is None and (not x.played or x.out["timed_out"]):
            return await enter(self)
        when, self._when = self._when, None  # it does not come
        found = await enter(self)
        self._when = when
        return found

    async def aexit(self: Any, *error: Any) -> Any:
        seen, x = self.__dict__.pop("_agenttwin", (None, None))
        if x is None:
            return await leave(self, *error)
        stopped = error[0] is not None and not issubclass(error[0], Exception)
        if not x.played:
            if stopped and not self.expired():
                x.cancelled()
            x.settle()
            x.done({"timed_out": self.expired()})
            return await leave(self, *error)
        if self.expired() > x.out["timed_out"] or (stopped and not self.expired()):
            return await leave(self, *error)  # not as recorded: it is not over, and so a drift
        early = x.out["timed_out"] and not self.expired()
        await seen.turn(x)
        x.settle()
        x.done()
        if early:
            await leave(self, None, None, None)
            raise TimeoutError
        return await leave(self, *error)

    patch(session, kind, "__aenter__", aenter)
    patch(session, kind, "__aexit__", aexit)
