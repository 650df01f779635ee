"""The composition root: the only file that knows everybody.

Rules
1. Stores are opened here and nowhere else; everybody else is handed ports.
2. Nothing is decided here: this file builds, connects, starts and stops.
3. Secrets are read here from files and handed on; they are never printed or logged.
"""

import base64
import binascii
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from processors.model.principal import KeyKind, StoredKey
from sidecar import clock
from sidecar.config import Loaded, load
from sidecar.errors import SidecarError
from sidecar.identity.keys import mint
from sidecar.store.envelope import KEY_BYTES, Keyring, SealBroken, Sealer
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.traces import SqliteTraces


def load_config(file: str | None, store: str | None, **overrides: object) -> Loaded:
    """The configuration with ``--config`` and ``--store`` applied. Raises SidecarError."""
    flags = {name.replace("__", "."): value for name, value in overrides.items()}
    return load(file, overrides={"store.url": store, **flags})


@contextmanager
def open_keys(loaded: Loaded) -> Iterator[SqliteKeys]:
    """The key store of the ledger, made when absent."""
    keys = SqliteKeys(Path(loaded.store_folder) / "ledger.db")
    try:
        yield keys
    finally:
        keys.close()


@contextmanager
def open_traces(loaded: Loaded) -> Iterator[SqliteTraces]:
    """The published traces, read only. Raises StoreUnavailable where there is no store."""
    traces = SqliteTraces(Path(loaded.store_folder) / "traces.db")
    try:
        yield traces
    finally:
        traces.close()


def create_key(
    keys: SqliteKeys, *, kind: KeyKind, project: str, name: str
) -> tuple[str, StoredKey]:
    """A new key's text, shown once, and its stored row."""
    text, row = mint(
        kind,
        project,
        name,
        id_bytes=clock.random_bytes(8),
        secret_bytes=clock.random_bytes(32),
        now_ns=clock.now_ns(),
    )
    keys.add_key(row)
    return text, row


def revoke_key(keys: SqliteKeys, key_id: str) -> bool:
    """Revoke now; False when there is no such key."""
    return keys.revoke_key(key_id, clock.now_ns())


def master_key(loaded: Loaded, *, make: bool = False) -> bytes:
    """The key that wraps the projects' data keys, from ``seal.key_file``; ``make`` creates a missing one.

    Without ``seal.key_file`` it lies beside the data folder, never in it. Raises SidecarError.
    """
    path = seal_key_path(loaded)
    if not path.exists():
        if not make:
            raise SidecarError(
                "there is no seal key",
                where=str(path),
                do="Make one with: openssl rand -hex 32 > FILE, and name it in seal.key_file.",
            )
        _write_new(path, clock.random_bytes(KEY_BYTES).hex().encode() + b"\n")
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


def seal_key_path(loaded: Loaded) -> Path:
    """Where the master key lies. Raises SidecarError when that is inside the data folder."""
    folder = Path(loaded.store_folder)
    if not loaded.config.seal.key_file:
        return folder.parent / f"{folder.name}.seal-key"
    path = loaded.path(loaded.config.seal.key_file)
    if path.resolve().is_relative_to(folder.resolve()):
        raise SidecarError(
            "the seal key lies inside the data folder it protects",
            where=str(path),
            do="Move it elsewhere and correct seal.key_file.",
        )
    return path


def keyring(keys: SqliteKeys, master: bytes) -> Keyring:
    """The Sealer of each project, under the master key."""
    return Keyring(Sealer(master, clock.random_bytes), keys.wrapped_data_key, clock.random_bytes)


def check_keyring(ring: Keyring, projects: list[str], loaded: Loaded) -> None:
    """Open every project's data key now, so that a wrong master key stops the start, not a call."""
    for project in projects:
        try:
            ring(project)
        except SealBroken:
            raise SidecarError(
                f"the seal key is not the one that sealed project {project}",
                where=str(seal_key_path(loaded)),
                do="Put back the key the store was made with, or start with an empty store.",
            ) from None


def _key_bytes(text: bytes) -> bytes:
    key = (
        binascii.unhexlify(text)
        if len(text) == 2 * KEY_BYTES
        else base64.b64decode(text, validate=True)
    )
    if len(key) != KEY_BYTES:
        raise ValueError("wrong length")
    return key


def _write_new(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # another process of ours made it first
    except OSError as error:
        raise SidecarError(
            f"the seal key cannot be written: {error.strerror}",
            where=str(path),
            do="Make the folder writable, or name a file in seal.key_file.",
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
