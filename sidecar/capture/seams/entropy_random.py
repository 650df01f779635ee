"""The seam ENTROPY in ``random``: its functions, and generators that own files throw.

**Rules**
1. Every throw from an own file is one event, whoever made the generator.
2. What is chosen, drawn or shuffled is told by its places, never by what it is: the agent gets its
   own objects.
3. Played, a generator of numbers is thrown all the same and what it says left aside, so that who
   else uses it (a library) goes on from where it was when recorded. The system's dice are not.
4. A generator that an own file makes or seeds without a seed is seeded by us, and the seed told.
"""

import os
import random
from collections.abc import Callable
from typing import Any, Final

from sidecar.capture.seams.ambient import ask, described
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.wrapping import Handler, Wrapping
from sidecar.tape.compose import NOTHING

_NUMBERS: Final = (
    *("random", "getrandbits", "randbytes", "randrange", "randint", "uniform", "triangular"),
    *("normalvariate", "gauss", "lognormvariate", "expovariate", "vonmisesvariate", "getstate"),
    *("gammavariate", "betavariate", "paretovariate", "weibullvariate", "binomialvariate"),
)
_OWN_OF_SYSTEM: Final = ("random", "getrandbits", "randbytes")
_SEED_BYTES: Final = 32


def install(session: Session) -> None:
    """Stand in for the functions of ``random`` and for the methods of its generators."""
    wrapping = Wrapping(session)
    for name in _NUMBERS:
        wrapping.function(random, name, _number("random", name, method=False))
        wrapping.method(random.Random, name, _number("Random", name, method=True))
    for name in _OWN_OF_SYSTEM:
        wrapping.method(random.SystemRandom, name, _number("Random", name, method=True))
    for name, made in _PLACES.items():
        wrapping.function(random, name, made("random", method=False))
        wrapping.method(random.Random, name, made("Random", method=True))
    wrapping.function(random, "seed", _seed("random", method=False))
    wrapping.method(random.Random, "seed", _seed("Random", method=True))
    wrapping.method(random.Random, "__init__", _begin)
    wrapping.bind()


def thrown(
    session: Session,
    name: str,
    throw: Callable[[], Any],
    again: Callable[[], Any] | None,
    given: Any = NOTHING,
) -> Any:
    """One throw; ``again`` throws once more where it was played (rule 3)."""
    return ask(session, "entropy", name, throw, given=given, also=again)


def _parts(owner: str, method: bool, args: Any) -> tuple[str, Any, Any, bool]:
    """What it is called, the generator (none of a function), the arguments, and whether it is a
    generator of numbers."""
    if not method:
        return owner, (), args, True
    system = isinstance(args[0], random.SystemRandom)
    return "SystemRandom" if system else owner, args[:1], args[1:], not system


def _number(owner: str, name: str, *, method: bool) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
        called, _, given, numbers = _parts(owner, method, args)

        def throw() -> Any:
            return real(*args, **kwargs)

        asked = described(given, kwargs) if given or kwargs else NOTHING
        again = throw if numbers else None
        return thrown(session, f"{called}.{name}", throw, again, asked)

    return handle


def _choice(owner: str, *, method: bool) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
        called, me, given, numbers = _parts(owner, method, args)
        (among,) = given or kwargs.values()
        size = len(among)

        def throw() -> Any:
            return real(*me, range(size))

        again = throw if numbers else None
        return among[thrown(session, f"{called}.choice", throw, again, described((size,)))]

    return handle


def _several(name: str, several: Callable[..., tuple[Any, tuple[Any, ...], dict[str, Any]]]) -> Any:
    """``choices`` and ``sample``; ``several`` splits who from what else was given."""

    def made(owner: str, *, method: bool) -> Handler:
        def handle(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
            called, me, given, numbers = _parts(owner, method, args)
            among, more, named = several(*given, **kwargs)
            if not hasattr(among, "__getitem__") or not hasattr(among, "__len__"):
                return real(*args, **kwargs)  # it is refused
            size = len(among)

            def throw() -> Any:
                return real(*me, range(size), *more, **named)

            again = throw if numbers else None
            asked = described((size, *more), named)
            places = thrown(session, f"{called}.{name}", throw, again, asked)
            return [among[place] for place in places]

        return handle

    return made


def _shuffle(owner: str, *, method: bool) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> None:
        called, me, given, numbers = _parts(owner, method, args)
        (among,) = given or kwargs.values()

        def throw() -> list[int]:
            order = list(range(len(among)))
            real(*me, order)
            return order

        again = throw if numbers else None
        order = thrown(session, f"{called}.shuffle", throw, again, described((len(among),)))
        before = [among[place] for place in range(len(among))]
        for place, one in enumerate(order):
            among[place] = before[one]

    return handle


def _seed(owner: str, *, method: bool) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> None:
        called, me, given, numbers = _parts(owner, method, args)
        if not numbers or (given and given[0] is not None) or kwargs.get("a") is not None:
            real(*args, **kwargs)
        else:
            real(*me, _new_seed(session, f"{called}.seed"))

    return handle


def _begin(session: Session, real: Any, args: Any, kwargs: Any) -> None:
    me = args[0]
    plain = type(me).seed is random.Random.seed
    if not plain or any(one is not None for one in (*args[1:], *kwargs.values())):
        real(*args, **kwargs)
    else:
        real(me, _new_seed(session, "random.Random"))


def _new_seed(session: Session, name: str) -> int:
    def drawn() -> int:
        return int.from_bytes(os.urandom(_SEED_BYTES), "big")

    return ask(session, "entropy", name, drawn)


def _choices_parts(population: Any, weights: Any = None, **named: Any) -> Any:
    return population, (weights,), named


def _sample_parts(population: Any, *more: Any, **named: Any) -> Any:
    return population, more, named


_PLACES: Final[dict[str, Callable[..., Handler]]] = {
    "choice": _choice,
    "choices": _several("choices", _choices_parts),
    "sample": _several("sample", _sample_parts),
    "shuffle": _shuffle,
}
