"""A protobuf request taken apart on the wire: each scope with its items, nothing parsed.

Rules
1. A request with more groups, scopes and items together than allowed is TooMany, however they are
   spread, and is not looked at further.
2. A torn group or scope is counted as one lost item; those beside it stay.
3. The pieces of a message given in several fields are joined, as protobuf merges them.

Traces, logs and metrics share these numbers: request {group = 1}, group {resource = 1, scope = 2},
scope {scope = 1, item = 2}.
"""

from collections.abc import Iterator

from msgspec import Struct

from sidecar.otlp.errors import TooMany
from sidecar.otlp.wire import BYTES, Torn, fields

_GROUP, _OWN, _INNER = 1, 1, 2


class Frame(Struct, frozen=True):
    """A scope's items, with the encoded Resource and InstrumentationScope; ``lost`` parts."""

    resource: bytes
    scope: bytes
    items: list[tuple[int, int]]
    lost: int = 0


class Frames:
    """The frames of a payload. Iterating raises Torn at the top level, and TooMany."""

    def __init__(self, payload: bytes, items_max: int) -> None:
        self._payload = payload
        self._items_max = items_max
        self._seen = 0

    def __iter__(self) -> Iterator[Frame]:
        for number, wire, _, start, stop in fields(self._payload, 0, len(self._payload)):
            self._count()
            if number == _GROUP and wire == BYTES:
                yield from self._group(start, stop)

    def _group(self, start: int, stop: int) -> Iterator[Frame]:
        try:
            resource, scopes = self._halves(start, stop)
        except Torn:
            yield Frame(b"", b"", [], 1)
            return
        for first, last in scopes:
            try:
                scope, items = self._halves(first, last)
            except Torn:
                yield Frame(b"", b"", [], 1)
            else:
                yield Frame(resource, scope, items)

    def _halves(self, start: int, stop: int) -> tuple[bytes, list[tuple[int, int]]]:
        """A message's own part, joined, and the places of what is inside it."""
        own, inner = [], []
        for number, wire, _, first, last in fields(self._payload, start, stop):
            self._count()
            if wire != BYTES:
                continue
            if number == _OWN:
                own.append(self._payload[first:last])
            elif number == _INNER:
                inner.append((first, last))
        return b"".join(own), inner

    def _count(self) -> None:
        self._seen += 1
        if self._seen > 2 * self._items_max:
            raise TooMany(f"the request has more than {self._items_max} items; send smaller ones")
