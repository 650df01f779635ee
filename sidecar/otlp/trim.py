"""One span or log record as protobuf, brought within the limits before it is parsed.

A parser makes a hundred bytes of memory of two bytes of an empty message, so that what is large is
looked at on the wire first.

Rules
1. Ids, times, status and names stay; of attributes, events and links the smallest stay.
2. No more than ``_LOOK_MAX`` of a kind are looked at; what follows is over every limit.
3. The answer is at most about ``item_bytes_max`` bytes.
"""

import heapq
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from sidecar.otlp.limits import Cuts, Limits, cut_text, marker, over
from sidecar.otlp.wire import BYTES, Torn, field, fields

HEAVY_BYTES = 65536
_LOOK_MAX = 50_000
_KEY, _VALUE, _STRING = 1, 2, 1
_STATUS_MESSAGE, _STATUS_CODE = 2, 3


class Shape(Struct, frozen=True, kw_only=True):
    """A message's field numbers: what stays, and what may give way. 0: it has no such field."""

    stays: frozenset[int]
    texts: frozenset[int] = frozenset()
    status: int = 0
    attributes: int
    events: int = 0
    links: int = 0
    body: int = 0


SPAN = Shape(
    stays=frozenset({1, 2, 4, 6, 7, 8, 10, 12, 14, 16}),
    texts=frozenset({3, 5}),
    status=15,
    attributes=9,
    events=11,
    links=13,
)
RECORD = Shape(
    stays=frozenset({1, 2, 7, 8, 9, 10, 11}), texts=frozenset({3, 12}), attributes=6, body=5
)
RESOURCE = Shape(stays=frozenset({2}), attributes=1)
SCOPE = Shape(stays=frozenset({4}), texts=frozenset({1, 2}), attributes=3)
_EVENT = Shape(stays=frozenset({1, 4}), texts=frozenset({2}), attributes=3)
_LINK = Shape(stays=frozenset({1, 2, 5, 6}), texts=frozenset({3}), attributes=4)


class _Found:
    """The places of a message's large fields, and the bytes of what stays."""

    def __init__(self, raw: bytes, shape: Shape, limit: int, cuts: Cuts) -> None:
        # By wire type too: a field of a wrong type is unknown and hides no other.
        self.stays: dict[tuple[int, int], bytes] = {}
        self.many: dict[int, list[bytes]] = {}
        self.beyond: dict[int, int] = {}
        many = {shape.attributes, shape.events, shape.links} - {0}
        one = shape.stays | shape.texts | ({shape.status, shape.body} - {0})
        for number, wire, place, value, end in fields(raw, 0, len(raw)):
            if number in many and wire == BYTES:
                kept = self.many.setdefault(number, [])
                if len(kept) < _LOOK_MAX:
                    kept.append(raw[value:end])
                else:
                    self.beyond[number] = self.beyond.get(number, 0) + 1
            elif number in one:
                whole = wire != BYTES or end - value <= limit or number in shape.stays
                if not whole:
                    cuts["value_over_limit"] += 1
                text = raw[place:end] if whole else _shorter(raw[value:end], number, shape, limit)
                self.stays[number, wire] = text

    def taken(self, number: int) -> list[bytes]:
        """All that were looked at of a kind."""
        return self.many.get(number, [])


