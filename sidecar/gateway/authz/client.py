"""The messages of Envoy's ``envoy.service.auth.v3`` as far as they are read and written here.

The package with all of Envoy's messages (xds-protos) replaces a module of the CEL engine, so they
are described here, in a pool of their own (docs/adr). Fields that are not named are not looked at.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from sidecar.gateway.authz.check import Checked

SERVICE = "envoy.service.auth.v3.Authorization"
_PACKAGE = "sidecar.authz"
_Type = descriptor_pb2.FieldDescriptorProto
_TEXT, _BYTES, _WHOLE = _Type.TYPE_STRING, _Type.TYPE_BYTES, _Type.TYPE_INT32
_MESSAGES: dict[str, dict[str, tuple[int, int | str]]] = {
    "CheckRequest": {"attributes": (1, "Attributes")},
    "Attributes": {"request": (4, "Request"), "context_extensions": (10, "map")},
    "Request": {"http": (2, "Http")},
    "Http": {
        "method": (2, _TEXT), "headers": (3, "map"), "path": (4, _TEXT), "host": (5, _TEXT),
        "scheme": (6, _TEXT), "query": (7, _TEXT), "body": (11, _TEXT), "raw_body": (12, _BYTES),
    },
    "CheckResponse": {
        "status": (1, "Status"), "denied_response": (2, "Denied"), "ok_response": (3, "Allowed"),
    },
    "Status": {"code": (1, _WHOLE), "message": (2, _TEXT)},
    "Denied": {"status": (1, "HttpStatus"), "headers": (2, "*Option"), "body": (3, _TEXT)},
    "HttpStatus": {"code": (1, _WHOLE)},
    "Allowed": {"headers": (2, "*Option"), "headers_to_remove": (5, "*text")},
    "Option": {"header": (1, "Header"), "append_action": (3, _WHOLE)},
    "Header": {"key": (1, _TEXT), "value": (2, _TEXT)},
}  # fmt: skip
_OK, _PERMISSION_DENIED = 0, 7
_OVERWRITE = 2  # OVERWRITE_IF_EXISTS_OR_ADD


class Unreadable(ValueError):
    """The bytes are no CheckRequest."""


def read_check(data: bytes) -> Checked:
    """The request that Envoy asks about. Raises Unreadable."""
    try:
        http = _class("CheckRequest").FromString(data)
    except DecodeError as error:
        raise Unreadable("the message is no CheckRequest") from error
    extensions = dict(http.attributes.context_extensions)
    asked = http.attributes.request.http
    return Checked(
        method=asked.method,
        scheme=asked.scheme,
        host=asked.host,
        path=asked.path,
        headers=dict(asked.headers),
        body=bytes(asked.raw_body) or asked.body.encode(),
        extensions=extensions,
    )


def allowed(headers: Mapping[str, str], remove: tuple[str, ...]) -> bytes:
    """The answer that lets a request through, with headers for the upstream."""
    answer = _class("CheckResponse")()
    answer.status.code = _OK
    for key, value in headers.items():
        _add(answer.ok_response.headers, key, value)
    answer.ok_response.headers_to_remove.extend(remove)
    encoded: bytes = answer.SerializeToString(deterministic=True)
    return encoded


def refused(status: int, code: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """The answer that Envoy gives the caller instead."""
    answer = _class("CheckResponse")()
    answer.status.code = _PERMISSION_DENIED
    answer.status.message = code
    answer.denied_response.status.code = status
    for key, value in headers.items():
        _add(answer.denied_response.headers, key, value)
    answer.denied_response.body = body.decode()
    encoded: bytes = answer.SerializeToString(deterministic=True)
    return encoded


def _add(options: Any, key: str, value: str) -> None:
    option = options.add()
    option.header.key, option.header.value = key, value
    option.append_action = _OVERWRITE


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="sidecar/authz.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _describe(message, name, field, number, kind)
    return file


def _describe(
    message: descriptor_pb2.DescriptorProto, name: str, field: str, number: int, kind: int | str
) -> None:
    made = message.field.add(name=field, number=number, label=_Type.LABEL_OPTIONAL)
    if isinstance(kind, int):
        made.type = kind  # type: ignore[assignment]
    elif kind == "*text":
        made.type, made.label = _TEXT, _Type.LABEL_REPEATED
    elif kind == "map":
        entry = "".join(part.capitalize() for part in field.split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        nested.field.add(name="key", number=1, type=_TEXT, label=_Type.LABEL_OPTIONAL)
        nested.field.add(name="value", number=2, type=_TEXT, label=_Type.LABEL_OPTIONAL)
        made.type, made.label = _Type.TYPE_MESSAGE, _Type.LABEL_REPEATED
        made.type_name = f".{_PACKAGE}.{name}.{entry}"
    else:
        made.type = _Type.TYPE_MESSAGE
        made.label = _Type.LABEL_REPEATED if kind.startswith("*") else _Type.LABEL_OPTIONAL
        made.type_name = f".{_PACKAGE}.{kind.removeprefix('*')}"


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
