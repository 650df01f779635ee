"""A record as somebody would write it: what only repeats a default is left out.

Rules
1. Read back, what is written is the same record.
"""

from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, Struct, structs


def written(value: Any) -> Any:
    """The value as mappings, lists and scalars."""
    if isinstance(value, Struct):
        return _record(value)
    if isinstance(value, dict):
        return {name: written(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in value]
    return msgspec.to_builtins(value)


def _record(value: Struct) -> dict[str, Any]:
    config = value.__struct_config__
    found = {config.tag_field: config.tag} if config.tag_field else {}
    for field in structs.fields(value):
        own = getattr(value, field.name)
        if own is UNSET or own == _default(field):
            continue
        found[field.encode_name] = written(own)
    return found


def _default(field: structs.FieldInfo) -> Any:
    if field.default is not NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not NODEFAULT else NODEFAULT