def trim(raw: bytes, shape: Shape, limits: Limits, cuts: Cuts) -> bytes:
    """The message within the limits. Raises Torn for bytes that are no message."""
    limit = limits.value_bytes_max
    found = _Found(raw, shape, limit, cuts)
    attributes = _few(found, shape.attributes, limits.attributes_max)
    over(_count(found, shape.attributes), limits.attributes_max, "attributes_over_limit", cuts)
    events = _few(found, shape.events, limits.events_max)
    over(_count(found, shape.events), limits.events_max, "events_over_limit", cuts)
    links = _few(found, shape.links, limits.links_max)
    over(_count(found, shape.links), limits.links_max, "links_over_limit", cuts)
    for kind, inner in ((events, _EVENT), (links, _LINK)):
        kind[:] = [_lighter(each, inner, limits, cuts) for each in kind]
    for place, attribute in enumerate(attributes):
        if len(attribute) > limit:
            cuts["value_over_limit"] += 1
            attributes[place] = _shrunk(attribute, limit)
    room = limits.item_bytes_max - len(found.stays.get((shape.body, BYTES), b""))
    room -= sum(map(len, (*attributes, *events, *links)))
    room = _fit(attributes, room, _emptied, cuts)
    _fit(events, room, lambda event: trim(event, _EVENT, _bare(limits), Cuts()), cuts)
    return b"".join(
        (
            *found.stays.values(),
            *(field(shape.attributes, each) for each in attributes),
            *(field(shape.events, each) for each in events),
            *(field(shape.links, each) for each in links),
        )
    )


def _bare(limits: Limits) -> Limits:
    return replace(limits, attributes_max=0)


def _count(found: _Found, number: int) -> int:
    return len(found.taken(number)) + found.beyond.get(number, 0)


def _few(found: _Found, number: int, maximum: int) -> list[bytes]:
    """The smallest of a kind, in the order in which they came."""
    taken = found.taken(number)
    if len(taken) <= maximum:
        return taken
    places = heapq.nsmallest(maximum, range(len(taken)), key=lambda at: (len(taken[at]), at))
    return [taken[at] for at in sorted(places)]


def _lighter(raw: bytes, shape: Shape, limits: Limits, cuts: Cuts) -> bytes:
    try:
        light = len(raw) <= min(HEAVY_BYTES, limits.value_bytes_max)
        return raw if light else trim(raw, shape, limits, cuts)
    except Torn:
        cuts["unreadable_part"] += 1
        return b""


def _fit(kept: list[bytes], room: int, emptied: Callable[[bytes], bytes], cuts: Cuts) -> int:
    """Empty the largest until there is room for all; the ``room`` then, negative for too little."""
    for place in sorted(range(len(kept)), key=lambda place: -len(kept[place])):
        if room >= 0:
            break
        before = len(kept[place])
        smaller = emptied(kept[place])
        if len(smaller) >= before:
            break
        cuts["item_over_limit"] += 1
        kept[place] = smaller
        room += before - len(smaller)
    return room


def _emptied(attribute: bytes) -> bytes:
    return _shrunk(attribute, 0)


def _shrunk(attribute: bytes, limit: int) -> bytes:
    """A KeyValue with its value cut, or told of; without a readable key it goes entirely."""
    key, value = b"", b""
    try:
        for number, wire, _, start, end in fields(attribute, 0, len(attribute)):
            if wire == BYTES and number == _KEY:
                key = attribute[start:end]
            elif wire == BYTES and number == _VALUE:
                value = attribute[start:end]
        return field(_KEY, key[:1024]) + field(_VALUE, _told(value, limit))
    except Torn:
        return b""


def _told(value: bytes, limit: int) -> bytes:
    """An AnyValue as a text within the limit."""
    for number, wire, _, start, end in fields(value, 0, len(value)):
        if number == _STRING and wire == BYTES and limit:
            return field(_STRING, cut_text(value[start:end], limit))
    return field(_STRING, marker(len(value)).encode())


def _shorter(value: bytes, number: int, shape: Shape, limit: int) -> bytes:
    """A large text, status or body, cut."""
    if number == shape.body:
        return field(number, _told(value, limit))
    if number != shape.status:
        return field(number, cut_text(value, limit))
    parts = []
    for inner, wire, place, start, end in fields(value, 0, len(value)):
        if inner == _STATUS_CODE:
            parts.append(value[place:end])
        elif inner == _STATUS_MESSAGE and wire == BYTES:
            parts.append(field(inner, cut_text(value[start:end], limit)))
    return field(number, b"".join(parts[-2:]))
