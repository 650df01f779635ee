"""Protobuf that a strict parser refuses, rewritten so that one bad field costs only itself.

Rules
1. Invalid UTF-8 in a string field becomes U+FFFD; nothing else of the item changes.
2. A nested message whose bytes do not parse is left out and counted; its siblings stay.
3. Unknown fields are copied as they are; depth is bounded.

The wire format: https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

_DEPTH_MAX = 100
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Torn(ValueError):
    """The bytes end inside a field, or hold no field."""


def repair(payload: bytes, descriptor: Any) -> tuple[bytes | None, int]:
    """The payload rewritten by its message descriptor, and how many nested messages were left out.

    None when the top level itself is not a sequence of fields.
    """
    try:
        return _rewrite(payload, descriptor, 0)
    except _Torn:
        return None, 0


def _rewrite(payload: bytes, descriptor: Any, depth: int) -> tuple[bytes, int]:
    if depth > _DEPTH_MAX:
        raise _Torn
    parts: list[bytes] = []
    lost = 0
    for number, wire, start, value, end in _fields(payload):
        field = descriptor.fields_by_number.get(number)
        if wire != _BYTES or field is None:
            parts.append(payload[start:end])
        elif field.type == FieldDescriptor.TYPE_STRING:
            parts.append(_field(number, value.decode("utf-8", "replace").encode()))
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            try:
                inner, inner_lost = _rewrite(value, field.message_type, depth + 1)
            except _Torn:
                lost += 1
                continue
            lost += inner_lost
            parts.append(_field(number, inner))
        else:
            parts.append(payload[start:end])
    return b"".join(parts), lost


def _fields(payload: bytes) -> Iterator[tuple[int, int, int, bytes, int]]:
    """(field number, wire type, start, bytes of a length-delimited field, end) of each field."""
    position = 0
    while position < len(payload):
        start = position
        tag, position = _varint(payload, position)
        number, wire = tag >> 3, tag & 7
        value = b""
        if wire == _VARINT:
            _, position = _varint(payload, position)
        elif wire == _FIXED64:
            position += 8
        elif wire == _FIXED32:
            position += 4
        elif wire == _BYTES:
            length, position = _varint(payload, position)
            value = payload[position : position + length]
            position += length
        else:
            raise _Torn
        if position > len(payload) or number == 0:
            raise _Torn
        yield number, wire, start, value, position


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(payload):
            raise _Torn
        byte = payload[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
    raise _Torn


def _field(number: int, value: bytes) -> bytes:
    return _encode(number << 3 | _BYTES) + _encode(len(value)) + value


def _encode(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
