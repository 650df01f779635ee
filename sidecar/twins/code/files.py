"""The code of a twin from disk: its functions by tool, and a digest over its source.

**Rules**
1. A twin's file names its code, and nothing else is loaded: a module has ``TOOLS``, a mapping from
   tool names to functions.
2. The code runs in the replay's own process with its rights, like an agent given as ``py:``; that a
   twin has code, and which, stands in evidence.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from sidecar.canonical import sha256
from sidecar.errors import SidecarError
from sidecar.expression.files import document_bytes
from sidecar.twins.coded import Code
from sidecar.twins.declaration import CodeSource


def load_code(source: CodeSource, folder: Path) -> tuple[Code, bytes]:
    """The functions, and the source they were read from. Raises SidecarError."""
    if source.file:
        path = folder / source.file
        text = _source(path)
        module = _from_file(path, text)
        name = source.file
    else:
        module = _imported(source.module)
        path = Path(inspect.getsourcefile(module) or "")
        text = _source(path)
        name = source.module
    return Code(name=name, digest=sha256(text), functions=_functions(module, name)), text


def _source(path: Path) -> bytes:
    try:
        return document_bytes(path)
    except OSError as error:
        raise SidecarError(
            f"the twin's code cannot be read: {error.strerror}",
            where=str(path),
            do="Check the path under code.",
        ) from None


def _from_file(path: Path, text: bytes) -> ModuleType:
    name = f"_twin_{sha256(text).removeprefix('sha256:')[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SidecarError("it is no Python file", where=str(path), do="Name a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # records and dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever somebody's file may raise
        del sys.modules[name]
        raise _broken(str(path), error) from error
    return module


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever somebody's module may raise
        raise _broken(name, error) from error


def _broken(where: str, error: Exception) -> SidecarError:
    return SidecarError(
        f"the twin's code cannot be loaded: {type(error).__name__}: {error}",
        where=where,
        do="Import it yourself to see where it fails.",
    )


def _functions(module: ModuleType, name: str) -> Mapping[str, Any]:
    found = getattr(module, "TOOLS", None)
    if not isinstance(found, Mapping) or not all(map(callable, found.values())):
        raise SidecarError(
            "the twin's code has no TOOLS, a mapping from tool names to functions", where=name
        )
    return {str(tool): function for tool, function in found.items()}
