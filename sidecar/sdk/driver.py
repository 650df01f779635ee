"""An agent that records itself: ``with record(…)``, or as a decorator; its tools and its people.

**Rules**
1. One tape at a time in a process. Nothing of the recorder is left when it ends.
2. What fails inside is recorded as an error and raised on; the tape is sealed all the same.
3. Under ``sidecar tape record`` and ``replay`` the process has its tape already: ``record`` then
   only lets happen what is inside, so that one agent can be started either way.
"""

import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from sidecar import clock
from sidecar.capture.process import build_of, circumstances, folders_of, git_of
from sidecar.capture.record import Capture, header_of, redactor_of
from sidecar.capture.seams.install import install_all
from sidecar.capture.seams.lanes import AGENT
from sidecar.capture.seams.model_object import METHODS, Model
from sidecar.capture.seams.people import approve
from sidecar.capture.seams.session import AGENT_NAME, Session, active
from sidecar.capture.seams.sites import Sites
from sidecar.capture.seams.tools import wrapped
from sidecar.tape.files import Packaging, TapeWriter

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
StrPath = str | os.PathLike[str]


class Recording:
    """A recording in progress."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def output(self, value: Any) -> None:
        """What the run answered: it stands in the terminal event, and a replay must say the same.

        Raises nothing; a value that no tape holds is counted as truncated.
        """
        self._session.output["output"] = value


@contextmanager
def record(
    path: StrPath,
    *,
    capture: Capture = "off",
    roots: Sequence[StrPath] = (),
    agent: str = AGENT_NAME,
    packaging: Packaging = "packed",
    labels: Mapping[str, str] | None = None,
    lasts_ns: int | None = None,
) -> Iterator[Recording]:
    """Record what happens inside to a new tape.

    ``capture``: ``off`` keeps digests only and cannot be replayed; ``redacted``, ``full`` keep
    content. ``roots``: folders of the agent's own files; none = the working directory. The tape
    expires after ``lasts_ns``. Raises SidecarError where there is a file already, or none can be
    made; ValueError for an option that is none.
    """
    _check(capture, packaging, agent, labels, lasts_ns)
    running = active()
    if running is not None:
        yield Recording(running)
        return
    folders = folders_of(roots)
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is no folder of an agent's files (roots)")
    found = circumstances(
        git=git_of(folders[0]), agent=build_of(folders[0]), labels=labels, lasts_ns=lasts_ns
    )
    with TapeWriter(
        Path(path),
        header_of(found, capture),
        packaging=packaging,
        redactor=redactor_of(capture),
        content=capture != "off",
    ) as writer:
        session = Session(Sites(folders), agent=agent, writer=writer)
        session.begin()
        try:
            install_all(session)
            yield Recording(session)
        except BaseException as error:
            session.end("error", {"reason": type(error).__name__})
            writer.seal()
            raise
        session.end()
        writer.seal()


def _check(
    capture: Capture,
    packaging: Packaging,
    agent: str,
    labels: Mapping[str, str] | None,
    lasts_ns: int | None,
) -> None:
    """Raises ValueError: a word misspelt would be another tape than was meant, seen much later."""
    if capture not in get_args(Capture):
        raise ValueError(f"capture is one of {', '.join(get_args(Capture))}, not {capture!r}")
    if packaging not in get_args(Packaging):
        raise ValueError(f"packaging is one of {', '.join(get_args(Packaging))}, not {packaging!r}")
    if not agent or not isinstance(agent, str):
        raise ValueError("agent is a name")
    if not all(isinstance(one, str) for pair in (labels or {}).items() for one in pair):
        raise ValueError("labels are texts by their names")
    if lasts_ns is not None and lasts_ns <= 0:
        raise ValueError("lasts_ns is how long the tape lasts: more than nothing")


def recorded(path: StrPath, **options: Any) -> Callable[[F], F]:
    """``record`` as a decorator: each call of the function makes a tape; ``path`` may hold
    ``{id}``, which is another for each. What the function returns is the run's output; of a
    generator, the list of what it yielded."""

    def decorate(function: F) -> F:
        def place() -> Path:
            return Path(os.fspath(path).replace("{id}", clock.new_id()))

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with record(place(), **options) as recording:
                    value = await function(*args, **kwargs)
                    recording.output(value)
                    return value

            return cast(F, run_async)

        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def stream_async(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
                with record(place(), **options) as recording:
                    pieces: list[Any] = []
                    recording.output(pieces)
                    async with aclosing(function(*args, **kwargs)) as source:
                        async for piece in source:
                            pieces.append(piece)
                            yield piece

            return cast(F, stream_async)

        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def stream(*args: Any, **kwargs: Any) -> Iterator[Any]:
                with record(place(), **options) as recording:
                    pieces: list[Any] = []
                    recording.output(pieces)
                    for piece in function(*args, **kwargs):
                        pieces.append(piece)
                        yield piece

            return cast(F, stream)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with record(place(), **options) as recording:
                value = function(*args, **kwargs)
                recording.output(value)
                return value

        return cast(F, run)

    return decorate


def tool(function: Any = None, *, name: str | None = None) -> Any:
    """A function of the agent's that is a tool: ``@tool``, ``@tool(name="refund")``, or
    ``tool(function)``; synchronous, asynchronous, or a generator of pieces.

    Recorded with its arguments and result; replayed, it is not called.
    """
    if function is None:
        return functools.partial(tool, name=name)
    return wrapped(function, name)


def model(client: T, *, methods: Collection[str] | None = None, name: str | None = None) -> T:
    """An object that asks a model, wrapped: its asking methods are recorded, and played.

    For clients that do not ask by HTTP; those that do are recorded as they are. ``methods``: the
    names of its methods that ask, else those such objects usually have (``create``, ``chat``,
    ``generate``, ``invoke``, ``embed``, a call of itself, ... and what hangs on it). ``name``: what
    the model is called where no request says it.
    """
    return cast(T, Model(client, METHODS if methods is None else frozenset(methods), name))


def approval(
    action: Any, decide: Callable[[], dict[str, Any]], *, tool: str = "approval"
) -> dict[str, Any]:
    """What a person decides on an action, as ``decide`` returns it, with the ``action_hash``.

    ``decide`` returns ``{"decision": "approve", "approver": …, "expires_at": …}``; ``tool`` names
    the call that is approved, as ``requires_before`` asks for it.
    Recorded as human input; replayed, nobody is asked. Raises NotCanonical for an action that no
    tape holds.
    """
    return approve(action, decide, tool)


@contextmanager
def acting(agent: str) -> Iterator[None]:
    """What happens inside, this agent does: for programs of several."""
    token = AGENT.set(agent)
    try:
        yield
    finally:
        AGENT.reset(token)
