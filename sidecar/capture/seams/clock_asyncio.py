"""The seam CLOCK in asyncio: ``asyncio.sleep`` and ``loop.time`` called from own files.

**Rules**
1. Played, a sleep lets the others run once and comes back when it is its turn.
2. The loop itself, and every library on it, keeps its clock: timeouts are real.
"""

import asyncio
from typing import Any

from sidecar.capture.seams.ambient import ask, failed, payload, played
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.told import read_back, told
from sidecar.capture.seams.wrapping import Wrapping


def install(session: Session) -> None:
    """Stand in for asyncio's sleep and its loops' time."""
    wrapping = Wrapping(session)
    wrapping.function(asyncio, "sleep", _sleep)
    wrapping.function(asyncio.tasks, "sleep", _sleep)
    wrapping.method(asyncio.BaseEventLoop, "time", _loop_time)
    wrapping.bind()


def _loop_time(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    return ask(session, "clock", "loop.time", lambda: real(*args, **kwargs), back=float)


def _sleep(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    return _slept(session, real, *args, **kwargs)


async def _slept(session: Session, real: Any, delay: float, result: Any = None) -> Any:
    x = session.enter(
        kind="decision",
        seam="clock",
        name="asyncio.sleep",
        given=payload(told, [delay]),
        label="asyncio.sleep",
        awaited=True,
    )
    if x.played:
        try:
            await real(0)
        except BaseException:
            if x.status == "cancelled":
                x.cancelled()  # as it was, and others wait for that
            raise
        await x.arrive()
        played(x, read_back)
        return result
    try:
        await real(delay)
    except BaseException as error:
        failed(x, error)
        raise
    x.done(None)
    return result
