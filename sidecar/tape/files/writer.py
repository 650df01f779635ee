"""A tape written while things happen, so that a crash leaves a partial tape.

**Rules**
1. An event is one append of its line and of the blobs it needs before it; what was appended stays,
   whatever becomes of the process. The first append that fails is the last: later events are
   counted as dropped, and the agent goes on.
2. One lock for all threads and tasks; nothing waits while it is held. What comes in again from
   within (a signal handler) is counted as dropped, and so is what a forked child says.
3. Before the seal, what redaction took away by place or key is looked for in all that was written.
"""

import json
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sidecar.errors import SidecarError
from sidecar.tape.codec import Codecs
from sidecar.tape.compose import Composer, Fact
from sidecar.tape.files.blobs import Packaging, new_file, store_beside
from sidecar.tape.files.reading import records
from sidecar.tape.model import Blob, Header, LeakScan, Seal
from sidecar.tape.record import as_line, blob_data, blob_of
from sidecar.tape.redaction import Redacts


class TapeWriter:
    """A tape being written to a new file, by threads and tasks; a full disk raises nothing.

    ``fault`` says why nothing is written any more. ``durable``: each event reaches the disk before
    ``event`` returns, so that it survives the machine too.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        *,
        packaging: Packaging = "packed",
        redactor: Redacts | None = None,
        codecs: Codecs | None = None,
        content: bool = True,
        durable: bool = False,
    ) -> None:
        self.path, self._packed, self._durable = path, packaging == "packed", durable
        self._store, self._place = store_beside(path), path.absolute()
        self._waiting = bytearray()
        self.fault: str | None = None
        self._lock = threading.RLock()
        self._inside = False
        self._process = os.getpid()
        self._dropped = 0
        self._composer = Composer(
            header, self._put_blob, redactor=redactor, codecs=codecs, content=content
        )
        self._file = new_file(path)
        self._waiting += as_line(self._composer.begin())
        with self._lock:
            self._composer.put_codecs()
            self._append()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def event(self, fact: Fact) -> int | None:
        """Write one event; its seq, or None where it was counted instead.

        Raises ValueError for a fact that no tape may hold (a seam its kind does not have, a cause
        that is not there): the recorder's mistake.
        """
        with self._lock:
            if not self._may():
                return None
            self._inside = True
            try:
                event = self._composer.event(fact)
                if event is None:
                    return None
                self._waiting += self._composer.line
                self._append()
                return event.seq if self.fault is None else None
            finally:
                self._inside = False

    def put(self, value: Any) -> str | None:
        """Write a payload now, a chunk of a stream, for ``Fact.chunks``; its digest."""
        with self._lock:
            if not self._may():
                return None
            self._inside = True
            try:
                digest = self._composer.put(value)
                self._append()
                return digest if self.fault is None else None
            finally:
                self._inside = False

    def drop(self) -> None:
        """Count one event that the recorder could not hand in."""
        with self._lock:
            self._dropped += 1

    def seal(self) -> Seal:
        """Look for leaks, write the seal and close. Raises SidecarError where it cannot be."""
        with self._lock:
            if self.fault is not None or not self._may():
                raise SidecarError(
                    f"the tape stays partial: {self.fault or 'it is closed, or another process’s'}",
                    where=str(self.path),
                )
            self._composer.drop(self._dropped)
            try:
                os.fsync(self._file)
                seal = self._composer.seal(self._leaks())
                self._waiting += as_line(seal)
                self._append()
                if self.fault is None:
                    os.fsync(self._file)
            except OSError as error:
                self.fault = error.strerror or "it cannot be written"
            if self.fault is not None:
                raise SidecarError(f"the tape stays partial: {self.fault}", where=str(self.path))
            self.close()
            return seal

    def close(self) -> None:
        """Close the file; a tape that was not sealed stays partial. Twice is once."""
        with self._lock:
            if self._file >= 0 and os.getpid() == self._process:
                os.close(self._file)
                self._file = -1

    def _may(self) -> bool:
        if self._inside or self._file < 0 or os.getpid() != self._process or self.fault:
            self._dropped += 1
            return False
        return True

    def _put_blob(self, digest: str, data: bytes) -> None:
        if not self._packed:
            try:
                self._store.put(digest, data, durable=self._durable)
            except OSError as error:
                self.fault = error.strerror or "a blob cannot be written"
                return
        self._waiting += as_line(blob_of(digest, data, packed=self._packed))

    def _append(self) -> None:
        text, self._waiting = self._waiting, bytearray()
        if self.fault is not None:
            self._dropped += 1
            return
        try:
            written = os.write(self._file, text)
            while written < len(text):
                written += os.write(self._file, memoryview(text)[written:])
            if self._durable:
                os.fsync(self._file)
        except OSError as error:
            self.fault = error.strerror or "it cannot be written"
            self._dropped += 1

    def _leaks(self) -> LeakScan:
        sought = sorted(self._composer.seen)
        if not sought:
            return LeakScan(sought=0, found=0)
        found: set[str] = set()
        for record, line in records(self._place, self._store.get):
            data = line
            if isinstance(record, Blob):
                data = blob_data(record) or self._store.get(record) or b""
            for text in sought:
                if any(spelt in data for spelt in _spellings(text)):
                    found.add(text)
        return LeakScan(sought=len(sought), found=len(found))


def _spellings(text: str) -> set[bytes]:
    return {
        text.encode(errors="replace"),
        json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="replace"),
        json.dumps(text)[1:-1].encode(),
    }
