"""Content encodings, piece by piece: an answer is recorded as its client reads it.

**Rules**
1. gzip and deflate are known here; others (br, zstd) by the decoders that the agent's own libraries
   have, which are handed in. Without one the encoded bytes are what the client reads, too.
2. A damaged body is kept as it came: whoever reads it finds the damage, not we.
3. Played, a body is encoded again, piece by piece, in what it says it is encoded in; where that
   cannot be done (br, zstd) the header goes.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol

Known = Mapping[str, Callable[[], "Decodes"]]
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW: Final = -15


class Decodes(Protocol):
    """One body's decoder."""

    def decode(self, data: bytes) -> bytes:
        """What a piece adds."""
        ...

    def flush(self) -> bytes:
        """What is left at the end."""
        ...


class _Inflate:
    def __init__(self, encoding: str) -> None:
        self._deflate = encoding == "deflate"
        self._object = zlib.decompressobj(_WINDOWS[encoding])
        self._began = False

    def decode(self, data: bytes) -> bytes:
        try:
            found = self._object.decompress(data)
        except zlib.error:
            if not self._deflate or self._began:
                raise
            self._object = zlib.decompressobj(_RAW)  # deflate without zlib's frame, as some send
            found = self._object.decompress(data)
        self._began = True
        while self._object.eof and self._object.unused_data[:2] == b"\x1f\x8b":
            rest = self._object.unused_data  # gzip members may follow one another
            self._object = zlib.decompressobj(31)
            found += self._object.decompress(rest)
        return found

    def flush(self) -> bytes:
        return self._object.flush()


class Decoder:
    """Decodes a body of several encodings, and is not put out by damage."""

    def __init__(self, encodings: str, known: Known | None = None) -> None:
        self._steps: list[Decodes] = []
        self.broken = self.unknown = False
        for name in reversed(names(encodings)):
            try:
                self._steps.append(_Inflate(name) if name in _WINDOWS else (known or {})[name]())
            except Exception:  # a decoder without what it needs is none, for its library too
                self.broken = self.unknown = True

    def feed(self, data: bytes) -> bytes:
        """What a piece adds; the piece itself where it cannot be decoded."""
        if self.broken:
            return data
        try:
            found = data
            for step in self._steps:
                found = step.decode(found)
            return found
        except Exception:  # whichever library's
            self.broken = True
            return data

    def end(self) -> bytes:
        """What is left at the end."""
        if self.broken:
            return b""
        found = b""
        try:
            for step in self._steps:
                found = (step.decode(found) if found else b"") + step.flush()
        except Exception:
            self.broken = True
            return b""
        return found


class Encoder:
    """Encodes pieces again, each of which can be decoded when it arrives."""

    def __init__(self, encoding: str) -> None:
        self._object = zlib.compressobj(wbits=_WINDOWS[encoding])

    def feed(self, data: bytes) -> bytes:
        """A piece, encoded."""
        return self._object.compress(data) + self._object.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        """The body's end."""
        return self._object.flush()


def names(encodings: str) -> list[str]:
    """The encodings a header names, in the order they were applied."""
    found = [one.strip().lower() for one in encodings.split(",")]
    return [one for one in found if one and one != "identity"]


def encoder(encodings: str) -> Encoder | None:
    """An encoder for what a header says; None where there is none, or nothing to do."""
    found = names(encodings)
    return Encoder(found[0]) if len(found) == 1 and found[0] in _WINDOWS else None
