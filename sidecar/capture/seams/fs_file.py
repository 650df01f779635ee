"""A file that an own file of the agent has open: the real one, told as it is read and written, or
one that is played.

**Rules**
1. It is the raw file below Python's own buffers and text layer: everything above is as ever.
2. What is read from one place on, until the end of the file, or until it is read from elsewhere or
   closed, is one ``read``, with what was really read and no more. What is written is one ``write``,
   told when it is closed.
3. Played, reads come from the tape and writes go nowhere; what is written is compared with the
   tape's. Who reads on past what was recorded meets a drift.
4. Of more than ``WRITTEN_BYTES_MAX`` written, size and SHA-256 are told.
"""

import errno
import hashlib
import io
import os
import tempfile
import weakref
from typing import Any, Final

from sidecar.capture.seams.ambient import failed, played
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.fs_pieces import Pieces, content_back, joined
from sidecar.capture.seams.lanes import MUTE
from sidecar.capture.seams.session import Session, active
from sidecar.capture.seams.sites import Site

WRITTEN_BYTES_MAX: Final = 8 << 20
_open: Final[weakref.WeakSet["TapedFile"]] = weakref.WeakSet()


class TapedFile(io.RawIOBase):
    """``real`` is None where it is played. ``at``, ``size``: where it stands and ends."""

    def __init__(
        self,
        session: Session,
        site: Site | None,
        file: Any,
        place: Any,
        mode: str,
        real: io.FileIO | None,
        known: dict[str, Any],
    ) -> None:
        self.name, self.mode = file, mode
        self._session, self._site, self._place, self._real = session, site, place, real
        self._seekable = bool(known["seekable"])
        self._at, self._size = int(known["at"]), int(known["size"])
        self._reading: _Reading | None = None
        self._written = _Written()
        self._scratch: Any = None
        _open.add(self)

    # ---- what it can

    def readable(self) -> bool:
        """As its mode says."""
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        """As its mode says."""
        return self.mode[0] in "wax" or "+" in self.mode

    def seekable(self) -> bool:
        """As the real one is."""
        return self._seekable

    def isatty(self) -> bool:
        """As the real one is; a played one is none."""
        return self._real is not None and self._real.isatty()

    def fileno(self) -> int:
        """The real one's; of a played one that of an empty file nobody sees."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self._real is not None:
            return self._real.fileno()
        if self._scratch is None:
            self._scratch = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this one
        return int(self._scratch.fileno())

    # ---- reading

    def readinto(self, buffer: Any) -> int | None:
        """Read into a buffer."""
        view = memoryview(buffer).cast("B")
        data = self._read(len(view))
        if data is None:
            return None
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes | None:  # type: ignore[override]
        """Read to the end."""
        return self._read(-1)

    def _read(self, size: int) -> bytes | None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not self.readable():
            raise io.UnsupportedOperation("File not open for reading")
        if size == 0:
            return b""
        if MUTE.get() or active() is not self._session:
            return b"" if self._real is None else self._from_real(size)
        if self._reading is not None and self._reading.next != self._at:
            self._settle_reading()
        if self._reading is None:
            given = {"path": self._place, "at": self._at}
            self._reading = _Reading(self._enter("read", given), self._at)
        reading = self._reading
        if not reading.x.played:
            return self._recorded(reading, size)
        data = reading.played(size)
        self._at += len(data)
        if reading.over:
            self._reading = None
        return data

    def _recorded(self, reading: "_Reading", size: int) -> bytes | None:
        try:
            data = self._from_real(size)
        except OSError as error:
            reading.failed(error)
            self._reading = None
            raise
        if data is not None:
            reading.add(data)
            if size < 0 or not data:
                reading.end(at_end=True)
                self._reading = None
        return data

    def _from_real(self, size: int) -> bytes | None:
        if self._real is None:  # it was opened from the tape, and now the run is live
            self._real = io.FileIO(self.name, "rb")
            self._real.seek(self._at)
        data = self._real.readall() if size < 0 else self._real.read(size)
        if data is not None:
            self._at += len(data)
        return data

    # ---- writing

    def write(self, data: Any) -> int | None:
        """Write."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not self.writable():
            raise io.UnsupportedOperation("File not open for writing")
        view = bytes(memoryview(data).cast("B"))
        count = len(view) if self._real is None else self._real.write(view)
        if not count:
            return count
        appends = self.mode[0] == "a"
        if not MUTE.get():
            self._written.add(None if appends else self._at, view[:count])
        self._at = (self._size if appends and self._real is None else self._at) + count
        if self._real is not None and appends and self._seekable:
            self._at = self._real.tell()
        self._size = max(self._size, self._at)
        return count

    def truncate(self, size: int | None = None) -> int:
        """Cut or stretch."""
        if not self.writable():
            raise io.UnsupportedOperation("File not open for writing")
        size = self._at if size is None else size
        if self._real is not None:
            self._real.truncate(size)
        self._size = size
        if not MUTE.get():
            self._written.cut(size)
        return size

    # ---- place

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        if self._real is not None:
            self._at = self._real.seek(offset, whence)
            return self._at
        if not self._seekable:
            raise io.UnsupportedOperation("File or stream is not seekable.")
        start = (0, self._at, self._size)[whence]
        if start + offset < 0:
            raise OSError(22, "Invalid argument")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Where it stands."""
        return self._at if self._real is None or not self._seekable else self._real.tell()

    def close(self) -> None:
        """Close it, and tell what is not told yet."""
        if self.closed:
            return
        try:
            if self._real is not None:
                self._real.close()
            if self._scratch is not None:
                self._scratch.close()
        finally:
            super().close()
            self.settle()

    def settle(self) -> None:
        """What was read is told; and what was written, where it is closed."""
        self._settle_reading()
        if self.closed and self._written and active() is self._session and not MUTE.get():
            written, self._written = self._written.told(), _Written()
            x = self._enter("write", {"path": self._place, **written})
            if not x.played and self._real is None:
                self._write_late(x, written)
            x.done()

    def _write_late(self, x: Crossing, written: dict[str, Any]) -> None:
        """It was opened from the tape, and the run has gone live since."""
        try:
            with x.inside(), io.FileIO(self.name, self.mode.replace("x", "w")) as file:
                if "written" not in written:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), self.name)
                for piece in written["written"]:
                    if "cut" in piece:
                        file.truncate(piece["cut"])
                        continue
                    if self.mode[0] != "a":
                        file.seek(piece["at"])
                    file.write(content_back(piece))
        except OSError as error:
            failed(x, error)
            raise

    def _settle_reading(self) -> None:
        if self._reading is not None:
            self._reading.end(at_end=False)
            self._reading = None

    def _enter(self, name: str, given: Any) -> Crossing:
        return self._session.enter(
            kind="tool_call", seam="fs", name=name, given=given, site=self._site, label=name
        )


def settle_all() -> None:
    """The session ends: what is open is read no further."""
    for file in list(_open):
        file.settle()


class _Reading:
    """What is read of a file from one place on; ``next`` is where it would go on."""

    def __init__(self, x: Crossing, at: int) -> None:
        self.x, self.next, self.over = x, at, False
        self._first: Any = None
        self._several = False
        self._pieces = Pieces(self._piece)
        self._kept, self._given = b"", 0
        if x.played and x.error is None:
            whole = [x.out["read"]] if x.out.get("read") else []
            self._kept = joined(whole if x.chunks is None else x.chunks)

    def add(self, data: bytes) -> None:
        self._pieces.add(self.next, data)
        self.next += len(data)

    def end(self, *, at_end: bool) -> None:
        if self.x.played:
            self.x.done()
            return
        self._pieces.end()
        whole = {} if self._several else {"read": self._first}
        self.x.done({"to_end": at_end, **whole})

    def failed(self, error: OSError) -> None:
        failed(self.x, error)

    def played(self, size: int) -> bytes:
        if self.x.error is not None:
            self.over = True
            played(self.x, lambda _: None)
        to_end = bool(self.x.out["to_end"])
        given = self._given
        if not to_end and (size < 0 or given == len(self._kept)):
            self.x.beyond()
        data = self._kept[given:] if size < 0 else self._kept[given : given + size]
        self._given += len(data)
        self.next += len(data)
        if size < 0 or not data:
            self.over = True
            self.x.done()
        return data

    def _piece(self, piece: Any) -> None:
        if self._first is None and not self._several:
            self._first = piece
            return
        if not self._several:
            self._several = True
            self.x.chunk(self._first)
        self.x.chunk(piece)


class _Written:
    """What is written to a file until it is closed."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._collected = Pieces(self._pieces.append)
        self._size = 0
        self._appended = 0
        self._digest = hashlib.sha256()
        self._cut = False

    def __bool__(self) -> bool:
        return bool(self._size or self._cut)

    def add(self, at: int | None, data: bytes) -> None:
        self._size += len(data)
        self._digest.update(data)
        if self._size > WRITTEN_BYTES_MAX:
            self._pieces.clear()
            return
        self._collected.add(self._appended if at is None else at, data)
        self._appended += len(data)

    def cut(self, size: int) -> None:
        self._cut = True
        self._collected.end()
        self._pieces.append({"cut": size})

    def told(self) -> dict[str, Any]:
        if self._size > WRITTEN_BYTES_MAX:
            return {"size": self._size, "sha256": self._digest.hexdigest()}
        self._collected.end()
        return {"written": self._pieces}
