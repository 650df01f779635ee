"""SCHEDULER, asyncio: lanes for tasks, joined by who awaits; and in a replay, time that passes only
as far as it must.

**Rules**
1. A task is a lane. ``await``, ``gather``, ``wait``, ``wait_for``, task groups and the end of
   ``asyncio.run`` take over what the others had done.
2. The first task of a loop is who runs the loop, and no lane of its own.
3. Recorded: ``asyncio.wait`` and ``as_completed`` of the agent's own files, as which of the given
   were done, by their place; replayed, the same are. So is how ``wait_for`` and ``timeout`` ended.
4. In a strict replay a loop that has nothing to do does not wait: its clock goes to its next timer,
   and where there is none, the earliest answer that is waited for is handed over. Where threads
   are at work it waits for them, as long as it may be that they go on.
"""

import asyncio
import functools
import selectors
import sys
import threading
import types
import weakref
from asyncio import base_events, events, tasks
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

from sidecar.capture.seams.ambient import raised
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.handing import Hands
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.lanes import LANE, Lane, tasks_are
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.tasks_timeouts import blocks, timed
from sidecar.capture.seams.threads import is_known, lane_of
from sidecar.capture.seams.turns import Turns

_JUMPS_MAX: Final = 1000
_GRACE_SECONDS: Final = 0.05  # for a library's threads
_BUSY_SECONDS: Final = 0.25  # for the agent's own, so often
_BUSY_TIMES: Final = 20


class JoiningFuture(asyncio.Future[Any]):
    """A future that knows a lane, and gives what was done in it to who awaits it."""

    lane: Lane | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            return (yield from super().__await__())
        finally:
            joined(self)

    __iter__ = __await__


class LaneTask(JoiningFuture, asyncio.Task[Any]):
    """The same of a task, whose lane is its own."""

    def result(self) -> Any:
        """As it is; who asks for it in a task comes after it."""
        if _running_lane() is not None:
            joined(self)
        return super().result()


def install(session: Session) -> None:
    """Patch asyncio."""
    tasks_are(_running_lane)
    session.on_end(lambda: tasks_are(None))
    _install_tasks(session)
    _install_joins(session)
    _install_pools(session)
    _install_races(session)
    blocks(session)
    _install_time(session)


def _running_lane() -> Lane | None:
    loop = events._get_running_loop()
    if loop is None:
        return None
    task = tasks.current_task(loop)
    if type(task) is LaneTask:
        return task.lane
    if not isinstance(loop, base_events.BaseEventLoop) and loop.get_task_factory() is None:
        loop.set_task_factory(_made)  # uvloop's: the first task made it that we are in
    return None


def _made(loop: Any, coro: Any, **more: Any) -> Any:
    """A task of a loop that is not Python's own."""
    seen = current()
    if seen is None:
        return asyncio.Task(coro, loop=loop, **more)
    task = LaneTask(coro, loop=loop, **more)
    task.lane = seen.lane().start()
    return task


def joined(*done: Any) -> None:
    """What these had done comes before what this lane does next."""
    session = current()
    if session is None:
        return
    lane = session.lane()
    for one in done:
        other = getattr(one, "lane", None)
        if other is not None and one.done():
            lane.join(other)
        elif other is None:
            joined(*getattr(one, "_children", ()))  # of a gather that was waited for otherwise


def _is_collected(coro: Any, caller: types.FrameType) -> bool:
    """Whether a task only ends what nobody wants any more. When that is collected, or how many are
    left over at a loop's end, is no cause: a library has others open live than in a replay."""
    return caller.f_code.co_name == "__del__" or type(coro).__name__ == "async_generator_athrow"


