"""SCHEDULER, what is handed from one line of execution to another: who takes it out of a queue
comes after who put it in, whether he had to wait for it or not.

**Rules**
1. A thing is known by identity while it is in the queue; what is equal is not the same.
2. Who waits for a lock or a semaphore comes after nobody: that is a matter of time, not of cause.
"""

import queue
import weakref
from collections.abc import Callable
from typing import Any

from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current


def install(session: Session) -> None:
    """Patch the queues of threads."""
    hands = Hands()
    patch(session, queue.Queue, "put", hands.putting(queue.Queue.put))
    patch(session, queue.Queue, "get", hands.taking(queue.Queue.get))


class Hands:
    """What is in the queues of one kind, and what those who put it there had done."""

    def __init__(self) -> None:
        self._held: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()

    def put(self, where: Any, item: Any) -> None:
        """Something is put into a queue."""
        session = current()
        if session is not None:
            lane = session.lane()
            self._held.setdefault(where, {})[id(item)] = (lane, lane.frontier)

    def took(self, where: Any, item: Any) -> None:
        """It was taken out."""
        found = self._held.get(where)
        said = found.pop(id(item), None) if found else None
        session = current()
        if said is not None and session is not None:
            session.lane().join(*said)

    def putting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """A method that puts."""

        def put(queue: Any, item: Any, *args: Any, **more: Any) -> Any:
            self.put(queue, item)
            return real(queue, item, *args, **more)

        return put

    def taking(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """A method that takes."""

        def take(queue: Any, *args: Any, **more: Any) -> Any:
            item = real(queue, *args, **more)
            self.took(queue, item)
            return item

        return take
