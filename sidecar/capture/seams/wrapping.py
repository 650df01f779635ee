"""Wrappers that stand in for functions of Python's own, and ask whose a call is.

**Rules**
1. There is one wrapper for each function, made once and for all sessions: what an own file bound
   with ``from time import time`` in one session serves the next, and calls straight through where
   there is none.
2. A call that is not the agent's own reaches the real function after one look into a set.
3. A wrapper binds where the real function binds and nowhere else: a built-in function in a class
   body is no method. It is pickled by its name.
4. A class of C is changed in place, so that it stays the one there is: ``isinstance``, annotations,
   subclasses and pickles know no other.
5. What own modules and their classes bound before a session began is bound anew until it ends.
"""

import ctypes
import gc
import importlib
import inspect
import sys
from collections.abc import Callable
from functools import update_wrapper
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, Self

from sidecar.capture.seams import callers
from sidecar.capture.seams.callers import FOREIGN, THROUGH, is_own, is_own_file
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current

# session, the real function, and what it was called with (a method's first is its object)
Handler = Callable[[Session, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_getframe: Final = sys._getframe
_NO_KEYWORDS: Final = ("time",)
_WRAPPERS: Final[dict[tuple[str, str], "Wrapper"]] = {}


class Wrapper:
    """One function that is stood in for: the real one, what happens instead, and ``call``."""

    __slots__ = ("call", "handler", "module", "real")

    def __init__(self, module: str, real: Any, handler: Handler, *, method: bool) -> None:
        self.module, self.real, self.handler = module, real, handler
        bound = _bound_plain if module in _NO_KEYWORDS else _bound
        self.call: Any = _function(self) if method else MethodType(bound(real), self)

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.module,)

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Wrapping:
    """Stands in for functions until a session ends; ``bind`` is called after the last."""

    def __init__(self, session: Session) -> None:
        callers.begin(session)
        self._session = session
        self._alike: dict[Any, Any] = {}

    def function(self, module: ModuleType, name: str, handler: Handler) -> None:
        """Stand in for a module's function; one it lacks is left out."""
        real = getattr(module, name, None)
        if real is None:
            return
        method = isinstance(real, FunctionType)
        wrapper = _wrapper(module.__name__, name, real, handler, method=method)
        patch(self._session, module, name, wrapper.call)
        self._alike[_same(wrapper.real)] = wrapper.call

    def method(self, cls: type, name: str, handler: Handler) -> None:
        """Stand in for a method of a class of Python."""
        real = getattr(cls, name, None)
        if real is not None:
            wrapper = _wrapper(_named(cls), name, real, handler, method=True)
            patch(self._session, cls, name, wrapper.call)

    def in_c(self, cls: type, name: str, handler: Handler) -> None:
        """Stand in for a method of a class of C; a class method's handler is given the class.

        Raises TypeError where this interpreter's classes do not let it.
        """
        members = next(iter(gc.get_referents(cls.__dict__)), None)
        real = cls.__dict__.get(name)
        if not isinstance(members, dict) or members.get(name) is not real:
            raise TypeError(f"{cls.__name__} cannot be changed here")
        if real is None:
            return
        of_class = type(real).__name__ == "classmethod_descriptor"
        called = _of_class(real) if of_class else real
        wrapper = _wrapper(_named(cls), name, called, handler, method=True)
        standing: Any = classmethod(wrapper.call) if of_class else wrapper.call
        if of_class:
            self._alike[_same(getattr(cls, name))] = classmethod(wrapper.call).__get__(None, cls)
        members[name] = standing
        _changed(cls)

        def undo() -> None:
            if members.get(name) is standing:
                members[name] = real
                _changed(cls)

        self._session.on_end(undo)

    def bind(self) -> None:
        """Bind anew what own modules had bound, and those that are looked through."""
        for module in list(sys.modules.values()):
            if not issubclass(type(module), ModuleType):
                continue
            file = vars(module).get("__file__")  # asked for otherwise, a lazy module may import
            if is_own_file(file) or (isinstance(file, str) and file in THROUGH):
                for name, value in list(vars(module).items()):
                    self._bind(module, name, value)
                    if issubclass(type(value), type) and value.__module__ == module.__name__:
                        for inner, one in list(vars(value).items()):
                            self._bind(value, inner, one)
        self._alike.clear()

    def _bind(self, holder: Any, name: str, value: Any) -> None:
        kind = type(value)  # a proxy may say that it is something else, or raise
        if kind is staticmethod:
            if (found := self._standing(value.__func__)) is not None:
                patch(self._session, holder, name, staticmethod(found))
        elif (found := self._standing(value)) is not None:
            patch(self._session, holder, name, found)
        elif kind is FunctionType and is_own_file(value.__globals__.get("__file__")):
            self._bind_within(value)

    def _bind_within(self, function: FunctionType) -> None:
        """What a function was made with: its defaults, and a dataclass's factories."""
        defaults = function.__defaults__ or ()
        if any(self._standing(one) is not None for one in defaults):
            anew = tuple(self._standing(one) or one for one in defaults)
            self._put(setattr, function, "__defaults__", anew, function.__defaults__)
        named = function.__kwdefaults__ or {}
        for name, one in list(named.items()):
            if (found := self._standing(one)) is not None:
                self._put(named.__setitem__, name, found, one)
        for cell in function.__closure__ or ():
            try:
                one = cell.cell_contents
            except ValueError:  # nothing in it yet
                continue
            if (found := self._standing(one)) is not None:
                self._put(setattr, cell, "cell_contents", found, one)

    def _put(self, put: Callable[..., None], *where_new_old: Any) -> None:
        *where, new, old = where_new_old
        put(*where, new)
        self._session.on_end(lambda: put(*where, old))

    def _standing(self, value: Any) -> Any:
        return self._alike.get(_same(value)) if callable(value) else None


def as_own(module: ModuleType, name: str, *args: Any) -> Any:
    """Call a function that is stood in for as an own file does."""
    wrapper, session = _WRAPPERS[module.__name__, name], current()
    if session is None:
        return wrapper.real(*args)
    return wrapper.handler(session, wrapper.real, args, {})


def _same(function: Any) -> Any:
    """What two names of one function have in common; a class method of C is made at each look."""
    if type(function) is BuiltinFunctionType and isinstance(function.__self__, type):
        return function.__name__, id(function.__self__)
    return id(function)


def _of_class(real: Any) -> Callable[..., Any]:
    """A class method of C as a function of the class."""
    home = real.__objclass__
    direct = real.__get__(None, home)

    def call(cls: type, /, *args: Any, **kwargs: Any) -> Any:
        if cls is home:
            return direct(*args, **kwargs)
        return real.__get__(None, cls)(*args, **kwargs)

    return update_wrapper(call, direct)


def _wrapper(module: str, name: str, real: Any, handler: Handler, *, method: bool) -> Wrapper:
    found = _WRAPPERS.get((module, name))
    if found is None:
        found = _WRAPPERS[module, name] = Wrapper(module, real, handler, method=method)
    elif real is not found.call:
        found.real = real  # somebody put another one there since
    return found


def _bound(real: Any) -> Callable[..., Any]:
    def call(self: Wrapper, /, *args: Any, **kwargs: Any) -> Any:
        frame = _getframe(1)
        if frame.f_code.co_filename in FOREIGN or not is_own(frame):
            return self.real(*args, **kwargs)
        session = current()
        if session is None:
            return self.real(*args, **kwargs)
        return self.handler(session, self.real, args, kwargs)

    return update_wrapper(call, real)


def _bound_plain(real: Any) -> Callable[..., Any]:
    """As ``_bound``, for functions that take no keywords."""

    def call(self: Wrapper, /, *args: Any) -> Any:
        frame = _getframe(1)
        if frame.f_code.co_filename in FOREIGN or not is_own(frame):
            return self.real(*args)
        session = current()
        if session is None:
            return self.real(*args)
        return self.handler(session, self.real, args, {})

    return update_wrapper(call, real)


def _function(wrapper: Wrapper) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        frame = _getframe(1)
        if frame.f_code.co_filename in FOREIGN or not is_own(frame):
            return wrapper.real(*args, **kwargs)
        session = current()
        if session is None:
            return wrapper.real(*args, **kwargs)
        return wrapper.handler(session, wrapper.real, args, kwargs)

    made = update_wrapper(call, wrapper.real)
    if inspect.iscoroutinefunction(wrapper.real):
        _mark_coroutine(made)
    return made


def _mark_coroutine(function: Any) -> None:
    """Say of a plain function that it returns coroutines, as ``inspect`` and asyncio ask it."""
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(function)
    else:
        function._is_coroutine = sys.modules["asyncio"].coroutines._is_coroutine


def _named(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _changed(cls: type) -> None:
    """Tell the interpreter that a class was changed under it, as its C interface asks."""
    told = ctypes.pythonapi.PyType_Modified
    told.argtypes, told.restype = [ctypes.py_object], None
    told(cls)
