"""The seam ENTROPY: dice that the system throws, of ``os``, ``secrets`` and ``uuid``.
(``entropy_random``, ``entropy_numpy``: generators of the agent's own.)

**Rules**
1. Every throw from an own file is one event, and comes back with its type: bytes, text, a UUID.
2. What is chosen is told by its place, never by what it is: the agent gets its own object.
3. A token that ``secrets`` made stands on the tape, as all that a replay needs; who keeps the tape
   keeps it.
"""

import os
import secrets
import uuid
from typing import Any, Final

from sidecar.capture.seams.ambient import ask, described
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.wrapping import Handler, Wrapping
from sidecar.tape.compose import NOTHING

_SYSTEM: Final = ("urandom", "getrandom")
_SECRETS: Final = ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits")
_UUID: Final = ("uuid1", "uuid4", "uuid6", "uuid7", "uuid8", "getnode")


def install(session: Session) -> None:
    """Stand in for the throws of ``os``, ``secrets`` and ``uuid``."""
    wrapping = Wrapping(session)
    for module, names in ((os, _SYSTEM), (secrets, _SECRETS), (uuid, _UUID)):
        for name in names:
            wrapping.function(module, name, _throw(f"{module.__name__}.{name}"))
    wrapping.function(secrets, "choice", _choice)
    wrapping.bind()


def _throw(name: str) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
        given = described(args, kwargs) if args or kwargs else NOTHING
        return ask(session, "entropy", name, lambda: real(*args, **kwargs), given=given)

    return handle


def _choice(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    (among,) = args or kwargs.values()
    size = len(among)
    place: int = ask(
        session, "entropy", "secrets.choice", lambda: real(range(size)), given=described((size,))
    )
    return among[place]