def _install_tasks(session: Session) -> None:
    loop_kind = base_events.BaseEventLoop
    create, run = loop_kind.create_task, loop_kind.run_until_complete

    def create_task(self: Any, coro: Any, *, name: Any = None, **more: Any) -> Any:
        seen = current()
        plain = seen is None or self.get_task_factory() is not None or more.get("eager_start")
        if seen is None or plain or _is_collected(coro, sys._getframe(1)):
            return create(self, coro, name=name, **more)
        more.pop("eager_start", None)
        self._check_closed()
        lane = seen.lane().start()
        context = more.get("context")
        if context is None:
            import contextvars

            context = contextvars.copy_context()
            context.run(LANE.set, lane)
        task = LaneTask(coro, loop=self, name=name, context=context)
        task.lane = lane
        return task

    def run_until_complete(self: Any, future: Any) -> Any:
        seen = current()
        if seen is None:
            return run(self, future)
        if not asyncio.isfuture(future):
            future = self.create_task(future) if asyncio.iscoroutine(future) else future
        lane, own = getattr(future, "lane", None), seen.lane()
        first = lane is not None and not lane.hits and lane.name == _last_of(own)
        if first:
            own.started -= 1
            future.lane = own
        try:
            return run(self, future)
        finally:
            if lane is not None and not first:
                own.join(lane)

    patch(session, loop_kind, "create_task", create_task)
    patch(session, loop_kind, "run_until_complete", run_until_complete)


def _last_of(lane: Lane) -> str:
    count = lane.started - 1
    return f"{lane.name}.{count}" if lane.name else str(count)


def _install_joins(session: Session) -> None:
    gathering: Any = tasks._GatheringFuture  # type: ignore[attr-defined]
    plain = gathering.__await__

    def gathered(self: Any) -> Generator[Any, None, Any]:
        try:
            return (yield from plain(self))
        finally:
            joined(*self._children)

    patch(session, gathering, "__await__", gathered)
    patch(session, gathering, "__iter__", gathered)
    wait_for = tasks.wait_for

    def waited_for(fut: Any, timeout: Any = None, **more: Any) -> Any:
        seen = current()
        if seen is None:
            return wait_for(fut, timeout, **more)
        site = seen.caller()
        if site is None or timeout is None or more:
            return joining(fut, timeout, **more)
        return timed(seen, site, fut, timeout, wait_for, joined)

    async def joining(fut: Any, timeout: Any, **more: Any) -> Any:
        task = asyncio.ensure_future(fut)
        try:
            return await wait_for(task, timeout, **more)
        finally:
            joined(task)

    for module in (tasks, asyncio):
        patch(session, module, "wait_for", waited_for)
    shield = tasks.shield

    def shielded(arg: Any) -> Any:
        if current() is None:
            return shield(arg)
        inner = asyncio.ensure_future(arg)
        lane = getattr(inner, "lane", None)
        outer = shield(inner)
        return outer if lane is None or outer is inner else _joining(outer, lane)

    hands = Hands()
    for module in (tasks, asyncio):
        patch(session, module, "shield", shielded)
    for name, made in (("put_nowait", hands.putting), ("get_nowait", hands.taking)):
        patch(session, asyncio.Queue, name, made(getattr(asyncio.Queue, name)))
    group: Any = getattr(asyncio, "TaskGroup", None)
    if group is None:
        return
    create, leave = group.create_task, group.__aexit__

    def create_task(self: Any, *args: Any, **more: Any) -> Any:
        task = create(self, *args, **more)
        if current() is not None:
            self.__dict__.setdefault("_agenttwin_tasks", []).append(task)
        return task

    async def aexit(self: Any, *error: Any) -> Any:
        try:
            return await leave(self, *error)
        finally:
            joined(*self.__dict__.pop("_agenttwin_tasks", ()))

    patch(session, group, "create_task", create_task)
    patch(session, group, "__aexit__", aexit)


