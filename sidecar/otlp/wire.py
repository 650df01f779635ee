"""The protobuf wire format, as far as fields: where each begins and ends, and how one is written.

Rules
1. Bytes that are no sequence of fields raise Torn; nothing is read beyond the given end.
2. A group, which no message of ours has, is passed over as one field.
3. Nothing is copied: what is yielded are places.

The wire format: https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)

# The largest request that may be parsed whole: empty messages take ninety times their bytes.
WHOLE_BYTES = 2 * 1024**2

Field = tuple[int, int, int, int, int]


class Torn(ValueError):
    """The bytes end inside a field, or hold no field."""


def fields(data: bytes, start: int, stop: int) -> Iterator[Field]:
    """(number, wire type, place, place of the value, end) of each field of a message."""
    at = start
    while at < stop:
        place = at
        tag, at = _small(data, at, stop)
        number, wire = tag >> 3, tag & 7
        value = at
        if wire == BYTES:
            length, value = _small(data, at, stop)
            at = value + length
        elif wire == GROUP:
            at = _after_group(data, at, stop, number)
        else:
            at = _after(data, at, stop, wire)
        if at > stop or number == 0:
            raise Torn("a field goes beyond its message")
        yield number, wire, place, value, at


def varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """A varint's value and the place after it. Raises Torn."""
    if at < stop and data[at] < 0x80:
        return data[at], at + 1
    result = 0
    for shift in range(0, 70, 7):
        if at >= stop:
            break
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
    raise Torn("a varint that does not end")


def _small(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """A tag or a length: parsers take at most 32 bits in at most five bytes."""
    number, after = varint(data, at, stop)
    if after - at > 5 or number > 0xFFFFFFFF:
        raise Torn("a number of more than 32 bits")
    return number, after


def field(number: int, value: bytes) -> bytes:
    """A length-delimited field."""
    return encoded(number << 3 | BYTES) + encoded(len(value)) + value


def encoded(number: int) -> bytes:
    """A number as varint."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _after(data: bytes, at: int, stop: int, wire: int) -> int:
    if wire == VARINT:
        return varint(data, at, stop)[1]
    if wire == FIXED64:
        return at + 8
    if wire == FIXED32:
        return at + 4
    raise Torn(f"wire type {wire}")


def _after_group(data: bytes, at: int, stop: int, number: int) -> int:
    """The place after the group's end; groups inside it are counted, not recursed into."""
    open_groups = [number]
    while open_groups:
        tag, at = _small(data, at, stop)
        wire = tag & 7
        if wire == GROUP:
            open_groups.append(tag >> 3)
        elif wire == GROUP_END:
            if open_groups.pop() != tag >> 3:
                raise Torn("a group ends that has not begun")
        elif wire == BYTES:
            length, at = _small(data, at, stop)
            at += length
        else:
            at = _after(data, at, stop, wire)
        if at > stop or len(open_groups) > 100:
            raise Torn("a group goes beyond its message")
    return at
