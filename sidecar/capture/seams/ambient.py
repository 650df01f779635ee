"""What the seams of clock, dice, environment and files have in common: one value asked for.

**Rules**
1. Recorded, the agent gets the real value, untouched. Played, it gets an equal one of its type, and
   the real thing is not asked.
2. An error is an answer: its class, its arguments and so its ``errno`` and ``filename`` are on the
   tape, and it is raised again. Where its class cannot be found it is a RuntimeError of its text.
3. A value that no payload can hold is the agent's all the same; the event says that it is not on
   the tape, and a replay ends there (``INCOMPARABLE``).
"""

import builtins
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from sidecar.capture.seams.crossing import Crossing, class_name, text_of
from sidecar.capture.seams.lanes import MUTE, muted
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.told import LOST, Untold, class_told, read_back, told
from sidecar.tape.compose import NOTHING
from sidecar.tape.model import Kind, Seam

T = TypeVar("T")


def ask(
    session: Session,
    seam: Seam,
    name: str,
    real: Callable[[], T],
    *,
    given: Any = NOTHING,
    tell: Callable[[T], Any] = told,
    back: Callable[[Any], T] = read_back,
    kind: Kind = "decision",
    also: Callable[[], object] | None = None,
) -> T:
    """A value that an own file asks for: recorded or played. ``tell``, ``back``: as a payload.

    ``also`` is done where it is played; what it raises is nobody's.
    """
    x = session.enter(kind=kind, seam=seam, name=name, given=given, label=name)
    if x.played:
        if also is not None:
            with muted(), suppress(Exception):
                also()
        return played(x, back)
    token = MUTE.set(True)
    try:
        value = real()
    except BaseException as error:
        failed(x, error)
        raise
    finally:
        MUTE.reset(token)
    x.done(payload(tell, value))
    return value


def payload(tell: Callable[[T], Any], value: T) -> Any:
    """What a value is on the tape; something no tape holds where it cannot be told."""
    try:
        return tell(value)
    except Untold:
        return LOST


def described(args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
    """What a function was called with; of what cannot be told, its class."""
    listed = [_described(one) for one in args]
    return (
        {"args": listed, **{key: _described(one) for key, one in kwargs.items()}}
        if kwargs
        else listed
    )


def _described(value: Any) -> Any:
    try:
        return told(value)
    except Untold:
        return class_told(value)


def failed(x: Crossing, error: BaseException, attributes: Mapping[str, Any] | None = None) -> None:
    """The real thing raised: what is needed to raise it again."""
    if not isinstance(error, Exception):
        x.failed(error)
        return
    made = error.__reduce__()
    args = made[1] if isinstance(made, tuple) and len(made) > 1 else error.args
    try:
        out = {"raised": told(args)}
    except Untold:
        out = {"raised": told((text_of(error) or "",))}
    told_of = (class_name(error), text_of(error))
    x.done(out, status="error", error=told_of, attributes=attributes)


def played(x: Crossing, back: Callable[[Any], T]) -> T:
    """The answer of the tape. Raises what was raised."""
    if x.error is not None:
        raise raised(x.error, x.out)
    return back(x.out)


def raised(error: tuple[str, str | None], out: Any) -> BaseException:
    """A recorded error, to be raised; one that was declared has a text and no arguments."""
    name, message = error
    module, _, kind = name.rpartition(".")
    found = getattr(sys.modules.get(module) if module else builtins, kind, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        with suppress(Exception):  # it may take other arguments than it keeps
            return found(
                *(read_back(out["raised"]) if out else () if message is None else (message,))
            )
    return RuntimeError(f"{name}: {message}")
