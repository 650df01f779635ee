"""Recorded exceptions raised again, as their library's own classes.

**Rules**
1. A class is looked for in modules that are loaded, by its name on the tape, and is used only where
   it is an exception; nothing is imported, and no constructor of another thing is called.
2. Its text is the recorded one, exactly: agents show it to models.
"""

import re
import sys
from types import ModuleType
from typing import Any, Final

_ERRNO: Final = re.compile(r"\[Errno (-?\d{1,9})\] (.*)", re.DOTALL)


def rebuilt(
    error: tuple[str, str | None],
    fallback: type[Exception],
    *libraries: ModuleType,
    **attributes: Any,
) -> Exception:
    """The exception of a recorded ``(class, text)``; ``fallback`` where its class is not here.

    A library's own class of that name goes before the recorded module's: the agent may have moved.
    """
    name, text = error
    found = _class(name, libraries) or fallback
    message = "" if text is None else text
    made = _made(found, message)
    for key, value in attributes.items():
        try:
            setattr(made, key, value)
        except AttributeError:
            continue  # it has no such attribute, or tells it itself
    try:
        same = str(made) == message
    except Exception:
        same = False
    return made if same else _told(made, found, message)


def _class(name: str, libraries: tuple[ModuleType, ...]) -> type[Exception] | None:
    module, _, leaf = name.rpartition(".")
    places = [*libraries, sys.modules.get(module or "builtins")]
    for place in places:
        found = vars(place).get(leaf) if place is not None else None
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None


def _made(kind: type[Exception], message: str) -> Exception:
    numbered = _ERRNO.fullmatch(message)
    if numbered is not None and issubclass(kind, OSError):
        try:
            return kind(int(numbered[1]), numbered[2])
        except TypeError:
            pass
    made = kind.__new__(kind)
    Exception.__init__(made, *([message] if message else []))
    return made


def _told(made: Exception, kind: type[Exception], message: str) -> Exception:
    """The same with the recorded text, where the class would tell another."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    body = {**names, "__str__": lambda _: message}
    try:
        told = type(kind.__name__, (kind,), body)
        made.__class__ = told
    except TypeError:
        return made
    return made
