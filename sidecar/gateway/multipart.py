"""``multipart/form-data`` taken apart as it comes, so that no two readers could take it apart
differently; everything else is refused.

**Rules**
1. Nothing stands before the first boundary or after the last, and none within a part: some readers
   take one after a bare LF, or after nothing. Lines end with CRLF; a part has
   ``Content-Disposition`` with a quoted name (and file name) and at most a ``Content-Type``, each
   once, unfolded, and no transfer encoding.
2. Each part is known by name, file name, media type, size and SHA-256, in order: that is what the
   body means, whatever boundary its client chose. The value of a short text that is no file is
   known too.
3. A refusal says what and in which part.

Source: RFC 7578, RFC 2046 §5.1.
"""

import hashlib
import re
from typing import Any

from msgspec import Struct

PARTS_MAX = 100
TEXT_BYTES_MAX = 64 * 1024
_HEAD_BYTES_MAX = 4096
_BOUNDARY = re.compile(
    r"multipart/form-data\s*;\s*boundary=(?:\"([^\"]+)\"|([0-9A-Za-z'+_.-]+))\s*\Z", re.I
)
_BOUNDARY_CHARS = re.compile(r"[0-9A-Za-z'()+_,./:=?-]{1,70}\Z")
_DISPOSITION = re.compile(
    r"form-data\s*;\s*name=\"([^\"\\\x00-\x1f\x7f]{1,128})\""
    r"(?:\s*;\s*filename=\"([^\"\\\x00-\x1f\x7f]{0,255})\")?\s*\Z",
    re.I,
)
_TYPE = re.compile(
    r"([a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+)(?:\s*;\s*charset=\"?utf-?8\"?)?\s*\Z", re.I
)


class NotMultipart(ValueError):
    """The body has more than one reading, or none; the message says why."""


class Part(Struct, frozen=True, kw_only=True):
    """One part. ``text``: the value of a short text that is no file."""

    name: str
    filename: str | None
    media_type: str | None
    size: int
    digest: str
    text: str | None

    @property
    def document(self) -> dict[str, Any]:
        """All of it that counts."""
        return {
            "name": self.name,
            "filename": self.filename,
            "media_type": self.media_type,
            "size": self.size,
            "digest": self.digest,
        }

    @property
    def argument(self) -> Any:
        """What policy and approvers see under its name."""
        if self.text is not None:
            return self.text
        return {key: value for key, value in self.document.items() if key != "name"}


def boundary_of(content_type: str) -> bytes | None:
    """The boundary of a multipart form; None where the type is another. Raises NotMultipart."""
    if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        return None
    match = _BOUNDARY.match(content_type.strip())
    text = (match[1] or match[2]) if match else ""
    if not _BOUNDARY_CHARS.match(text):
        raise NotMultipart("its Content-Type has no usable boundary, or more than that")
    return text.encode("ascii")


