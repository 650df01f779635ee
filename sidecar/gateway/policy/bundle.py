"""A policy bundle: Rego modules and data under one revision.

**Rules**
1. The revision is a digest of every file's path and bytes: what decides is what the revision names.
2. Data merges under its folder, as OPA loads it; two files that say one thing are refused.
3. A bundle without a module is refused: no policy is no bundle, not an empty one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from sidecar.canonical import digest, sha256

ENTRYPOINTS = ("data.agenttwin.v1.decide", "data.agenttwin.v1.list")


class BundleInvalid(ValueError):
    """The files make no bundle; the message says which and why."""


class Module(Struct, frozen=True):
    """One Rego file: its path within the bundle, with ``/``, and its text."""

    path: str
    text: str


class DataFile(Struct, frozen=True):
    """One data file, read: ``folder`` is where its value merges; ``digest`` that of its bytes."""

    path: str
    folder: tuple[str, ...]
    value: Any
    digest: str


class Bundle(Struct, frozen=True, kw_only=True):
    """What an engine is given."""

    modules: tuple[Module, ...]
    data: dict[str, Any]
    revision: str


def make_bundle(modules: Iterable[Module], data_files: Iterable[DataFile]) -> Bundle:
    """The bundle of those files. Raises BundleInvalid."""
    ordered = tuple(sorted(modules, key=lambda module: module.path))
    files = sorted(data_files, key=lambda file: file.path)
    if not ordered:
        raise BundleInvalid("there is no .rego file in it (tests apart)")
    data: dict[str, Any] = {}
    for file in files:
        _merge(data, _nested(file.folder, file.value, file.path), file.path, ())
    listed = [[module.path, sha256(module.text.encode())] for module in ordered]
    listed += [[file.path, file.digest] for file in files]
    return Bundle(
        modules=ordered, data=data, revision=digest({"v": 1, "files": listed}, domain="agwb/1")
    )


def _nested(folder: tuple[str, ...], value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise BundleInvalid(f"{path}: data must be an object at the top")
    found = dict(value)
    for name in reversed(folder):
        found = {name: found}
    return found


def _merge(into: dict[str, Any], value: Mapping[str, Any], path: str, at: tuple[str, ...]) -> None:
    for key, item in value.items():
        present = into.get(key)
        if key not in into:
            into[key] = dict(item) if isinstance(item, Mapping) else item
        elif isinstance(present, dict) and isinstance(item, Mapping):
            _merge(present, item, path, (*at, key))
        else:
            raise BundleInvalid(f"{path}: data.{'.'.join((*at, key))} is set by another file too")
