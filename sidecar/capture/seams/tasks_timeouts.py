"""SCHEDULER, asyncio: how a ``wait_for`` of the agent's own files ended, by itself or by its time.

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

from sidecar.capture.seams.session import Crossing, Session
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
