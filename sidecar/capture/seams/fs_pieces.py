"""What was read from a file or written to it, as pieces of a payload.

**Rules**
1. A piece is ``{at, size, text}``, or ``bytes`` where they are no UTF-8; ``size`` counts what was
   there before redaction. Pieces that touch are one, until it has ``PIECE_BYTES``: then it ends at
   the end of a line, so that what redaction looks for is seldom cut.
2. Text is told as text, so that the redactor reads it.
3. Played, pieces that touched touch again, whatever redaction left of their lengths.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

PIECE_BYTES: Final = 1 << 20


class Pieces:
    """Collects bytes by place; ``full`` is given each piece that has enough."""

    def __init__(self, full: Callable[[Any], None]) -> None:
        self._full = full
        self._at = 0
        self._data = bytearray()

    def add(self, at: int, data: bytes) -> None:
        """Some bytes at a place."""
        if self._data and at != self._at + len(self._data):
            self.end()
        if not self._data:
            self._at = at
        self._data += data
        while len(self._data) >= PIECE_BYTES:
            line = self._data.rfind(b"\n", 0, PIECE_BYTES) + 1
            self._tell(line or PIECE_BYTES)

    def end(self) -> None:
        """Nothing more touches what was added last."""
        if self._data:
            self._tell(len(self._data))

    def _tell(self, size: int) -> None:
        data = bytes(self._data[:size])
        self._full({"at": self._at, "size": size, **content(data)})
        del self._data[:size]
        self._at += size


def content(data: bytes) -> dict[str, Any]:
    """Bytes as text, where they are one."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": data}


def content_back(piece: dict[str, Any]) -> bytes:
    """The bytes of a piece."""
    text = piece.get("text")
    return bytes(piece["bytes"]) if text is None else str(text).encode()


def joined(pieces: Iterable[dict[str, Any]]) -> bytes:
    """The bytes of pieces that touch."""
    return b"".join(map(content_back, pieces))
