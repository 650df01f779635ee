"""SCHEDULER, anyio: task groups are joined by who leaves them, and what goes through a stream of
objects comes after who sent it. (On asyncio; on trio nothing is told apart.)"""

import weakref
from typing import Any

from anyio.streams import memory

from sidecar.capture.seams.handing import Hands
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.tasks import joined


def install(session: Session) -> None:
    """Patch anyio's streams and, where asyncio's backend is, its task groups."""
    hands = Hands()
    sender, receiver = memory.MemoryObjectSendStream, memory.MemoryObjectReceiveStream
    send, take, receive = sender.send_nowait, receiver.receive_nowait, receiver.receive

    def send_nowait(self: Any, item: Any) -> Any:
        hands.put(self._state, item)
        return send(self, item)

    def receive_nowait(self: Any) -> Any:
        item = take(self)
        hands.took(self._state, item)
        return item

    async def receive_(self: Any) -> Any:
        item = await receive(self)
        hands.took(self._state, item)
        return item

    patch(session, sender, "send_nowait", send_nowait)
    patch(session, receiver, "receive_nowait", receive_nowait)
    patch(session, receiver, "receive", receive_)
    _install_groups(session)


def _install_groups(session: Session) -> None:
    from anyio._backends import _asyncio

    group: Any = _asyncio.TaskGroup
    spawn, leave = group._spawn, group.__aexit__
    tasks: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def spawned(self: Any, *args: Any, **more: Any) -> Any:
        before = set(self._tasks)
        made = spawn(self, *args, **more)
        if current() is not None:
            tasks.setdefault(self, []).extend(self._tasks - before)
        return made

    async def aexit(self: Any, *error: Any) -> Any:
        try:
            return await leave(self, *error)
        finally:
            joined(*tasks.pop(self, ()))

    patch(session, group, "_spawn", spawned)
    patch(session, group, "__aexit__", aexit)
