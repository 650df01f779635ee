"""HTTP/1.1 bodies on the wire: where one ends, and how pieces are sent again (RFC 9112, 6 and 7).

**Rules**
1. What was read of a connection is turned into the body, piece by piece, whoever reads how much.
2. A body ends by its length, by its last chunk, or with its connection; ``complete`` says whether
   it did.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

Framing = Literal["chunked", "length", "close", "none"]
_SIZE_MAX: Final = 4096
_BODILESS: Final = frozenset((204, 304))


def framing_of(status: int, method: str, headers: Mapping[str, Any]) -> Framing:
    """How the body under a head is framed."""
    if status in _BODILESS or 100 <= status < 200 or method == "HEAD":
        return "none"
    if "chunked" in str(headers.get("transfer-encoding", "")).lower():
        return "chunked"
    return "length" if str(headers.get("content-length", "")).strip().isdecimal() else "close"


class Body:
    """The body in the bytes that are read after a head."""

    def __init__(self, framing: Framing, length: int = 0) -> None:
        self.complete = framing == "none" or (framing == "length" and not length)
        self._framing, self._left = framing, length
        self._line = bytearray()
        self._part: Literal["size", "data", "gap", "trailer"] = "size"

    def feed(self, data: bytes) -> bytes:
        """What bytes read add to the body; b"" read is the connection's end."""
        if self.complete:
            return b""
        if self._framing == "chunked":
            return b"".join(self._chunked(data))
        if self._framing == "close":
            self.complete = not data
            return data
        found = data[: self._left]
        self._left -= len(found)
        self.complete = not self._left
        return found

    def _chunked(self, data: bytes) -> Iterator[bytes]:
        place = 0
        while place < len(data) and not self.complete:
            if self._part == "data":
                piece = data[place : place + self._left]
                place += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._part = "gap"
                yield piece
                continue
            end = data.find(b"\n", place)
            stop = len(data) if end < 0 else end + 1
            self._line += data[place:stop]
            place = stop
            if len(self._line) > _SIZE_MAX:
                self._framing, self._part = "close", "data"  # no chunks: its reader will say so
                return
            if end >= 0:
                line, self._line = bytes(self._line).strip(), bytearray()
                self._line_read(line)

    def _line_read(self, line: bytes) -> None:
        if self._part == "gap":
            self._part = "size"
        elif self._part == "trailer":
            self.complete = not line
        else:
            try:
                self._left = int(line.partition(b";")[0].strip() or b"0", 16)
            except ValueError:
                self._left = 0
            self._part = "data" if self._left else "trailer"


def head_bytes(status: int, reason: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """A response's head."""
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in headers if "\n" not in f"{name}{value}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("iso-8859-1", errors="replace")


def sent(pieces: Iterable[bytes], framing: Framing, *, whole: bool) -> Iterator[bytes]:
    """Pieces as they go over the wire; ``whole``: the end is sent, too."""
    if framing == "none":
        return
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece) if framing == "chunked" else piece
    if framing == "chunked" and whole:
        yield b"0\r\n\r\n"
