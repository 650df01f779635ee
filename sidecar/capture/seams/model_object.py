"""The seam PROVIDER around an object of the agent's that asks a model: any class, any transport.

For models that are not asked by HTTP (in this process, over gRPC, by a client of one's own). Those
that are need no wrapping: their requests are recorded where they meet the network.

**Rules**
1. Methods that ask are known by name (``METHODS``, or the caller says which); everything else is
   the object's own, and what hangs on it is wrapped like itself (``client.chat.completions``).
2. A call is an event: its arguments by name the request, what it returned the answer, of the same
   classes when it is played. What it gives piece by piece is passed on piece by piece.
3. Played, the object is asked nothing, but it must be there: what is no call is read of it.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sidecar.capture.exchange import usage_of
from sidecar.capture.seams.ambient import failed
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.forms import described, shaped
from sidecar.capture.seams.session import current
from sidecar.capture.seams.tools import answer, arguments, passed, piece_back

METHODS: Final = frozenset(
    (
        *("create", "parse", "complete", "completion", "acompletion", "chat", "achat"),
        *("generate", "agenerate", "generate_content", "generate_content_async"),
        *("invoke", "ainvoke", "predict", "apredict", "ask", "aask", "respond"),
        *("stream", "astream", "embed", "aembed", "__call__"),
    )
)
_PLAIN: Final = (str, bytes, int, float, bool, type(None), dict, list, tuple, set, frozenset, type)
_LEVELS_MAX: Final = 4
_HOW: Final = "answer"


class Model:
    """A client whose asking methods are recorded and played; otherwise the client."""

    def __init__(
        self,
        client: Any,
        methods: Collection[str] = METHODS,
        name: str | None = None,
        level: int = 0,
    ) -> None:
        self.__dict__.update(_client=client, _methods=methods, _name=name, _level=level)

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._client, attribute)
        if attribute in self._methods and callable(found):
            return _asking(found, self._name or _named(self._client))
        if attribute.startswith("_") or callable(found) or isinstance(found, _PLAIN):
            return found
        if self._level >= _LEVELS_MAX:
            return found
        return Model(found, self._methods, self._name or _named(self._client), self._level + 1)

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(self._client, attribute, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Ask an object that is asked by calling it."""
        if "__call__" not in self._methods:
            return self._client(*args, **kwargs)
        return _asking(self._client, self._name or _named(self._client))(*args, **kwargs)


def _asking(real: Callable[..., Any], name: str) -> Callable[..., Any]:
    try:
        signature = inspect.signature(real)
    except (TypeError, ValueError):  # some builtins have none
        signature = inspect.signature(_anything)
    awaited = inspect.iscoroutinefunction(real)

    @functools.wraps(real, updated=())
    def ask(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return real(*args, **kwargs)
        given = arguments(signature, args, kwargs)
        model = given.get("model") if isinstance(given, dict) else None
        x = session.enter(
            kind="llm_call",
            seam="provider",
            name=model if isinstance(model, str) else name,
            given=given,
            awaited=awaited,
            piecemeal=True,
        )
        if x.played:
            return _played(x, str(x.attributes.get(_HOW, "awaited" if awaited else "")))
        try:
            with x.inside():
                got = real(*args, **kwargs)
        except BaseException as error:
            failed(x, error)
            raise
        return _awaited(x, got) if inspect.isawaitable(got) else _handed(x, got, "")

    return ask


def _anything(*args: Any, **kwargs: Any) -> None:
    """What can be called with anything."""


async def _awaited(x: Crossing, got: Any) -> Any:
    try:
        with x.inside():
            value = await got
    except BaseException as error:
        failed(x, error, {_HOW: "awaited"})
        raise
    return _handed(x, value, "awaited")


def _handed(x: Crossing, value: Any, how: str) -> Any:
    """What was answered, to be handed on; a stream is recorded as it passes."""
    if hasattr(value, "__anext__"):
        return _passed_async(x, value, {_HOW: f"{how} async stream"})
    if hasattr(value, "__next__"):
        return _passed(x, value, {_HOW: f"{how} stream"})
    payload, forms = shaped(value)
    attributes = {**({"forms": forms} if forms else {}), **({_HOW: how} if how else {})}
    said = value.get("usage") if isinstance(value, dict) else getattr(value, "usage", None)
    x.done(payload, usage_of({"usage": described(said)}), attributes=attributes)
    return value


def _passed(x: Crossing, real: Any, attributes: dict[str, Any]) -> Iterator[Any]:
    with _recorded(x, attributes):
        for piece in real:
            passed(x, piece)
            yield piece


async def _passed_async(x: Crossing, real: Any, attributes: dict[str, Any]) -> AsyncIterator[Any]:
    with _recorded(x, attributes):
        async for piece in real:
            passed(x, piece)
            yield piece


@contextmanager
def _recorded(x: Crossing, attributes: dict[str, Any]) -> Iterator[None]:
    """Around a stream that passes: how it ended."""
    try:
        yield
    except Exception as error:
        failed(x, error, attributes)
        raise
    except BaseException:
        x.done(status="cancelled", attributes=attributes)
        raise
    x.done(attributes=attributes)


def _played(x: Crossing, how: str) -> Any:
    """An answer in the form it had: at once, awaited, a stream, or a stream that is awaited."""
    if how.endswith("stream"):
        stream = _stream_async(x) if how.endswith("async stream") else _stream(x)
        return _later(stream) if how.startswith("awaited") else stream
    if how == "awaited":
        return _arrived(x)
    x.done()
    return answer(x)


async def _arrived(x: Crossing) -> Any:
    await x.arrive()
    return answer(x)


async def _later(stream: Any) -> Any:
    return stream


def _stream(x: Crossing) -> Iterator[Any]:
    try:
        yield from map(piece_back, x.chunks or ())
        if x.status == "cancelled":
            x.beyond()
    finally:
        x.done()
    answer(x)


async def _stream_async(x: Crossing) -> AsyncIterator[Any]:
    try:
        for piece in x.chunks or ():
            yield piece_back(piece)
        if x.status == "cancelled":
            x.beyond()
        await x.arrive()
    finally:
        x.done()
    answer(x)


def _named(client: Any) -> str:
    """What a model is called where no request says it."""
    for attribute in ("model", "model_name"):
        name = getattr(client, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(client).__name__