def _install_pools(session: Session) -> None:
    loop_kind = base_events.BaseEventLoop
    plain = loop_kind.run_in_executor

    def run_in_executor(self: Any, executor: Any, func: Any, *args: Any) -> Any:
        if current() is None:
            return plain(self, executor, func, *args)
        found: list[Lane | None] = []
        if executor is None:
            executor = self._default_executor or _default_executor(self)

        class Pool:
            """The same pool, whose future is seen once."""

            def submit(self, fn: Any, *given: Any) -> Any:
                future = executor.submit(fn, *given)
                found.append(lane_of(future))
                return future

        inner = plain(self, Pool(), func, *args)  # type: ignore[arg-type]
        if not found or found[0] is None:
            return inner
        return _joining(inner, found[0])

    patch(session, loop_kind, "run_in_executor", run_in_executor)


def _default_executor(loop: Any) -> Any:
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(thread_name_prefix="asyncio")
    loop.set_default_executor(pool)
    return pool


def _joining(inner: Any, lane: Lane) -> JoiningFuture:
    """A future that ends as another does, and joins a lane for who awaits it."""
    outer = JoiningFuture(loop=inner.get_loop())
    outer.lane = lane
    inner.add_done_callback(lambda _: _copied(inner, outer))
    outer.add_done_callback(lambda _: inner.cancel() if outer.cancelled() else None)
    return outer


def _copied(inner: Any, outer: Any) -> None:
    if outer.done():
        return
    if inner.cancelled():
        outer.cancel()
    elif inner.exception() is not None:
        outer.set_exception(inner.exception())
    else:
        outer.set_result(inner.result())


def _install_races(session: Session) -> None:
    wait, as_completed = tasks.wait, tasks.as_completed

    async def waited(
        fs: Any, *, timeout: Any = None, return_when: Any = tasks.ALL_COMPLETED
    ) -> Any:
        seen = current()
        site = None if seen is None else seen.caller()
        given = [*fs]
        if seen is None or site is None or not all(map(asyncio.isfuture, given)):
            done, pending = await wait(given, timeout=timeout, return_when=return_when)
            joined(*done)
            return done, pending
        x = seen.enter(
            kind="decision",
            seam="scheduler",
            name="asyncio.wait",
            given={"of": len(given), "return_when": return_when, "timeout": timeout},
            site=site,
            label="asyncio.wait",
            awaited=True,
        )
        if x.played:
            await _ended_otherwise(x)
            chosen = {given[place] for place in x.out["done"]}
            if chosen:
                await wait(chosen)
            joined(*chosen)
            x.settle()
            await x.arrive()
            return chosen, {one for one in given if one not in chosen}
        try:
            done, pending = await wait(given, timeout=timeout, return_when=return_when)
        except BaseException as error:
            x.failed(error)
            raise
        joined(*done)
        x.settle()
        x.done({"done": sorted(given.index(one) for one in done)})
        return done, pending

    def completed(fs: Iterable[Any], *, timeout: float | None = None) -> Any:
        seen = current()
        site = None if seen is None else seen.caller()
        if seen is None or site is None or timeout is not None:
            return as_completed(fs, timeout=timeout)
        return _Race(seen, site, wait, [asyncio.ensure_future(one) for one in fs])

    for module in (tasks, asyncio):
        patch(session, module, "wait", waited)
        patch(session, module, "as_completed", completed)


class _Race:
    """``as_completed`` whose winners are recorded one by one, or known beforehand."""

    def __init__(self, session: Session, site: Any, wait: Any, given: list[Any]) -> None:
        self._session, self._site, self._wait, self._given = session, site, wait, given
        self._left = set(range(len(given)))
        self._finished: list[int] = []  # in the order in which they were
        for place, one in enumerate(given):
            one.add_done_callback(lambda _, place=place: self._finished.append(place))

    def __iter__(self) -> Iterator[Any]:
        return iter([self._next() for _ in self._given])

    def __aiter__(self) -> Any:
        return self._all()

    async def _all(self) -> Any:
        for _ in self._given:
            place = await self._place()
            yield self._given[place]

    async def _next(self) -> Any:
        return await self._given[await self._place()]

    async def _place(self) -> int:
        x = self._session.enter(
            kind="decision",
            seam="scheduler",
            name="asyncio.as_completed",
            given={"of": len(self._given)},
            site=self._site,
            label="asyncio.as_completed",
            awaited=True,
        )
        if x.played:
            await _ended_otherwise(x)
            place = int(x.out["place"])
            await self._wait([self._given[place]])
        else:
            place = await self._first(x)
        self._left.discard(place)
        joined(self._given[place])
        x.settle()
        if x.played:
            await x.arrive()
        x.done({"place": place})
        return place

    async def _first(self, x: Crossing) -> int:
        try:
            while not self._finished:
                left = [self._given[one] for one in self._left]
                await self._wait(left, return_when=tasks.FIRST_COMPLETED)
                await _once()  # what is done tells us so in its own turn
        except BaseException as error:
            x.failed(error)
            raise
        return self._finished.pop(0)