class Multipart:
    """A reader of one body: ``feed`` it what comes, then ``end``."""

    def __init__(self, boundary: bytes) -> None:
        self._line = b"--" + boundary
        self._delimiter = b"\r\n" + self._line
        self._rest = bytearray()
        self._state = "start"
        self._parts: list[Part] = []
        self._open: _Open | None = None

    def feed(self, data: bytes) -> None:
        """Take a part of the body. Raises NotMultipart."""
        self._rest += data
        while self._step():
            pass

    def end(self) -> tuple[Part, ...]:
        """The parts, once all was fed. Raises NotMultipart."""
        if self._state != "done":
            raise NotMultipart("it ends before its last boundary")
        if bytes(self._rest) not in (b"", b"\r\n"):
            raise NotMultipart("something stands after its last boundary")
        return tuple(self._parts)

    def _step(self) -> bool:
        return {
            "start": self._start,
            "after": self._after,
            "head": self._head,
            "body": self._body,
            "done": self._done,
        }[self._state]()

    def _start(self) -> bool:
        if len(self._rest) < len(self._line):
            if not self._line.startswith(bytes(self._rest)):
                raise NotMultipart("something stands before its first boundary")
            return False
        if not self._rest.startswith(self._line):
            raise NotMultipart("something stands before its first boundary")
        del self._rest[: len(self._line)]
        self._state = "after"
        return True

    def _after(self) -> bool:
        """What follows a boundary: another part, or the end."""
        if len(self._rest) < 2:
            return False
        follows = bytes(self._rest[:2])
        if follows not in (b"\r\n", b"--"):
            raise NotMultipart("a boundary is followed by something else than a line's end")
        del self._rest[:2]
        self._state = "head" if follows == b"\r\n" else "done"
        if follows == b"--" and not self._parts:
            raise NotMultipart("it has no parts")
        return True

    def _head(self) -> bool:
        end = self._rest.find(b"\r\n\r\n")
        if end > _HEAD_BYTES_MAX or (end < 0 and len(self._rest) > _HEAD_BYTES_MAX):
            raise NotMultipart(f"the head of part {len(self._parts) + 1} is too long")
        if end < 0:
            return False
        if len(self._parts) == PARTS_MAX:
            raise NotMultipart(f"it has more than {PARTS_MAX} parts")
        self._open = _Open(bytes(self._rest[:end]), len(self._parts) + 1)
        del self._rest[: end + 4]
        self._state = "body"
        return True

    def _body(self) -> bool:
        assert self._open is not None
        line = self._rest.find(self._line)
        at = line - 2
        if line >= 0 and not self._rest.startswith(self._delimiter, max(at, 0)):
            raise NotMultipart(f"part {len(self._parts) + 1} holds its boundary")
        if line >= 0:
            self._open.add(bytes(self._rest[:at]))
            self._parts.append(self._open.end())
            del self._rest[: at + len(self._delimiter)]
            self._open, self._state = None, "after"
            return True
        sure = len(self._rest) - len(self._delimiter)  # what no delimiter can begin in
        if sure > 0:
            self._open.add(bytes(self._rest[:sure]))
            del self._rest[:sure]
        return False

    def _done(self) -> bool:
        if len(self._rest) > 2:
            raise NotMultipart("something stands after its last boundary")
        return False


class _Open:
    """A part while it comes. Raises NotMultipart for a head with more than one reading."""

    def __init__(self, head: bytes, number: int) -> None:
        self._name, self._filename, self._type = _read_head(head, number)
        self._hash = hashlib.sha256()
        self._size = 0
        self._text: bytearray | None = None
        if self._filename is None and self._type in (None, "text/plain"):
            self._text = bytearray()

    def add(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)
        if self._text is not None:
            self._text += data
            if len(self._text) > TEXT_BYTES_MAX:
                self._text = None

    def end(self) -> Part:
        try:
            text = self._text.decode("utf-8") if self._text is not None else None
        except UnicodeDecodeError:
            text = None
        return Part(
            name=self._name,
            filename=self._filename,
            media_type=self._type,
            size=self._size,
            digest=f"sha256:{self._hash.hexdigest()}",
            text=text,
        )


def _read_head(head: bytes, number: int) -> tuple[str, str | None, str | None]:
    where = f"the head of part {number}"
    try:
        lines = head.decode("utf-8").split("\r\n")
    except UnicodeDecodeError:
        raise NotMultipart(f"{where} is not UTF-8") from None
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name not in ("content-disposition", "content-type") or name in found:
            raise NotMultipart(f"{where} has more than one Content-Disposition and Content-Type")
        found[name] = value.strip(" \t")
    said = _DISPOSITION.match(found.get("content-disposition", ""))
    if said is None:
        raise NotMultipart(f"{where} has no plain Content-Disposition with a quoted name")
    kind = found.get("content-type")
    if kind is None:
        return said[1], said[2], None
    typed = _TYPE.match(kind)
    if typed is None or typed[1].lower().startswith("multipart/"):
        raise NotMultipart(f"{where} has a Content-Type that is not taken")
    return said[1], said[2], typed[1].lower()
