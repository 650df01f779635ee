"""Policy bundles on disk, and the check that the embedded engine is the one that was pinned.

**Rules**
1. A bundle is a folder: ``*.rego`` without ``*_test.rego``, ``data.json``, ``data.yaml``. Folders
   named ``examples`` and ``schema``, and hidden ones, are not part of it.
2. Nothing outside the folder is read: a link that leads out is refused, and so is what is too
   large.
3. Five distributions install the import name ``regorus``; only the pinned one, with the pinned
   bytes, decides.
"""

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

from sidecar.canonical import sha256
from sidecar.errors import SidecarError
from sidecar.expression.bounded import BoundedLoader
from sidecar.gateway.policy.bundle import Bundle, BundleInvalid, DataFile, Module, make_bundle
from sidecar.gateway.strict import read_json

DISTRIBUTION = "gordon-to-regorus"
VERSION = "0.13.0"
FILES_MAX = 500
FILE_BYTES_MAX = 1024**2
_NOT_PART = frozenset({"examples", "schema"})
_DATA = frozenset({"data.json", "data.yaml", "data.yml"})


def default_bundle_path() -> Path:
    """The bundle that ships with the program: in the wheel, or in the source tree."""
    package = Path(__file__).parents[2]
    shipped = package / "_policies"
    return shipped if shipped.is_dir() else package.parent / "policies"


def load_bundle(folder: str | Path = "", *, tests: bool = False) -> Bundle:
    """The bundle in ``folder``, with its tests if wanted; empty means the default one.

    Raises SidecarError.
    """
    root = Path(folder) if folder else default_bundle_path()
    try:
        if not root.is_dir():
            raise _broken(root, "is missing or no folder")
        names = sorted(_names(root, tests))
        modules = [Module(name, _text(root, name)) for name in names if name.endswith(".rego")]
        data = [_data(root, name) for name in names if not name.endswith(".rego")]
        return make_bundle(modules, data)
    except BundleInvalid as error:
        raise _broken(root, str(error)) from error
    except OSError as error:
        raise _broken(root, f"cannot be read: {error.strerror}: {error.filename}") from error


def check_engine() -> str:
    """``regorus/<version>`` where the engine is the pinned wheel's. Raises SidecarError."""
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise _wrong_engine(f"the wheel {DISTRIBUTION} is not installed") from None
    if distribution.version != VERSION:
        raise _wrong_engine(f"{DISTRIBUTION} is {distribution.version}, not {VERSION}")
    spec = importlib.util.find_spec("regorus")
    own = Path(str(distribution.locate_file("regorus/__init__.py")))
    if spec is None or spec.origin is None or not own.is_file() or not own.samefile(spec.origin):
        raise _wrong_engine(f"`import regorus` is not that of {DISTRIBUTION}")
    for file in distribution.files or ():
        if file.parts[0] == "regorus" and file.hash and file.hash.mode == "sha256":
            _check_hash(Path(str(file.locate())), file.hash.value)
    return f"regorus/{VERSION}"


def _check_hash(path: Path, expected: str) -> None:
    digest = hashlib.sha256(path.read_bytes()).digest()
    if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != expected:
        raise _wrong_engine(
            f"{path.name} is not that of {DISTRIBUTION}: another wheel wrote over it"
        )


def _names(root: Path, tests: bool) -> Iterator[str]:
    count = 0
    for at, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _NOT_PART and name[0] != "."]
        for name in files:
            is_policy = name.endswith(".rego") and (tests or not name.endswith("_test.rego"))
            if is_policy or name in _DATA:
                count += 1
                if count > FILES_MAX:
                    raise BundleInvalid(f"there are more than {FILES_MAX} files in it")
                yield (Path(at) / name).relative_to(root).as_posix()


def _text(root: Path, name: str) -> str:
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise BundleInvalid(f"{name} is a link out of the folder")
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise BundleInvalid(f"{name} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleInvalid(f"{name} is not UTF-8 at byte {error.start}") from error


def _data(root: Path, name: str) -> DataFile:
    text = _text(root, name)
    try:
        value = read_json(text.encode()) if name.endswith(".json") else _yaml(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise BundleInvalid(f"{name}: {why}") from error
    return DataFile(name, Path(name).parent.parts, value, sha256(text.encode()))


class _StrictLoader(BoundedLoader):
    """Bounded YAML without a key twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        found = super().construct_mapping(node, deep)
        if len(found) != len(node.value):
            raise yaml.constructor.ConstructorError(
                None, None, "a key stands twice in the mapping", node.start_mark
            )
        return found


def _yaml(text: str) -> Any:
    value = yaml.load(text, _StrictLoader)  # noqa: S506 - a SafeLoader with one more check
    return read_json(json.dumps(value, allow_nan=False).encode())


def _broken(root: Path, why: str) -> SidecarError:
    return SidecarError(
        f"the policy bundle cannot be used: {why}",
        where=str(root),
        do="Point policy.bundle at a folder of Rego files; `sidecar policy check` tells more.",
    )


def _wrong_engine(why: str) -> SidecarError:
    return SidecarError(
        f"the embedded policy engine is not the pinned one: {why}",
        where="policy.engine",
        do=f"Install {DISTRIBUTION}=={VERSION} again, and no other wheel that provides `regorus`.",
    )
