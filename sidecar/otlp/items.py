"""A request's spans or log records as messages, each within the limits, taken from the wire.

Rules
1. An item that a strict parser refuses is repaired, or keeps its ids; only one without any
   structure is lost.
2. What is large is trimmed before it is parsed, so that memory follows the limits, not the sender.
3. Where a request holds more than ``nodes_max`` in all, its later items keep only what never goes.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError
from msgspec import Struct
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from processors.model.span import Attributes
from processors.model.span import LogRecord as PlainRecord
from processors.model.span import Span as PlainSpan
from sidecar.otlp.errors import TooMany
from sidecar.otlp.frames import Frame, Frames
from sidecar.otlp.limits import Cuts, Limits
from sidecar.otlp.repair import repair
from sidecar.otlp.sound import ids_message
from sidecar.otlp.trim import HEAVY_BYTES, RECORD, RESOURCE, SCOPE, SPAN, Shape, trim
from sidecar.otlp.wire import Torn


class Kind(Struct, frozen=True, kw_only=True):
    """A signal's messages: the request, its item, the item's shape, and where its ids stand."""

    request: Any
    item: Any
    shape: Shape
    ids: Any


KINDS: Final = {
    "traces": Kind(request=ExportTraceServiceRequest, item=Span, shape=SPAN, ids=ids_message(1, 2)),
    "logs": Kind(
        request=ExportLogsServiceRequest, item=LogRecord, shape=RECORD, ids=ids_message(9, 10)
    ),
}


class Group(Struct, frozen=True):
    """A scope's items, parsed one by one, and its resource."""

    resource: Any
    scope: Any
    items: Iterator[Any]


class Items:
    """Reads one request; afterwards ``lost`` and ``cuts`` tell what was given up."""

    def __init__(self, kind: Kind, limits: Limits, cuts: Cuts) -> None:
        self._kind = kind
        self._limits = limits
        self._cuts = cuts
        self._nodes = 0
        self._heavy = min(HEAVY_BYTES, limits.value_bytes_max, limits.item_bytes_max)
        self.lost = 0

    def groups(self, payload: bytes) -> Iterator[Group]:
        """The groups of a request, one after the other. Raises Torn and TooMany."""
        for frame in self._frames(payload):
            yield Group(
                self._read(Resource, frame.resource, RESOURCE) or Resource(),
                self._read(InstrumentationScope, frame.scope, SCOPE) or InstrumentationScope(),
                self._items(payload, frame),
            )

    def ids(self, payload: bytes) -> Iterator[Any]:
        """A message with the ids of each readable item; the rest of it is not looked at."""
        for frame in self._frames(payload):
            for start, stop in frame.items:
                raw = payload[start:stop]
                found = self._ids(raw)
                if found is None and stop - start <= self._heavy:
                    found = self._message(self._kind.item, raw)
                if found is None:
                    self.lost += 1
                else:
                    yield found

    def fitted(self, item: Any) -> Any:
        """The item, trimmed where it has too many of anything."""
        if not self._is_over(item):
            return item
        return self._trimmed(item.SerializeToString(), self._limits)

    def fitted_long(self, item: Any) -> Any:
        """The same in a request that is large enough to hold a value that is too large."""
        if item.ByteSize() > min(self._limits.value_bytes_max, self._limits.item_bytes_max):
            return self._trimmed(item.SerializeToString(), self._limits)
        return self.fitted(item)

    def charge(self, item: PlainSpan | PlainRecord | None) -> None:
        """Count what an item of ``groups`` holds against what the whole request may hold."""
        if item is not None:
            self._nodes += _nodes(item)

    def _frames(self, payload: bytes) -> Iterator[Frame]:
        count, maximum = 0, self._limits.items_max
        for frame in Frames(payload, maximum):
            count += len(frame.items)
            if count > maximum:
                raise TooMany(f"the request has more than {maximum} items; send smaller ones")
            self.lost += frame.lost
            yield frame

    def _items(self, payload: bytes, frame: Frame) -> Iterator[Any]:
        for start, stop in frame.items:
            item = self._item(payload[start:stop])
            if item is None:
                self.lost += 1
            else:
                yield item

    def _item(self, raw: bytes) -> Any:
        if self._nodes > self._limits.nodes_max:
            self._cuts["request_over_limit"] += 1
            return self._bare(raw)
        if len(raw) > self._heavy:
            item = self._trimmed(raw, self._limits)
        else:
            item = self._message(self._kind.item, raw)
            if item is None:
                item = self._only_ids(raw)
            elif self._is_over(item):
                item = self._trimmed(raw, self._limits)
        return item

    def _trimmed(self, raw: bytes, limits: Limits) -> Any:
        try:
            slim = trim(raw, self._kind.shape, limits, self._cuts)
        except Torn:
            return self._only_ids(raw)
        found = self._message(self._kind.item, slim)
        return found if found is not None else self._only_ids(raw)

    def _bare(self, raw: bytes) -> Any:
        nothing = replace(self._limits, attributes_max=0, events_max=0, links_max=0)
        try:
            slim = trim(raw, replace(self._kind.shape, body=0), nothing, Cuts())
        except Torn:
            return self._only_ids(raw)
        found = self._message(self._kind.item, slim)
        return found if found is not None else self._only_ids(raw)

    def _only_ids(self, raw: bytes) -> Any:
        """What stood in the way when it was received: an item is kept that has its ids."""
        ids = self._ids(raw)
        if ids is not None:
            self._cuts["unreadable_part"] += 1
        return ids and self._kind.item(trace_id=ids.trace_id, span_id=ids.span_id)

    def _ids(self, raw: bytes) -> Any:
        try:
            return self._kind.ids.FromString(raw)
        except DecodeError:
            return None

    def _read(self, kind: Any, raw: bytes, shape: Shape) -> Any:
        try:
            slim = raw if len(raw) <= self._heavy else trim(raw, shape, self._limits, self._cuts)
        except Torn:
            self._cuts["unreadable_part"] += 1
            return None
        return self._message(kind, slim)

    def _message(self, kind: Any, raw: bytes) -> Any:
        """The parsed message, repaired where it must be; None where that does not help."""
        try:
            return kind.FromString(raw)
        except DecodeError:
            fixed, lost = repair(raw, kind.DESCRIPTOR)
        if fixed is None:
            return None
        if lost:
            self._cuts["unreadable_part"] += lost
        try:
            return kind.FromString(fixed)
        except DecodeError:
            return None

    def _is_over(self, item: Any) -> bool:
        limits = self._limits
        if len(item.attributes) > limits.attributes_max:
            return True
        if self._kind.item is not Span:
            return False
        return len(item.events) > limits.events_max or len(item.links) > limits.links_max


def _nodes(item: PlainSpan | PlainRecord) -> int:
    """How many values an item holds, those inside structures too."""
    holders: list[Attributes] = [item.attributes]
    if isinstance(item, PlainRecord):
        holders.append({"": item.body})
    else:
        holders += [event.attributes for event in item.events]
        holders += [link.attributes for link in item.links]
    total = len(holders)
    waiting: list[Any] = []
    for attributes in holders:
        total += len(attributes)
        waiting += [value for value in attributes.values() if isinstance(value, dict | list)]
    while waiting:
        held = waiting.pop()
        total += len(held)
        inner = held.values() if isinstance(held, dict) else held
        waiting += [value for value in inner if isinstance(value, dict | list)]
    return total
