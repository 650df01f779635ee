"""Tapes read from files: to be examined line by line, or to be held.

**Rules**
1. No line is read that is longer than a line may be; no blob that is larger.
2. What a file holds is refused by its name, and never quoted.
3. A pipe that nobody writes to is empty, and not waited for; one that somebody does is read.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from sidecar.errors import SidecarError
from sidecar.tape.codec import Codec, Codecs, codec_of
from sidecar.tape.examine import Examination, Examiner
from sidecar.tape.faults import TapeIncomparable, TapeUnreadable, placed
from sidecar.tape.files.blobs import store_beside
from sidecar.tape.model import Blob, Event, Record, Seam
from sidecar.tape.record import LINE_BYTES_MAX, blob_data, from_line
from sidecar.tape.tape import Tape

_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)


def examine(path: Path, on_event: Callable[[Event], None] | None = None) -> Examination:
    """Read a tape to its end, line by line. Raises TapeUnreadable, SidecarError."""
    examiner = Examiner(store_beside(path).get)
    for line in _lines(path):
        with _placed(path):
            record = examiner.feed(line)
        if on_event is not None and isinstance(record, Event):
            on_event(record)
        if examiner.stopped:
            break
    with _placed(path):
        return examiner.finish()


def read_tape(path: Path) -> Tape:
    """A tape with all its events in memory; its blobs stay on disk. Raises as ``examine``."""
    store = store_beside(path)
    examiner = Examiner(store.get)
    events: list[Event] = []
    blobs: dict[str, tuple[Blob, int, int]] = {}
    place, file = 0, path.absolute()  # an agent may change the working directory
    for line in _lines(path):
        with _placed(path):
            record = examiner.feed(line)
        if isinstance(record, Event):
            events.append(record)
        elif isinstance(record, Blob):
            light = Blob(id=record.id, size=record.size)
            blobs[record.id] = (light, place, len(line) if record.data is not None else 0)
        place += len(line)
        if examiner.stopped:
            break
    with _placed(path):
        found = examiner.finish()

    def get(digest: str) -> bytes | None:
        if digest not in blobs:
            return None
        blob, start, length = blobs[digest]
        try:
            return _blob_at(file, start, length) if length else store.get(blob)
        except ValueError:
            return None  # not what its digest says: the examination has told it

    return Tape(
        header=found.header,
        events=tuple(events),
        seal=found.seal,
        examination=found,
        blobs=frozenset(blobs),
        get=get,
    )


def tape_codecs(tape: Tape) -> Codecs:
    """The codecs a tape was made with. Raises TapeIncomparable where one is not known."""
    found: dict[Seam, Codec] = {}
    for seam, fingerprint in tape.header.codecs.items():
        codec = codec_of(seam, fingerprint, tape.get(fingerprint))
        if codec is None:
            raise TapeIncomparable(f"the codec of {seam} is not known", do="Record it again.")
        found[codec.seam] = codec
    return Codecs(found)


def known_codecs(tape: Tape) -> Codecs | None:
    """A tape's codecs; None where one is not known here: then digests count as they stand."""
    try:
        return tape_codecs(tape)
    except TapeIncomparable:
        return None


def records(path: Path, get: Callable[[Blob], bytes | None]) -> Iterator[tuple[Record, bytes]]:
    """The records of a tape that can be read, and their lines."""
    examiner = Examiner(get)
    for line in _lines(path):
        with _placed(path):
            record = examiner.feed(line)
        if record is not None:
            yield record, line
        if examiner.stopped:
            return


def opened(path: Path) -> BinaryIO:
    """A file that others made, to be read. Raises OSError."""
    return open(path, "rb", opener=_without_waiting)


def _without_waiting(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | _NONBLOCK)
    if _NONBLOCK:
        os.set_blocking(descriptor, True)
    return descriptor


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with opened(path) as file:
            while line := file.readline(LINE_BYTES_MAX + 1):
                yield line
    except OSError as error:
        raise SidecarError(
            f"the tape cannot be read: {error.strerror}", where=str(path), do="Check the path."
        ) from None


def _blob_at(path: Path, start: int, length: int) -> bytes | None:
    with opened(path) as file:
        file.seek(start)
        line = file.read(length)
    record = from_line(line)
    return blob_data(record) if isinstance(record, Blob) else None


@contextmanager
def _placed(path: Path) -> Iterator[None]:
    """A refusal names the file."""
    try:
        yield
    except TapeUnreadable as error:
        if error.where:
            raise
        raise placed(error, str(path)) from None
