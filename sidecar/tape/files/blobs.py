"""Files that are made new, and payloads by digest.

**Rules**
1. A blob's place is made of its digest alone, hex digits of a fixed length: no name in a tape ever
   becomes a path.
2. Files are made for their owner only; none is overwritten. A blob stands whole or not at all.
3. A blob is gzip above 4 KiB, the same bytes at any time.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

from sidecar import clock
from sidecar.errors import SidecarError
from sidecar.tape.model import Blob
from sidecar.tape.record import BLOB_BYTES_MAX, GZIP_FROM, check_blob, compressed, inflated
from sidecar.tape.value import is_digest

Packaging = Literal["packed", "store"]
BLOBS: Final = "blobs"
_BINARY: Final = getattr(os, "O_BINARY", 0)
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _BINARY
_SLACK: Final = 4096


def store_beside(tape: Path) -> "BlobStore":
    """The store of the tapes in a folder, also when the working directory is another by then."""
    return BlobStore(tape.absolute().parent / BLOBS)


def new_file(path: Path) -> int:
    """A new file's descriptor. Raises SidecarError where there is one, or none can be."""
    try:
        return os.open(path, NEW, 0o600)
    except FileExistsError:
        raise SidecarError(
            "there is a file already", where=str(path), do="Name one that is not there."
        ) from None
    except OSError as error:
        raise SidecarError(
            f"the tape cannot be made: {error.strerror}", where=str(path), do="Check the folder."
        ) from None


class BlobStore:
    """Payloads by digest in ``<folder>/<alg>/aa/bb/<hex>[.gz]``, for any number of tapes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, digest: str, data: bytes, *, durable: bool = False) -> None:
        """Keep a payload; one that is there stays. Raises OSError."""
        place = self._place(digest)
        if len(data) > GZIP_FROM:
            place, data = place.with_name(place.name + ".gz"), compressed(data)
        if place.exists():
            return
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        waiting = place.with_name(f".{place.name}.{clock.new_id()}")
        try:
            with os.fdopen(os.open(waiting, NEW, 0o600), "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            waiting.replace(place)
        finally:
            waiting.unlink(missing_ok=True)

    def get(self, blob: Blob) -> bytes | None:
        """A payload's bytes; None where it is not there. Raises ValueError where it is another."""
        if not is_digest(blob.id) or not 0 <= blob.size <= BLOB_BYTES_MAX:
            raise ValueError("no blob of a tape")
        place = self._place(blob.id)
        packed = _bytes(place.with_name(place.name + ".gz"), blob.size + _SLACK)
        data = _bytes(place, blob.size) if packed is None else inflated(packed, blob.size)
        if data is not None:
            check_blob(blob, data)
        return data

    def _place(self, digest: str) -> Path:
        assert is_digest(digest)
        algorithm, _, name = digest.partition(":")
        return self._folder / algorithm / name[:2] / name[2:4] / name


class NewFile:
    """A new file that is there whole, or not at all. Raises SidecarError where it cannot be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.fdopen(new_file(path), "wb")

    def __enter__(self) -> Callable[[bytes], object]:
        return self._file.write

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failed = error
        try:
            self._file.close()
        except OSError as last:
            failed = failed or last
        if failed is None:
            return
        self._path.unlink(missing_ok=True)
        if isinstance(failed, OSError):
            raise SidecarError(
                f"the tape cannot be written: {failed.strerror}", where=str(self._path)
            ) from None


def _bytes(place: Path, most: int) -> bytes | None:
    try:
        # Without waiting: a pipe or a device in its place would keep us for ever.
        descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("a blob that is no file")
            data = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"a blob that cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise ValueError("a blob of another size than it says")
    return data
