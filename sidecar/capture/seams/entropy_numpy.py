"""The seam ENTROPY in numpy: ``numpy.random``'s functions and the methods of its generators.

**Rules**
1. As ``entropy_random``: every throw from an own file is one event, and a generator is thrown again
   in replay. numpy is the agent's; nothing here imports it.
2. An array comes back bit for bit, in its type and shape. What is filled or shuffled in place is
   filled from the tape.
3. Arrays of objects are drawn from by place: the agent gets its own objects.
"""

import secrets
import sys
from typing import Any, Final

from sidecar.capture.seams.ambient import ask, described
from sidecar.capture.seams.entropy_random import thrown
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.wrapping import Handler, Wrapping
from sidecar.tape.compose import NOTHING

_NO_THROW: Final = frozenset(
    ("seed", "get_state", "set_state", "spawn", "bit_generator", "default_rng")
)
_IN_PLACE: Final = frozenset(("shuffle",))
_FROM: Final = frozenset(("choice", "permutation", "permuted"))


def install(session: Session) -> None:
    """Stand in for numpy's dice, once the agent has imported them."""
    numpy = sys.modules["numpy.random"]
    wrapping = Wrapping(session)
    for cls in (numpy.Generator, numpy.RandomState):
        for name, real in list(vars(cls).items()):
            if name[0] != "_" and name not in _NO_THROW and callable(real):
                wrapping.in_c(cls, name, _handler(cls.__name__, name, method=True))
    for name in numpy.__all__:
        real = getattr(numpy, name)
        if not isinstance(real, type) and name not in _NO_THROW:
            wrapping.function(numpy, name, _handler("numpy.random", name, method=False))
    wrapping.function(numpy, "default_rng", _new_generator)
    wrapping.function(numpy, "seed", _seed)
    wrapping.bind()


def _handler(owner: str, name: str, *, method: bool) -> Handler:
    handle = _shuffled if name in _IN_PLACE else _drawn if name in _FROM else _number
    called = f"{owner}.{name}"

    def handler(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
        me, given = (args[:1], args[1:]) if method else ((), args)
        return handle(session, called, lambda *a, **k: real(*me, *a, **k), given, kwargs)

    return handler


def _number(session: Session, name: str, real: Any, args: Any, kwargs: Any) -> Any:
    into = kwargs.get("out")
    asked = {key: one for key, one in kwargs.items() if key != "out"}
    given = described(args, asked) if args or asked else NOTHING
    found = thrown(
        session,
        name,
        lambda: real(*args, **kwargs),
        lambda: (
            real(*args, **{**kwargs, "out": None if into is None else into.copy()})
            if "out" in kwargs
            else real(*args, **kwargs)
        ),
        given,
    )
    if into is None or found is into:
        return found
    into[...] = found
    return into


def _drawn(session: Session, name: str, real: Any, args: Any, kwargs: Any) -> Any:
    among = _objects(args[0]) if args else None
    if among is None or kwargs.get("axis"):
        return _number(session, name, real, args, kwargs)
    size = len(among)

    def throw() -> Any:
        return real(size, *args[1:], **kwargs)

    return among[thrown(session, name, throw, throw, described((size, *args[1:]), kwargs))]


def _shuffled(session: Session, name: str, real: Any, args: Any, kwargs: Any) -> None:
    among, *more = args or (kwargs["x"],)
    named = {key: one for key, one in kwargs.items() if key != "x"}
    plain = hasattr(among, "dtype") and not among.dtype.hasobject

    def throw() -> Any:
        after = among.copy() if plain else list(range(len(among)))
        real(after, *more, **named)
        return after

    asked = described((len(among), *more), named)
    after = thrown(session, name, throw, throw, asked)
    if plain:
        among[...] = after
        return
    before = [among[place] for place in range(len(among))]
    for place, one in enumerate(after):
        among[place] = before[one]


def _objects(among: Any) -> Any:
    """A sequence as an array of objects, where it is one; None where numpy tells its values."""
    if isinstance(among, int):
        return None
    array = sys.modules["numpy"].asarray(among)
    return array if array.ndim and array.dtype.hasobject else None


def _new_generator(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    if any(one is not None for one in (*args, *kwargs.values())):
        return real(*args, **kwargs)
    return real(_new_seed(session, "numpy.random.default_rng"))


def _seed(session: Session, real: Any, args: Any, kwargs: Any) -> None:
    if any(one is not None for one in (*args, *kwargs.values())):
        real(*args, **kwargs)
    else:
        seed = _new_seed(session, "numpy.random.seed")
        real([seed >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)])


def _new_seed(session: Session, name: str) -> int:
    return ask(session, "entropy", name, lambda: secrets.randbits(128))
