"""Structs as stored bytes, and back.

Rules
1. MessagePack, keys in order, so that equal values have equal bytes; JSON only for a value that
   holds an integer beyond 64 bits, which MessagePack cannot say exactly.
2. The first byte tells which: a struct is a MessagePack map or array, JSON starts with ``{`` or
   ``[``.
3. What comes back is equal to what was stored, except that tuples inside plain values are lists.
"""

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_packer = msgspec.msgpack.Encoder(order="deterministic")
_writer = msgspec.json.Encoder(order="deterministic")
_JSON_STARTS = (b"{", b"[")


class Codec(Generic[T]):
    """Encodes values of one type. Raises UnicodeEncodeError for text that has no UTF-8 form."""

    def __init__(self, kind: type[T]) -> None:
        self._unpacker = msgspec.msgpack.Decoder(kind)
        self._reader = msgspec.json.Decoder(kind)

    def encode(self, value: T) -> bytes:
        """The value's stored form."""
        return encode(value)

    def decode(self, encoded: bytes) -> T:
        """The value of a stored form. Raises msgspec.DecodeError."""
        if encoded[:1] in _JSON_STARTS:
            return self._reader.decode(encoded)
        return self._unpacker.decode(encoded)


def encode(value: Any) -> bytes:
    """The stored form of any struct."""
    try:
        return _packer.encode(value)
    except OverflowError:
        return _writer.encode(value)
