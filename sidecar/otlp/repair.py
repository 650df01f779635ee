"""Protobuf that a strict parser refuses, rewritten so that one bad field costs only itself.

Rules
1. Invalid UTF-8 in a string field becomes U+FFFD; nothing else of the message changes.
2. A nested message whose bytes do not parse, or that nests too deep, is left out and counted; its
   siblings stay.
3. Unknown fields are copied as they are.
"""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from sidecar.otlp.errors import TooMany
from sidecar.otlp.wire import BYTES, Torn, field, fields

# Parsers allow 100 messages inside each other.
_DEPTH_MAX = 90


def repair(payload: bytes, descriptor: Any) -> tuple[bytes | None, int]:
    """The payload rewritten by its message descriptor, and how many nested messages were left out.

    None when the top level itself is not a sequence of fields.
    """
    try:
        return _rewrite(payload, descriptor, 0)
    except Torn:
        return None, 0


def _rewrite(payload: bytes, descriptor: Any, depth: int) -> tuple[bytes, int]:
    if depth > _DEPTH_MAX:
        raise Torn("messages nest too deep")
    parts: list[bytes] = []
    lost = 0
    for number, wire, start, value, end in fields(payload, 0, len(payload)):
        known = descriptor.fields_by_number.get(number)
        if wire != BYTES or known is None:
            parts.append(payload[start:end])
        elif known.type == FieldDescriptor.TYPE_STRING:
            text = payload[value:end].decode("utf-8", "replace")
            parts.append(field(number, text.encode()))
        elif known.type == FieldDescriptor.TYPE_MESSAGE:
            try:
                inner, inner_lost = _rewrite(payload[value:end], known.message_type, depth + 1)
            except Torn:
                lost += 1
                continue
            lost += inner_lost
            parts.append(field(number, inner))
        else:
            parts.append(payload[start:end])
    return b"".join(parts), lost


def count_messages(payload: bytes, descriptor: Any, maximum: int) -> None:
    """Raises TooMany when a payload has more than ``maximum`` messages inside each other.

    Bytes that cannot be read are left to the parser to refuse.
    """
    count, waiting = 0, [(0, len(payload), descriptor)]
    try:
        while waiting:
            start, stop, known = waiting.pop()
            for number, wire, _, value, end in fields(payload, start, stop):
                field_known = known.fields_by_number.get(number)
                count += 1
                if count > maximum:
                    raise TooMany(f"the request has more than {maximum} parts; send smaller ones")
                if wire == BYTES and field_known is not None and field_known.message_type:
                    waiting.append((value, end, field_known.message_type))
    except Torn:
        return
