"""A plain callable ``f(request, call)`` as an agent that moves only when told.

Rules
1. The callable runs in a thread of its own, which runs only while the other side waits: one of the
   two moves at any time, so that a run is as deterministic as the agent.
2. What is stopped ends at its next call; a callable that calls nothing any more is waited for at
   most ``deadline_seconds`` and is then a crash of kind ``Silent``.
"""

import threading
from queue import Empty, SimpleQueue
from typing import Any

from sidecar.analyse.together.moves import Asked, Crashed, Ended, Turn
from sidecar.twins.episode import Reply


class _Stopped(BaseException):
    """The run is over; no handler of the agent's own should keep it."""


class CallableAgent:
    """A callable ``f(request, call)``; ``call(tool, arguments, key="")`` answers a Reply."""

    def __init__(self, function: Any, *, deadline_seconds: float = 30.0) -> None:
        self._function = function
        self._deadline = deadline_seconds
        self._turns: SimpleQueue[Turn] = SimpleQueue()
        self._replies: SimpleQueue[Reply | None] = SimpleQueue()

    def start(self, request: dict[str, Any]) -> Turn:
        """Run to its first call, or its end."""
        threading.Thread(target=self._run, args=(request,), daemon=True).start()
        return self._turn()

    def resume(self, reply: Reply) -> Turn:
        """Give the reply and run on."""
        self._replies.put(reply)
        return self._turn()

    def stop(self) -> None:
        """End it at the call it waits in."""
        self._replies.put(None)

    def _turn(self) -> Turn:
        try:
            return self._turns.get(timeout=self._deadline)
        except Empty:
            return Crashed(kind="Silent", detail=f"no call and no end in {self._deadline:g} s")

    def _run(self, request: dict[str, Any]) -> None:
        try:
            self._turns.put(Ended(output=self._function(request, self._call)))
        except _Stopped:
            return
        except (Exception, SystemExit) as error:  # whatever an agent raises is its crash
            self._turns.put(Crashed(kind=type(error).__name__, detail=str(error)))

    def _call(self, tool: str, arguments: dict[str, Any], key: str = "") -> Reply:
        self._turns.put(Asked(tool=tool, arguments=dict(arguments), key=key))
        reply = self._replies.get()
        if reply is None:
            raise _Stopped
        return reply
