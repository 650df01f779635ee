"""The seam ENV: what an agent's own files read of the environment.

**Rules**
1. Every read is one event, named as the variable: ``os.environ[…]``, ``get``, ``in``, ``getenv``,
   ``environb``; a listing (iteration, ``items``, ``dict(os.environ)``) is one, and each value it
   takes another. A variable that is not set is an answer.
2. The value of a variable whose name looks secret stands below a secret's key, so that redaction
   hides it in its own way; the agent is then handed in replay what stands on the tape. A boolean is
   no secret, nor is a number of at most six digits under the name of a measure. Any other value
   passes the redactor as all payloads do.
3. What the agent writes it reads again, as it was recorded. Written is the process's environment,
   for libraries that read it; after a replay what was written is taken back.
"""

import os
import re
from typing import Any, Final

from sidecar.capture.seams.ambient import ask
from sidecar.capture.seams.client_settings import put_back
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.told import read_back, told
from sidecar.capture.seams.wrapping import Wrapping

_WORDS: Final = frozenset(
    ("secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials", "cookie")
)
_LAST: Final = frozenset(("key", "keys", "pass", "pwd", "token", "pin", "otp", "auth", "pat"))
_ENDS: Final = ("password", "passwd", "secret", "token", "apikey")
_BOOLEANS: Final = frozenset(("", "0", "1", "true", "false", "yes", "no", "on", "off"))
_SMALL: Final = re.compile(r"-?[0-9]{1,6}", re.ASCII)
_BOUNDS: Final = frozenset(("max", "min", "num"))
_MEASURES: Final = frozenset(
    (
        *("tokens", "limit", "limits", "max", "min", "length", "len", "size", "bytes", "bits"),
        *("count", "number", "age", "ttl", "expiry", "expires", "lifetime", "timeout", "interval"),
        *("ms", "seconds", "secs", "minutes", "hours", "days", "attempts", "retries", "tries"),
        *("rounds", "iterations", "budget", "quota", "rate", "cost", "port", "version"),
    )
)
_written: Final[dict[str, str | None]] = {}


def install(session: Session) -> None:
    """Stand in for reads and writes of ``os.environ`` and ``os.environb``."""
    environ: Any = type(os.environ)
    wrapping = Wrapping(session)
    for name, handler in (
        ("__getitem__", _get),
        ("__iter__", _names),
        ("__len__", _count),
        ("__repr__", _shown),
        ("__setitem__", _set),
        ("__delitem__", _delete),
    ):
        wrapping.method(environ, name, handler)
    _written.clear()
    session.on_end(lambda: _take_back(session))


def is_secret(name: str, value: str) -> bool:
    """Whether a variable's value is one: its name looks so, and the value is no boolean, nor a
    small number where the name is that of a measure (``PASSWORD_LENGTH``, ``MAX_TOKEN``)."""
    if not looks_secret(name) or value.lower() in _BOOLEANS:
        return False
    parts = name.lower().replace("-", "_").split("_")
    measures = parts[-1] in _MEASURES or parts[0] in _BOUNDS
    return not (measures and _SMALL.fullmatch(value))


def looks_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    parts = name.lower().replace("-", "_").split("_")
    return parts[-1] in _LAST or not _WORDS.isdisjoint(parts) or "".join(parts).endswith(_ENDS)


def _get(session: Session, real: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    environ, key = args
    if not isinstance(key, str | bytes):
        return real(environ, key)
    text = _read(session, real, environ, key)
    if text is None:
        raise KeyError(key) from None
    return os.fsencode(text) if isinstance(key, bytes) else text


def _read(session: Session, real: Any, environ: Any, key: Any) -> str | None:
    """A variable's value as text; None where it is not set."""
    name = os.fsdecode(environ.encodekey(key))

    def get() -> str | None:
        try:
            return os.fsdecode(real(environ, key))
        except KeyError:
            return None

    def tell(value: str | None) -> Any:
        if value is None:
            return {"unset": True}
        if is_secret(name, value):  # a text, so that what redaction leaves of it is one
            return {"secret": {name: value.encode(errors="backslashreplace").decode()}}
        return {"value": {name: told(value)}}

    return ask(session, "env", name, get, tell=tell, back=_text_back)


def _text_back(out: dict[str, Any]) -> str | None:
    if "unset" in out:
        return None
    (kept,) = out.values()
    (value,) = kept.values()
    return str(read_back(value))


def _names(session: Session, real: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    (environ,) = args
    listed = _listed(session, real, environ)
    return iter([os.fsencode(one) for one in listed] if _is_bytes(environ) else listed)


def _listed(session: Session, real: Any, environ: Any) -> list[str]:
    return ask(session, "env", "os.environ", lambda: [os.fsdecode(one) for one in real(environ)])


def _count(session: Session, real: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    return ask(session, "env", "len(os.environ)", lambda: real(*args))


def _shown(session: Session, real: Any, args: Any, kwargs: Any) -> str:  # noqa: ARG001
    (environ,) = args
    cls: Any = type(environ)
    iterate, get = cls.__iter__.__wrapped__, cls.__getitem__.__wrapped__
    shown = []
    for name in _listed(session, iterate, environ):
        key = os.fsencode(name) if _is_bytes(environ) else name
        value = _read(session, get, environ, key)
        shown.append(f"{key!r}: {os.fsencode(value or '') if _is_bytes(environ) else value!r}")
    return f"environ({{{', '.join(shown)}}})"


def _set(session: Session, real: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
    environ, key, _ = args
    _remember(environ, key)
    real(*args)


def _delete(session: Session, real: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
    environ, key = args
    if not isinstance(key, str | bytes):
        real(environ, key)
        return
    _remember(environ, key)

    def delete() -> bool:
        try:
            real(environ, key)
        except KeyError:
            return False
        return True

    name = os.fsdecode(environ.encodekey(key))
    if not ask(session, "env", name, delete, given={"delete": True}, also=delete):
        raise KeyError(key) from None


def _remember(environ: Any, key: Any) -> None:
    if isinstance(key, str | bytes):
        name = os.fsdecode(environ.encodekey(key))
        if name not in _written:
            _written[name] = os.environ.get(name)


def _take_back(session: Session) -> None:
    """What was written in a replay is as it was."""
    if session.player is not None:
        put_back(_written)
    _written.clear()


def _is_bytes(environ: Any) -> bool:
    return environ is getattr(os, "environb", None)
