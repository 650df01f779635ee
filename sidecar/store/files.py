"""The folder of a backup: made beside, told by its digests, there all at once or not at all.

Rules
1. Nothing is written over: the folder must not be there, or be empty.
2. Everything is on the disk before the folder gets its name.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import msgspec

from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.store.upkeep import MANIFEST, SUMS, BackupFile, BackupManifest, sums

_CHUNK_BYTES = 1024**2


@contextmanager
def backup_folder(folder: Path) -> Iterator[Path]:
    """A folder to write a backup into; it becomes ``folder`` at the end. Raises SidecarError."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise SidecarError(
                "there is something already",
                where=str(folder),
                do="Name a folder that is not there.",
            )
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        making = Path(mkdtemp(prefix=f".{folder.name}.unfinished-", dir=folder.parent))
        try:
            yield making
            if folder.exists():
                folder.rmdir()
            making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
        _flush(folder.parent)
    except OSError as error:
        raise StoreUnavailable(
            f"the backup cannot be written: {error.strerror or error}",
            where=str(folder),
            do="Name a folder that can be written and has free space.",
        ) from error


def seal_folder(folder: Path, manifest: BackupManifest) -> BackupManifest:
    """Tell every file of the folder by its digest and write the manifest, last; what it says."""
    found = tuple(_told(path) for path in sorted(folder.iterdir()))
    whole = msgspec.structs.replace(manifest, files=found)
    for name, content in (
        (SUMS, sums(found).encode()),
        (MANIFEST, msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"),
    ):
        path = folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        _flush(path)
    _flush(folder)
    return whole


def _told(path: Path) -> BackupFile:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    path.chmod(0o600)
    _flush(path)
    return BackupFile(name=path.name, size_bytes=path.stat().st_size, sha256=digest.hexdigest())


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
