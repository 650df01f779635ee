"""The one spelling of a record in a bundle: JSON, a field or an item a line.

**Rules**
1. ``parts`` and ``encoded`` give the same bytes; the one needs memory for the largest item of a
   record's own lists alone, the other for all of them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import structs

from sidecar.replay.digests import Digests


def encoded(value: Any) -> bytes:
    """A record's bytes."""
    return _spelt(value) + b"\n"


def parts(value: Any) -> Iterator[bytes]:
    """The same in pieces: of a list its items, of a record the items of its lists."""
    if isinstance(value, tuple):
        yield from _items(value, 0)
    else:
        before = b"{"
        for field in structs.fields(value):
            yield before + b'\n "' + field.encode_name.encode() + b'": '
            one = getattr(value, field.name)
            yield from _items(one, 1) if isinstance(one, tuple) else (_spelt(one, 1),)
            before = b","
        yield b"\n}"
    yield b"\n"


def _items(values: Iterable[Any], depth: int) -> Iterator[bytes]:
    before = b"["
    for one in values:
        yield before + b"\n" + b" " * (depth + 1) + _spelt(one, depth + 1)
        before = b","
    yield b"[]" if before == b"[" else b"\n" + b" " * depth + b"]"


def _unpacked(value: Any) -> Any:
    if isinstance(value, Digests):
        return [*value]
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _spelt(value: Any, depth: int = 0) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=_unpacked), indent=1)
    # No text holds a line feed as such: each one is the format's own.
    return text.replace(b"\n", b"\n" + b" " * depth) if depth else text
