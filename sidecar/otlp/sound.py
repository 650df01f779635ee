"""Whether every item of a protobuf request is sound as far as its ids, told without reading more.

Rules
1. An answer is exact: what is called sound here, ``items`` would keep, item by item.
2. None is no verdict: something wants a closer look, or only seems to.
3. Whatever is not an id is passed over by the parser itself; no item becomes a Python object.

How: a message type of our own knows the way to the items and their two ids, nothing else. Groups
and scopes are single fields of it, so that the parser joins those of a request. Written again
without what it does not know, a request of sound items is one pattern of ``_STRIDE`` bytes, over
and over; its bytes are compared column by column.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from sidecar.otlp.errors import TooMany

_BYTES, _MESSAGE = 12, 11
_ONE, _MANY = 1, 3
# The item's tag and length, the trace id's and the span id's, at their places in a written item.
_COLUMNS: Final = tuple(
    (place, bytes([byte]))
    for place, byte in ((0, 0x12), (1, 28), (2, 0x0A), (3, 16), (20, 0x12), (21, 8))
)
_STRIDE: Final = 30
_NO_TRACE_ID, _NO_SPAN_ID = b"\x0a\x10" + bytes(16), b"\x12\x08" + bytes(8)


def ids_message(trace_id: int, span_id: int) -> Any:
    """A message that reads the ids of an item and passes over everything else."""
    return _classes(trace_id, span_id)["Ids"]


def _classes(trace_id: int, span_id: int) -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"ids{trace_id}.proto", package=f"sidecar.ids{trace_id}", syntax="proto3"
    )
    item = file.message_type.add(name="Ids")
    for name, number in (("trace_id", trace_id), ("span_id", span_id)):
        item.field.add(name=name, number=number, type=_BYTES, label=_ONE)
    scope = file.message_type.add(name="Scope")
    inner = f".{file.package}."
    scope.field.add(name="items", number=2, type=_MESSAGE, label=_MANY, type_name=f"{inner}Ids")
    group = file.message_type.add(name="Group")
    group.field.add(name="scope", number=2, type=_MESSAGE, label=_ONE, type_name=f"{inner}Scope")
    request = file.message_type.add(name="Request")
    request.field.add(name="group", number=1, type=_MESSAGE, label=_ONE, type_name=f"{inner}Group")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        each.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{file.package}.{each.name}")
        )
        for each in file.message_type
    }


_SPANS: Final = _classes(1, 2)["Request"]
_RECORDS: Final = _classes(9, 10)["Request"]


def sound_spans(payload: bytes, items_max: int) -> int | None:
    """How many spans a trace request holds, if all have usable ids. Raises TooMany."""
    request = _read(_SPANS, payload, items_max)
    if request is None:
        return None
    request.DiscardUnknownFields()
    written = request.group.scope.SerializeToString()
    count = len(request.group.scope.items)
    if len(written) != count * _STRIDE or _NO_TRACE_ID in written or _NO_SPAN_ID in written:
        return None
    for place, byte in _COLUMNS:
        if written[place::_STRIDE] != byte * count:
            return None
    return count


def sound_records(payload: bytes, items_max: int) -> int | None:
    """How many records a logs request holds, if all are readable. Raises TooMany."""
    request = _read(_RECORDS, payload, items_max)
    return None if request is None else len(request.group.scope.items)


def _read(kind: Any, payload: bytes, items_max: int) -> Any:
    try:
        request = kind.FromString(payload)
    except DecodeError:
        return None
    if len(request.group.scope.items) > items_max:
        raise TooMany(f"the request has more than {items_max} items; send smaller ones")
    return request
