"""Which seams there are, when each is put in place, and how it is taken away again.

**Rules**
1. A seam is a module of this package with ``install(session)``. It patches through ``patch``, which
   undoes itself at the session's end, last first.
2. ``AT_ONCE`` are seams of Python itself. ``ON_IMPORT`` are seams of libraries: put in place when
   the agent imports that module, at once where it has; nothing here imports a library.
3. A seam that cannot be put in place is said once (``session.broken``), and hurts nobody.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from sidecar.capture.seams.session import Session

_HERE: Final = "sidecar.capture.seams."
AT_ONCE: Final[tuple[str, ...]] = (
    "clock",
    "entropy",
    "entropy_random",
    "env",
    "fs",
    "people",
    "programs",
    "threads",
    "races",
    "handing",
)
# module of a library -> seams to install
ON_IMPORT: Final[dict[str, tuple[str, ...]]] = {
    "asyncio": ("tasks", "clock_asyncio", "guard_names"),
    "multiprocessing.util": ("guard_workers",),
    "numpy.random": ("entropy_numpy",),
    "httpx": ("httpx_transport",),
    "httpx2": ("httpx_transport",),
    "urllib3": ("urllib3_pool",),
    "http.client": ("http_client",),
    "aiohttp": ("aiohttp_connector",),
    "openai": ("client_waits",),
    "anthropic": ("client_waits",),
    "anyio._backends._asyncio": ("tasks_anyio",),
    "langchain_core.tools.base": ("tools_langchain",),
    "pydantic_ai.toolsets.function": ("tools_pydantic_ai",),
    "agents.tool": ("tools_openai_agents",),
}
_MISSING: Final = object()


def install_all(session: Session) -> None:
    """Put every seam in place for a session that has begun."""
    for name in AT_ONCE:
        install(session, name)
    when_imported(session, ON_IMPORT)


def install(session: Session, name: str) -> None:
    """Put one seam of this package in place."""
    try:
        importlib.import_module(_HERE + name).install(session)
    except Exception as error:
        session.broken[name] = type(error).__name__


def patch(session: Session, target: Any, name: str, value: Any) -> Any:
    """Replace an attribute until the session ends; the original.

    It is put back only where it is still ours, so that who patched it after us keeps his.
    """
    original = getattr(target, name)
    stood = vars(target).get(name, _MISSING)
    setattr(target, name, value)

    def undo() -> None:
        if vars(target).get(name) is not value:
            return
        if stood is _MISSING:
            delattr(target, name)
        else:
            setattr(target, name, stood)

    session.on_end(undo)
    return original


def when_imported(session: Session, seams: dict[str, tuple[str, ...]]) -> None:
    """Install seams once the agent has imported their libraries' modules."""
    waiting = {}
    for module, names in seams.items():
        if module in sys.modules:
            for name in names:
                install(session, name)
        else:
            waiting[module] = names
    if not waiting:
        return
    finder = _Finder(session, waiting)
    sys.meta_path.insert(0, finder)

    def undo() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    session.on_end(undo)


class _Finder(MetaPathFinder):
    """Finds a watched module as everybody else would, and installs its seams once it has run."""

    def __init__(self, session: Session, waiting: dict[str, tuple[str, ...]]) -> None:
        self._session, self._waiting = session, waiting

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader around its loader."""
        names = self._waiting.pop(fullname, None)
        if names is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self._session, names)
                return spec
        return None


class _Loader(Loader):
    """Another loader, and seams after it."""

    def __init__(self, inner: Any, session: Session, names: tuple[str, ...]) -> None:
        self._inner, self._session, self._names = inner, session, names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the other."""
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """As the other; then the seams."""
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        package, _, own = module.__name__.rpartition(".")
        if package in sys.modules:  # the import binds it later; `import a.b` in a seam needs it now
            setattr(sys.modules[package], own, module)
        for name in self._names:
            install(self._session, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
