"""Content codings: a packed body is inflated as it comes, a bounded piece at a time.

Rules
1. One step gives at most 64 KiB (gzip, deflate) or 8 MiB (zstd), whatever it is given: whoever
   takes the pieces stops a bomb at the step that exceeds a limit.
2. Time is linear in the packed bytes, and members (gzip) or frames (zstd) are few.
3. A window larger than 8 MiB is refused by the frame's head (RFC 9659 §3), before it is allocated.

Sources: RFC 1952 (gzip), RFC 1950 (zlib, which HTTP calls deflate), RFC 8878 (zstd).
"""

import zlib
from collections.abc import Iterator
from typing import Protocol

import zstandard

from sidecar.receive.status import Refused

GZIP_MAGIC = b"\x1f\x8b"
_ANY_WRAPPER = 47  # zlib: gzip or zlib header, found by itself
_PIECE = 65536
# Of one body (RFC 1952 §2.2, RFC 8878 §3). Senders make one; an empty one costs 20 bytes and an
# inflater.
_MEMBERS_MAX = 64
_WINDOW_BYTES_MAX = 8 * 1024**2
# The library's streaming call has no bound on what it gives, so the bound is on what it gets: four
# bytes (a block that repeats one byte) stand for 128 KiB at most, these for 8 MiB.
_ZSTD_SLICE = 256


class _Stream(Protocol):
    """What zlib's and zstandard's stream objects have in common."""

    @property
    def eof(self) -> bool: ...


class Inflater:
    """A packed body: ``inflate`` its pieces in order, then see whether it is ``whole``."""

    name: str
    """As Content-Encoding has it."""
    weight: int
    """Bytes held for each byte given, the inflater's own window among them."""
    _slice = _PIECE
    _stream: _Stream

    def __init__(self) -> None:
        self._members = 1

    @property
    def whole(self) -> bool:
        """Whether the last member has come to its end."""
        return self._stream.eof

    def inflate(self, packed: bytes) -> Iterator[bytes]:
        """The next piece, inflated. Raises Refused when it is not what it says."""
        # In slices: what an inflater leaves over is a copy, and of a whole body at each step.
        for start in range(0, len(packed), self._slice):
            rest = packed[start : start + self._slice]
            while rest:
                if self._stream.eof:
                    self._next_member()
                piece, rest = self._step(rest)
                yield piece

    def _next_member(self) -> None:
        """What follows a finished member is another one."""
        self._members += 1
        if self._members > _MEMBERS_MAX:
            many = f"the body has more than {_MEMBERS_MAX} {self.name} members"
            raise Refused("undecodable", many)
        self._begin()

    def _begin(self) -> None:
        raise NotImplementedError

    def _step(self, rest: bytes) -> tuple[bytes, bytes]:
        """Some of it inflated, and what is left over."""
        raise NotImplementedError


class Gzip(Inflater):
    """gzip or deflate, told apart by the first bytes."""

    name, weight = "gzip", 1

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def _begin(self) -> None:
        self._stream = self._zlib = zlib.decompressobj(_ANY_WRAPPER)

    def _step(self, rest: bytes) -> tuple[bytes, bytes]:
        try:
            piece = self._zlib.decompress(rest, _PIECE)
        except zlib.error as error:
            raise Refused("undecodable", f"the body is not gzip: {error}") from None
        return piece, self._zlib.unconsumed_tail or self._zlib.unused_data


class Zstd(Inflater):
    """zstd without a dictionary."""

    name, weight = "zstd", 2
    _slice = _ZSTD_SLICE

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def _begin(self) -> None:
        made = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
        self._stream = self._zstd = made.decompressobj(write_size=_PIECE)

    def _step(self, rest: bytes) -> tuple[bytes, bytes]:
        try:
            piece = self._zstd.decompress(rest)
        except zstandard.ZstdError as error:
            raise Refused("undecodable", f"the body is not zstd: {error}") from None
        return piece, self._zstd.unused_data


def inflater(content_encoding: str) -> Inflater | None:
    """The inflater of a Content-Encoding value; None for a body as it is. Raises Refused."""
    match content_encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return Gzip()
        case "zstd":
            return Zstd()
    raise Refused("content_encoding", "send the body as it is, or packed with gzip or zstd")
