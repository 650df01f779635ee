"""The seam TOOL: functions of the agent's own that are its tools, and those of frameworks it uses.

**Rules**
1. A tool's call is its arguments by name, its result what it returned; played, the function is not
   called. What it raises is raised again, of the same class where that is there.
2. A stream (a generator, an asynchronous one) is passed on piece by piece while it is recorded, and
   handed over piece by piece from the tape. What is sent or thrown into it reaches the tool.
3. What happens inside a recorded tool is its own affair: the seams within are mute.
4. Outside of a session a tool is the function it was.
"""

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from functools import partial
from typing import Any, Final

from sidecar.capture.seams.ambient import failed, raised
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.forms import described, reshaped, shaped
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.told import LOST

_KINDS: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def wrapped(fn: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """A function that is a tool, under its own name or another."""
    called = name or name_of(fn)
    signature = inspect.signature(fn)
    body = fn if _is_function(fn) else type(fn).__call__  # an object that can be called

    def asked(session: Session, args: Any, kwargs: Any, *, awaited: bool = False) -> Crossing:
        given = arguments(signature, args, kwargs)
        return entered(session, called, given, awaited=awaited)

    if inspect.isasyncgenfunction(body):

        @functools.wraps(fn)
        async def stream_async(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            session = current()
            if session is None:
                real = fn(*args, **kwargs)
            else:
                x = asked(session, args, kwargs, awaited=True)
                real = _streamed_async(x, fn, args, kwargs)
            go = partial(anext, real)
            try:
                while True:
                    try:
                        piece = await go()
                    except StopAsyncIteration:
                        return
                    try:
                        go = partial(real.asend, (yield piece))
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        go = partial(real.athrow, error)
            finally:
                await real.aclose()

        return stream_async
    if inspect.iscoroutinefunction(body):

        @functools.wraps(fn)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            session = current()
            if session is None:
                return await fn(*args, **kwargs)
            x = asked(session, args, kwargs, awaited=True)
            return await run_async(x, lambda: fn(*args, **kwargs))

        return call_async
    if inspect.isgeneratorfunction(body):

        @functools.wraps(fn)
        def stream(*args: Any, **kwargs: Any) -> Generator[Any, None, Any]:
            session = current()
            if session is None:
                return (yield from fn(*args, **kwargs))
            return (yield from _streamed(asked(session, args, kwargs), fn, args, kwargs))

        return stream

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return fn(*args, **kwargs)
        return run(asked(session, args, kwargs), lambda: fn(*args, **kwargs))

    return call


def name_of(fn: Any) -> str:
    """What a tool is called that is given no name: as its function, else as its class."""
    while isinstance(fn, partial):
        fn = fn.func
    return str(getattr(fn, "__name__", type(fn).__name__))


def _is_function(fn: Any) -> bool:
    return inspect.isroutine(fn) or isinstance(fn, partial | type)


def entered(session: Session, name: str, given: Any, *, awaited: bool = False) -> Crossing:
    """A tool is called."""
    return session.enter(
        kind="tool_call", seam="tool", name=name, given=given, label=name, awaited=awaited
    )


def arguments(signature: inspect.Signature, args: Any, kwargs: Any) -> Any:
    """What a function was called with, by name; ``self`` is no argument."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the function itself will say so
        return {"args": described(args), **described(kwargs)}
    found: dict[str, Any] = {}
    for key, item in bound.arguments.items():
        if signature.parameters[key].kind is _KINDS[1]:
            found |= item
        elif key not in ("self", "cls"):
            found[key] = item
    return described(found)


def run(x: Crossing, call: Callable[[], Any]) -> Any:
    """A tool's answer: the tape's, or what the call gives."""
    if x.played:
        return answer(x)
    try:
        with x.inside():
            got = call()
    except BaseException as error:
        failed(x, error)
        raise
    done(x, got)
    return got


async def run_async(x: Crossing, call: Callable[[], Any]) -> Any:
    """The same of one that is awaited."""
    if x.played:
        await x.arrive()
        return answer(x)
    try:
        with x.inside():
            got = await call()
    except BaseException as error:
        failed(x, error)
        raise
    done(x, got)
    return got


def done(x: Crossing, value: Any) -> None:
    """A tool returned."""
    payload, forms = shaped(value)
    x.done(payload, attributes={"forms": forms} if forms else None)


def answer(x: Crossing) -> Any:
    """What the tape says the tool returned. Raises what it raised."""
    if x.error is not None:
        raise raised(x.error, x.out)
    return reshaped(x.out, x.attributes.get("forms", {}))


def _streamed(x: Crossing, fn: Any, args: Any, kwargs: Any) -> Generator[Any, None, Any]:
    if x.played:
        try:
            yield from _played(x.chunks or ())
        finally:
            x.done()
        return answer(x)
    with x.inside():
        real = fn(*args, **kwargs)
    go = partial(next, real)
    try:
        while True:
            try:
                with x.inside():
                    piece = go()
            except StopIteration as stop:
                done(x, stop.value)
                return stop.value
            passed(x, piece)
            try:
                go = partial(real.send, (yield piece))
            except GeneratorExit:
                raise
            except BaseException as error:
                go = partial(real.throw, error)  # the tool's own to catch
    except BaseException as error:
        failed(x, error)
        raise
    finally:
        with x.inside():
            real.close()


async def _streamed_async(x: Crossing, fn: Any, args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:
    if x.played:
        try:
            for piece in _played(x.chunks or ()):
                try:
                    yield piece
                except Exception:  # noqa: S112 - as in _played
                    continue
            await x.arrive()
        finally:
            x.done()
        answer(x)
        return
    with x.inside():
        real = fn(*args, **kwargs)
    go = partial(anext, real)
    try:
        while True:
            try:
                with x.inside():
                    piece = await go()
            except StopAsyncIteration:
                break
            passed(x, piece)
            try:
                go = partial(real.asend, (yield piece))
            except GeneratorExit:
                raise
            except BaseException as error:
                go = partial(real.athrow, error)
        x.done(None)
    except BaseException as error:
        failed(x, error)
        raise
    finally:
        with x.inside():
            await real.aclose()


def _played(chunks: Iterable[Any]) -> Generator[Any, Any, None]:
    """Pieces from the tape, whatever is sent; what is thrown the tool caught, or it has no more."""
    for chunk in chunks:
        try:
            yield piece_back(chunk)
        except Exception:  # noqa: S112 - how the stream ended is what the tape says
            continue


def passed(x: Crossing, piece: Any) -> None:
    """A piece of a stream, as it passes."""
    payload, forms = shaped(piece)
    x.chunk({"forms": forms, "piece": payload} if payload is not LOST else LOST)


def piece_back(chunk: Any) -> Any:
    """A piece that was passed."""
    return reshaped(chunk["piece"], chunk["forms"])