async def _ended_otherwise(x: Crossing) -> None:
    """Raise what a played wait raised; one that was cancelled waits until it is so again."""
    if x.status == "cancelled" or x.error is not None:
        await x.arrive()
    if x.error is not None:
        raise raised(x.error, x.out)


@types.coroutine
def _once() -> Generator[None, None, None]:
    """Let the loop go round once."""
    yield


class _Idle:
    """A loop that has nothing to do, in a strict replay: whether it may go on, and how far."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.ahead = 0.0  # of the real clock
        self._jumps = self._stalls = 0

    def select(self, real: Any, loop: Any, timeout: float | None) -> Any:
        """What ``real`` selects; or nothing at once, and then the next timer is due."""
        turns = self._session.turns
        if turns is None or current() is not self._session:
            return real(timeout)
        most, patience = self._patience(turns)
        wait = most if timeout is None else min(timeout, most)
        ready = real(wait)
        if ready or wait == timeout:
            self._stalls = 0
            return ready
        if self._stalls < patience:
            self._stalls += 1
            return ready
        self._stalls = 0
        if timeout is None or self._jumps >= _JUMPS_MAX:
            self._jumps = 0
            return ready if turns.release(loop) else real(timeout)
        self._jumps += 1
        self.ahead += timeout
        return ready

    def _patience(self, turns: Turns) -> tuple[float, int]:
        """How long to wait for other threads, and how often."""
        if turns.is_busy_beside(self._session.lane()):
            return _BUSY_SECONDS, _BUSY_TIMES
        return (_GRACE_SECONDS, 1) if _has_threads_of_libraries() else (0.0, 0)


def _has_threads_of_libraries() -> bool:
    """Whether there are threads that may be at work, and nobody says for whom."""
    if threading.active_count() == 1:
        return False
    known = (threading.main_thread(), threading.current_thread())
    return any(one not in known and not is_known(one) for one in threading.enumerate())


def _install_time(session: Session) -> None:
    """Time in a strict replay: a loop that would sleep goes on to its next timer instead."""
    loop_kind = base_events.BaseEventLoop
    plain_time = loop_kind.time
    idle: weakref.WeakKeyDictionary[Any, _Idle] = weakref.WeakKeyDictionary()

    def time(self: Any) -> float:
        found = idle.get(self)
        return plain_time(self) if found is None else plain_time(self) + found.ahead

    def selecting(plain: Any) -> Any:
        def select(self: Any, timeout: float | None = None) -> Any:
            loop: Any = events._get_running_loop()
            ours = session.turns is not None and getattr(loop, "_selector", None) is self
            if not ours or (timeout is not None and timeout <= 0):
                return plain(self, timeout)
            if loop not in idle:
                idle[loop] = _Idle(session)
            return idle[loop].select(functools.partial(plain, self), loop, timeout)

        return select

    patch(session, loop_kind, "time", time)
    for name in ("EpollSelector", "KqueueSelector", "PollSelector", "DevpollSelector"):
        kind = getattr(selectors, name, None)
        if kind is not None and "select" in vars(kind):
            patch(session, kind, "select", selecting(kind.select))
    patch(session, selectors.SelectSelector, "select", selecting(selectors.SelectSelector.select))
