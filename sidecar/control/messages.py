"""The product's records as gRPC messages, and gRPC requests as values; by the messages' own
descriptors.

Rules
1. A field that is null or not there is not set. JSON of any shape is ``google.protobuf.Value``.
2. A whole number beyond what a field can say exactly is said as text where the field takes any
   JSON, and as the nearest number where it is a number: 64 bits signed, or 2**53 in a Value.
"""

import math
from collections.abc import Mapping
from typing import Any

_EXACT = 2**53
_LEAST, _LARGEST = -(2**63), 2**63 - 1
_VALUE = "google.protobuf.Value"
_OBJECT = "google.protobuf.Struct"


def fill(message: Any, values: Mapping[str, Any]) -> None:
    """Set a message's fields from values of the same names."""
    for field in message.DESCRIPTOR.fields:
        value = values.get(field.name)
        if value is None:
            continue
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            _fill_map(getattr(message, field.name), kind, value)
        elif field.is_repeated:
            _fill_list(getattr(message, field.name), kind, value)
        elif kind is not None:
            below = getattr(message, field.name)
            below.SetInParent()
            _set(below, value)
        else:
            setattr(message, field.name, _plain(value))


def values_of(message: Any) -> dict[str, Any]:
    """The fields that are set, by name; for messages of scalars, of such messages, and lists."""

    def plain(field: Any, value: Any) -> Any:
        return value if field.message_type is None else values_of(value)

    return {
        field.name: [plain(field, each) for each in value]
        if field.is_repeated
        else plain(field, value)
        for field, value in message.ListFields()
    }


def _fill_map(target: Any, kind: Any, values: Mapping[str, Any]) -> None:
    whole = kind.fields_by_name["value"].message_type is not None
    for name, value in values.items():
        if whole:
            _set(target[name], value)
        else:
            target[name] = _plain(value)


def _fill_list(target: Any, kind: Any, values: list[Any]) -> None:
    for value in values:
        if kind is None:
            target.append(_plain(value))
        else:
            _set(target.add(), value)


def _set(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name == _VALUE:
        _set_json(message, value)
    elif name == _OBJECT:
        for key, item in value.items():
            _set_json(message.fields[str(key)], item)
    else:
        fill(message, value)


def _set_json(message: Any, value: Any) -> None:
    if value is None:
        message.null_value = 0
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int) and abs(value) > _EXACT:
        message.string_value = str(value)
    elif isinstance(value, float) and not math.isfinite(value):
        message.null_value = 0  # as JSON has it
    elif isinstance(value, int | float):
        message.number_value = value
    elif isinstance(value, dict):
        message.struct_value.SetInParent()
        for key, item in value.items():
            _set_json(message.struct_value.fields[str(key)], item)
    elif isinstance(value, list | tuple):
        message.list_value.SetInParent()
        for item in value:
            _set_json(message.list_value.values.add(), item)
    else:
        message.string_value = str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, _LEAST), _LARGEST)
    return value
