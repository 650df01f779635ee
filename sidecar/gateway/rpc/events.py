"""Server-sent events, taken apart as they come.

**Rules**
1. An event ends with an empty line; lines end with LF, CR or both, as the standard says.
2. Only ``data`` is read; events without it (comments, keep-alives) are none.
3. What came is looked at once, however small the pieces it comes in.

Source: WHATWG HTML, "Server-sent events".
"""

import re

_LINE = re.compile(rb"\r\n|\n|\r(?!\Z)")


class Events:
    """A reader of one stream; ``feed`` it what comes."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The line that is not whole, in pieces: none with an end of a line but a last CR."""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that are whole now."""
        held = bool(self._rest) and self._rest[-1].endswith(b"\r")
        if not held and b"\n" not in chunk and b"\r" not in chunk:
            if chunk:
                self._rest.append(chunk)
            return []
        *lines, rest = _LINE.split(b"".join([*self._rest, chunk]))
        self._rest = [rest] if rest else []
        return [found for line in lines if (found := self._line(line)) is not None]

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data = self._data, []
            return b"\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        return None


def event(message: bytes) -> bytes:
    """A message as an event. JSON of ours has no line break in it."""
    return b"event: message\ndata: " + message.replace(b"\r", b"").replace(b"\n", b" ") + b"\n\n"
