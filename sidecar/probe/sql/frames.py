"""What a Postgres says, checked message by message before a decoder sees a byte of it.

**Rules**
1. A message is handed on whole or not at all: kind, length and inner lengths are read first. What
   is of no kind that a probe can be answered with, or contradicts its own length, is refused.
2. Nothing is waited for that could not be taken: a length word beyond the bound is refused as it
   comes, not when so much has arrived.
3. Rows, columns and bytes of the answer are bounded, and so are all bytes of a connection.

Source: PostgreSQL, Message Formats (protocol 3.0).
"""

import struct
from typing import Final

ROWS_MAX: Final = 1000
COLUMNS_MAX: Final = 256
ANSWER_BYTES_MAX: Final = 1024**2
CONNECTION_BYTES_MAX: Final = 4 * 1024**2
_HEAD: Final = struct.Struct("!ci")
_COUNT, _LENGTH = struct.Struct("!h"), struct.Struct("!i")
_COLUMN_BYTES: Final = 18  # of a description, behind the name
_SASL_MECHANISMS: Final = 10


class FrameRefused(Exception):
    """``code``: answer_malformed, answer_too_large, too_many_rows or too_many_columns."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class Frames:
    """The messages of one connection."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._left = CONNECTION_BYTES_MAX
        self._answering = False
        self._rows, self._row_bytes = 0, 0

    def answer(self) -> None:
        """From here on rows are the answer's; those before told of types and of the role."""
        self._answering = True

    def feed(self, data: bytes) -> bytes:
        """All whole messages that ``data`` completes. Raises FrameRefused."""
        self._left -= len(data)
        if self._left < 0:
            raise FrameRefused("answer_too_large")
        held = self._held
        held += data
        start = 0
        while (size := self._size(start)) is not None and start + size <= len(held):
            body = memoryview(held)[start + _HEAD.size : start + size]
            try:
                self._check(held[start], body)
            finally:
                body.release()
            start += size
        whole = bytes(held[:start])
        del held[:start]
        return whole

    def _size(self, start: int) -> int | None:
        """Bytes of the message at ``start``; None until its head is there."""
        if start < len(self._held) and self._held[start] not in _KINDS:
            raise FrameRefused("answer_malformed")
        if len(self._held) - start < _HEAD.size:
            return None
        _, length = _HEAD.unpack_from(self._held, start)
        if length < _LENGTH.size:
            raise FrameRefused("answer_malformed")
        if length > ANSWER_BYTES_MAX:
            raise FrameRefused("answer_too_large")
        return int(length) + 1

    def _check(self, kind: int, body: memoryview) -> None:
        if not _KINDS[kind](body):
            raise FrameRefused("answer_malformed")
        if kind in b"TD" and _count(body) > COLUMNS_MAX:
            raise FrameRefused("too_many_columns")
        if kind == ord("D") and self._answering:
            self._rows += 1
            self._row_bytes += len(body)
            if self._rows > ROWS_MAX:
                raise FrameRefused("too_many_rows")
            if self._row_bytes > ANSWER_BYTES_MAX:
                raise FrameRefused("answer_too_large")


def _count(body: memoryview) -> int:
    return int(_COUNT.unpack_from(body)[0])


def _is_authentication(body: memoryview) -> bool:
    if len(body) < _LENGTH.size:
        return False
    if _LENGTH.unpack_from(body)[0] == _SASL_MECHANISMS:
        return bytes(body[-2:]) == b"\0\0"
    return True


def _is_key(body: memoryview) -> bool:
    return len(body) >= 2 * _LENGTH.size


def _is_status(body: memoryview) -> bool:
    return len(body) == 1 and bytes(body) in (b"I", b"T", b"E")


def _is_setting(body: memoryview) -> bool:
    text = bytes(body)
    return text.count(b"\0") == 2 and text.endswith(b"\0")


def _is_text(body: memoryview) -> bool:
    text = bytes(body)
    return text.count(b"\0") == 1 and text.endswith(b"\0")


def _is_notice(body: memoryview) -> bool:
    # Each field is a letter and a text that ends, and a zero ends the last.
    return bytes(body) == b"\0" or bytes(body[-2:]) == b"\0\0"


def _is_types(body: memoryview) -> bool:
    return len(body) >= _COUNT.size and len(body) == _COUNT.size + 4 * _count(body)


def _is_description(body: memoryview) -> bool:
    if len(body) < _COUNT.size or _count(body) < 0:
        return False
    text, at = bytes(body), _COUNT.size
    for _ in range(_count(body)):
        ends = text.find(b"\0", at)
        if ends < 0:
            return False
        at = ends + 1 + _COLUMN_BYTES
    return at == len(text)


def _is_row(body: memoryview) -> bool:
    if len(body) < _COUNT.size or _count(body) < 0:
        return False
    at = _COUNT.size
    for _ in range(_count(body)):
        if at + _LENGTH.size > len(body):
            return False
        (length,) = _LENGTH.unpack_from(body, at)
        if length < -1:
            return False
        at += _LENGTH.size + max(length, 0)
    return at == len(body)


def _is_empty(body: memoryview) -> bool:
    return not body


_KINDS: Final = {
    **dict.fromkeys(b"123nsI", _is_empty),  # parsed, bound, closed, no data, suspended, no query
    ord("R"): _is_authentication,
    ord("K"): _is_key,
    ord("Z"): _is_status,
    ord("S"): _is_setting,
    ord("C"): _is_text,
    **dict.fromkeys(b"EN", _is_notice),
    ord("t"): _is_types,
    ord("T"): _is_description,
    ord("D"): _is_row,
}
