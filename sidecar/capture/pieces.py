"""Streamed bodies cut into pieces, wherever a network cuts them.

**Rules**
1. Server-sent events are cut after each event, lines of JSON after each line; other streams where
   they were when they passed. So two recordings of one answer have the same pieces.
2. A piece comes back byte for byte. An event of one plain ``data`` line is an object of its fields,
   whose data stays the text it is: redaction edits JSON in it by its leaves, and leaves the rest.
3. A piece that its end cut off is a piece.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

Cut = Literal["event", "line", "as it came"]
PIECE_BYTES_MAX: Final = 8 * 1024 * 1024
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END: Final = re.compile(rb"\n")
_LINE_ENDS: Final = re.compile(r"\r\n|\n|\r")
_LINES: Final = frozenset(
    (
        *("application/x-ndjson", "application/ndjson", "application/jsonl"),
        *("application/x-jsonlines", "application/stream+json", "application/json-seq"),
    )
)
_AS_IT_CAME: Final = frozenset(
    ("text/plain", "application/octet-stream", "application/vnd.amazon.eventstream", "")
)
_FIELDS: Final = ("event", "id", "retry", "data")


def cut_of(headers: Mapping[str, Any]) -> Cut | None:
    """How the body under these headers is cut; None where it is one whole."""
    media = str(headers.get("content-type", "")).partition(";")[0].strip().lower()
    if media == "text/event-stream":
        return "event"
    if media in _LINES:
        return "line"
    return "as it came" if media in _AS_IT_CAME and "content-length" not in headers else None


class Cutter:
    """Takes bytes as they come and gives pieces as they are complete."""

    def __init__(self, cut: Cut) -> None:
        self._end = {"event": _EVENT_END, "line": _LINE_END}.get(cut)
        self._cut = cut
        self._rest = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that are complete now."""
        if self._end is None:
            if data:
                yield data
            return
        self._rest += data
        while True:
            found = self._end.search(self._rest, self._searched)
            if found is None:
                self._searched = max(0, len(self._rest) - 3)
                break
            # \r may be half of what ends the next line.
            if found[0] == b"\r\r" and found.end() == len(self._rest):
                self._searched = found.start()
                break
            piece = bytes(self._rest[: found.end()])
            del self._rest[: found.end()]
            self._searched = 0
            yield piece
        if len(self._rest) > PIECE_BYTES_MAX:
            yield from self.end()

    def end(self) -> Iterator[bytes]:
        """What is left."""
        if self._rest:
            piece, self._rest, self._searched = bytes(self._rest), bytearray(), 0
            yield piece


def payload_of(piece: bytes, cut: Cut) -> Any:
    """A piece as a tape's payload."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return piece
    if cut == "event":
        fields = fields_of(text)
        if fields and _event(fields) == text:
            return fields
    return text


def bytes_of(payload: Any) -> bytes:
    """A piece's bytes again."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, dict):
        return _event(payload).encode(errors="replace")
    return str(payload).encode(errors="replace")


def fields_of(text: str) -> dict[str, str]:
    """An event's fields; several ``data`` lines joined, comments and unknown fields left out."""
    found: dict[str, str] = {}
    for line in _LINE_ENDS.split(text):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data" and "data" in found:
            found["data"] += "\n" + value
        elif name in _FIELDS:
            found[name] = value
    return found


def _event(fields: Mapping[str, Any]) -> str:
    lines = [f"{name}: {fields[name]}\n" for name in _FIELDS if name in fields]
    return "".join((*lines, "\n"))
