"""The traceback of a run that left its tape: the test's and its agent's lines, and none of ours.

**Rules**
1. What is left out are lines, never an exception: its kind, its words and its drift stay.
2. Only a drift and what cannot be compared are told so; any other failure keeps every line.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from functools import wraps
from types import TracebackType
from typing import Final, Generic, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_OURS: Final = __name__.partition(".")[0]


class Hidden(AbstractContextManager[T], ContextDecorator, Generic[T]):
    """A context of ours in which nobody looks for a fault where it raises one of ``kinds``."""

    def __init__(
        self, opens: Callable[[], AbstractContextManager[T]], kinds: tuple[type[BaseException], ...]
    ) -> None:
        self._opens, self._kinds = opens, kinds

    def __enter__(self) -> T:
        __tracebackhide__ = True
        self._inner = self._opens()
        try:
            return self._inner.__enter__()
        except self._kinds as error:
            _without(error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        __tracebackhide__ = True
        try:
            return self._inner.__exit__(kind, error, trace)
        except self._kinds as raised:
            _without(raised)


def hidden(
    *kinds: type[BaseException],
) -> Callable[[Callable[P, Iterator[T]]], Callable[P, Hidden[T]]]:
    """``contextmanager``, whose own lines are not told where it raises one of ``kinds``."""

    def decorate(function: Callable[P, Iterator[T]]) -> Callable[P, Hidden[T]]:
        opens = contextmanager(function)

        @wraps(function)
        def open_(*args: P.args, **kwargs: P.kwargs) -> Hidden[T]:
            return Hidden(lambda: opens(*args, **kwargs), kinds)

        return open_

    return decorate


def leave_out(error: BaseException) -> None:
    """Take our lines, and those of the contexts that we opened, out of a traceback, where it is."""
    trace, ours = error.__traceback__, False
    while trace is not None and trace.tb_next is not None:
        name = trace.tb_next.tb_frame.f_globals.get("__name__", "")
        ours = name.partition(".")[0] == _OURS or (ours and name == "contextlib")
        if ours:
            trace.tb_next = trace.tb_next.tb_next
        else:
            trace = trace.tb_next


def _without(error: BaseException) -> NoReturn:
    __tracebackhide__ = True
    raise error.with_traceback(None)
