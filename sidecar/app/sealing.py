"""The seal key, the projects' data keys under it, and the keys of digests."""

import base64
import binascii
import os
from pathlib import Path

from sidecar import clock
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.store.backend import (
    KeyBook,
)
from sidecar.store.envelope import KEY_BYTES, Keyring, SealBroken, Sealer
from sidecar.store.redaction import RedactionKeys


def master_key(loaded: Loaded, *, make: bool = False) -> bytes:
    """The key that wraps the projects' data keys, from ``seal.key_file``; ``make`` creates it.

    Without ``seal.key_file`` it lies beside the data folder, never in it. Raises SidecarError.
    """
    path = seal_key_path(loaded)
    if not _is_there(path):
        if not make:
            raise SidecarError(
                "there is no seal key",
                where=str(path),
                do="Make one with: (umask 077; openssl rand -hex 32 > FILE), "
                "and name it in seal.key_file.",
            )
        write_new(
            path,
            clock.random_bytes(KEY_BYTES).hex().encode() + b"\n",
            what="the seal key",
            do="Make the folder writable, or name a file in seal.key_file.",
        )
    try:
        return _key_bytes(path.read_bytes().strip())
    except OSError as error:
        raise SidecarError(
            f"the seal key cannot be read: {error.strerror}", where=str(path)
        ) from None
    except (ValueError, binascii.Error):
        raise SidecarError(
            "the seal key is not 32 bytes in hex or base64",
            where=str(path),
            do="Make one with: openssl rand -hex 32",
        ) from None


def _is_there(path: Path) -> bool:
    """Whether a file is there, or may be: where nobody lets us look, reading it says so."""
    try:
        return path.exists()
    except OSError:
        return True


def seal_key_path(loaded: Loaded) -> Path:
    """Where the master key lies. Raises SidecarError when that is inside the data folder."""
    folder = Path(loaded.store_folder)
    if folder.name in ("", ".."):  # beside "." is beside the folder it is
        folder = Path(os.path.abspath(folder))  # noqa: PTH100 (a symbolic link is a folder's name)
    path = folder.parent / f"{folder.name}.seal-key"
    if loaded.config.seal.key_file:
        path = loaded.path(loaded.config.seal.key_file)
    if path.resolve().is_relative_to(folder.resolve()):
        raise SidecarError(
            "the seal key lies inside the data folder it protects",
            where=str(path),
            do="Move it elsewhere and correct seal.key_file.",
        )
    return path


def keyring(keys: KeyBook, master: bytes) -> Keyring:
    """The Sealer of each project, under the master key."""
    return Keyring(Sealer(master, clock.random_bytes), keys, clock.random_bytes)


def redaction_keys(keys: KeyBook, ring: Keyring) -> RedactionKeys:
    """The keys of each project's digests."""
    return RedactionKeys(keys, ring, clock.random_bytes)


def check_keyring(ring: Keyring, projects: list[str], loaded: Loaded, *, make: bool = True) -> None:
    """Open every project's data key now, so that a wrong master key stops the start, not a call.

    ``make``: give a project without one its own. Raises SidecarError.
    """
    for project in projects:
        try:
            if make:
                ring(project)
            else:
                ring.check(project)
        except SealBroken:
            raise wrong_seal(f"project {project}", loaded) from None


def wrong_seal(what: str, loaded: Loaded) -> SidecarError:
    return SidecarError(
        f"the seal key is not the one that sealed {what}",
        where=str(seal_key_path(loaded)),
        do="Put back the key the store was made with, or start with an empty store.",
    )


def _key_bytes(text: bytes) -> bytes:
    key = (
        binascii.unhexlify(text)
        if len(text) == 2 * KEY_BYTES
        else base64.b64decode(text, validate=True)
    )
    if len(key) != KEY_BYTES:
        raise ValueError("wrong length")
    return key


def write_new(path: Path, data: bytes, *, what: str, do: str) -> None:
    """Make the file whole or not at all: half a key would stop every start after a crash.

    Where it is there already it stays as it is. Raises SidecarError with ``what`` and ``do``.
    """
    making = path.with_name(f".{path.name}.{clock.random_bytes(8).hex()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(making, path)
        finally:
            making.unlink(missing_ok=True)
        _flush(path.parent)
    except FileExistsError:
        return  # another process of ours made it first
    except OSError as error:
        raise SidecarError(
            f"{what} cannot be written: {error.strerror}",
            where=str(path),
            do=do,
        ) from None


def _flush(folder: Path) -> None:
    """A name is on the disk once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
