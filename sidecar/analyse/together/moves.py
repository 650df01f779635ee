"""What agents do step by step, and what came of it: the words of a run of several agents.

Rules
1. An agent is a machine: started with a request, resumed with a reply, and between the two it asks
   one thing, ends or crashes. Who is resumed next is the scheduler's choice alone.
2. A move is one call with the rows it read and changed, as the twin saw them: the agent cannot
   write one.
3. A resource is a row (``entity/key``); reading a table as a whole is ``entity/*``.
"""

from collections.abc import Generator
from typing import Any, Protocol

from msgspec import Struct

from sidecar.twins.company import Switch
from sidecar.twins.episode import Reply


class Asked(Struct, frozen=True, kw_only=True):
    """A tool call that the agent waits for; a generator agent yields these."""

    tool: str
    arguments: dict[str, Any] = {}
    key: str = ""


class Ended(Struct, frozen=True, kw_only=True):
    """The agent answered."""

    output: Any = None


class Crashed(Struct, frozen=True, kw_only=True):
    """The agent raised; ``kind`` is the exception's type, ``detail`` its text."""

    kind: str
    detail: str = ""


Turn = Asked | Ended | Crashed
AgentSteps = Generator[Asked, Reply, Any]


class Stepped(Protocol):
    """An agent that moves only when told."""

    def start(self, request: dict[str, Any]) -> Turn:
        """Run to the first thing it asks, or its end."""
        ...

    def resume(self, reply: Reply) -> Turn:
        """Run on with the reply to what it asked."""
        ...

    def stop(self) -> None:
        """End it wherever it stands."""
        ...


class Move(Struct, frozen=True, kw_only=True):
    """One call: ``index`` is its place in the run, ``choices`` are those who could have moved.

    ``fields`` are the changed rows with the names of the fields that changed, ``puts`` the rows
    that were put, be it as they were; ``refused`` says that the service answered and did not do
    it, ``status`` None that it did not answer.
    """

    index: int
    agent: str
    asked: Asked
    status: int | None
    refused: bool
    reads: tuple[str, ...] = ()
    fields: dict[str, tuple[str, ...]] = {}
    puts: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def writes(self) -> tuple[str, ...]:
        """The rows it changed."""
        return tuple(self.fields)

    @property
    def call_id(self) -> str:
        """The id of the call in the twin's events."""
        return f"call-{self.index + 1}"


class History(Struct, frozen=True, kw_only=True):
    """A whole run: moves in order, the end of each agent (None: never reached), and the switches
    that make the run again. ``stuck`` says that nobody could go on.
    """

    agents: tuple[str, ...]
    moves: tuple[Move, ...]
    ends: dict[str, Ended | Crashed | None]
    switches: tuple[Switch, ...]
    stuck: bool = False


class GeneratorAgent:
    """A generator function ``f(request)`` that yields ``Asked`` and is sent replies."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._steps: AgentSteps | None = None

    def start(self, request: dict[str, Any]) -> Turn:
        """Run to the first yield."""
        try:
            self._steps = self._function(request)
        except (Exception, SystemExit) as error:  # whatever an agent raises is its crash
            return Crashed(kind=type(error).__name__, detail=str(error))
        return self._turn(None)

    def resume(self, reply: Reply) -> Turn:
        """Send the reply."""
        return self._turn(reply)

    def stop(self) -> None:
        """Close the generator."""
        if self._steps is not None:
            self._steps.close()

    def _turn(self, reply: Reply | None) -> Turn:
        assert self._steps is not None
        asked: Any
        try:
            asked = next(self._steps) if reply is None else self._steps.send(reply)
        except StopIteration as end:
            return Ended(output=end.value)
        except (Exception, SystemExit) as error:  # whatever an agent raises is its crash
            return Crashed(kind=type(error).__name__, detail=str(error))
        if not isinstance(asked, Asked):
            return Crashed(kind="NotAsked", detail=f"yielded {type(asked).__name__}, not Asked")
        return asked
