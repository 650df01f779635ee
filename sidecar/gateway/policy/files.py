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
import os
from collections.abc import Iterator
from pathlib import Path

from sidecar.errors import SidecarError
from sidecar.gateway.policy.archive import ARCHIVE_BYTES_MAX
from sidecar.gateway.policy.bundle import Bundle, BundleInvalid
from sidecar.gateway.policy.contents import DATA, FILE_BYTES_MAX, TEST_SUFFIX, read_bundle
from sidecar.gateway.policy.release import Release, ReleaseInvalid, Terms, read

DISTRIBUTION = "gordon-to-regorus"
VERSION = "0.13.0"
FILES_MAX = 500
_NOT_PART = frozenset({"examples", "schema"})


def default_bundle_path() -> Path:
    """The bundle that ships with the program: in the wheel, or in the source tree."""
    package = Path(__file__).parents[2]
    shipped = package / "_policies"
    return shipped if shipped.is_dir() else package.parent / "policies"


def load_bundle(folder: str | Path = "", *, tests: bool = False) -> Bundle:
    """The bundle in ``folder``, with its tests if wanted; empty means the default one. An archive
    has no tests, and its signature is not looked at.

    Raises SidecarError.
    """
    root = Path(folder) if folder else default_bundle_path()
    try:
        if is_archive(root):
            return load_release(root, Terms(), 0).bundle
        return read_bundle(read_files(root, tests=tests))
    except BundleInvalid as error:
        raise broken(root, str(error)) from error


def load_release(path: str | Path, terms: Terms, now_s: int) -> Release:
    """What is at a path, as far as the terms allow it: a folder is never signed.

    Raises SidecarError.
    """
    root = Path(path) if path else default_bundle_path()
    if not terms.keys and not is_archive(root):
        try:
            files = read_files(root)
            return Release(bundle=read_bundle(files), files=files)
        except BundleInvalid as error:
            raise broken(root, str(error)) from error
    if not is_archive(root):
        raise broken(root, "is no archive, and policy.signing wants a signed one")
    try:
        return read(read_archive(root), terms, now_s)
    except ReleaseInvalid as error:
        raise broken(root, str(error)) from error


def is_archive(root: Path) -> bool:
    """Whether a path is a file. Raises SidecarError where it cannot even be looked at."""
    try:
        return root.is_file()
    except OSError as error:
        raise broken(root, error.strerror or "it cannot be looked at") from error


def read_files(root: Path, *, tests: bool = False) -> dict[str, bytes]:
    """The files in ``root`` that are part of a bundle, by name.

    Raises SidecarError; BundleInvalid.
    """
    try:
        if not root.is_dir():
            raise broken(root, "is missing or no folder")
        return {name: _bytes(root, name) for name in sorted(_names(root, tests))}
    except OSError as error:
        raise broken(root, f"cannot be read: {error.strerror}: {error.filename}") from error


def read_archive(path: Path) -> bytes:
    """The bytes of an archive, of one that is too large only as many as tell so.

    Raises SidecarError.
    """
    try:
        with path.open("rb") as file:
            return file.read(ARCHIVE_BYTES_MAX + 1)
    except OSError as error:
        raise broken(path, f"cannot be read: {error.strerror}: {error.filename}") from error


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
            is_policy = name.endswith(".rego") and (tests or not name.endswith(TEST_SUFFIX))
            if is_policy or name in DATA:
                count += 1
                if count > FILES_MAX:
                    raise BundleInvalid(f"there are more than {FILES_MAX} files in it")
                yield (Path(at) / name).relative_to(root).as_posix()


def _bytes(root: Path, name: str) -> bytes:
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise BundleInvalid(f"{name} is a link out of the folder")
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def broken(root: Path, why: str) -> SidecarError:
    """The error where what is at a path is no bundle."""
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
