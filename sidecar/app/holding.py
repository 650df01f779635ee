"""One sidecar a data folder.

Rules
1. A folder is held by a lock of its own for as long as the process lives; the kernel lets go at its
   death, so nothing is left to clean up.
2. Commands (keys, traces, backup, prune) hold nothing: they may run beside a sidecar.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sidecar.errors import SidecarError
from sidecar.store.sqlite.connection import translating

_LOCK = "serving.lock"


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Be the one sidecar that serves a data folder. Raises SidecarError where there is another."""
    path = folder / _LOCK
    with translating(path):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            with translating(path):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except SidecarError as error:
            if not isinstance(error.__cause__, BlockingIOError):
                raise
            raise SidecarError(
                "another sidecar serves this data folder",
                where=str(folder),
                do="Stop that one, or name a folder of its own with --store: several sidecars"
                " share a Postgres store, never a folder.",
            ) from None
        yield
    finally:
        os.close(descriptor)
