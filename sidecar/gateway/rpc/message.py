"""One JSON-RPC message, read so that no two readers can take it apart differently.

**Rules**
1. A body is one message: a batch, a response and a message with a member of another name (or
   another case of a name) are refused.
2. What the body says is what is meant; a header only has to agree with it (``agreement``).
3. The arguments of a call are kept as the bytes they came as.

Source: JSON-RPC 2.0; Model Context Protocol 2025-06-18, 2025-11-25 and 2026-07-28.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from sidecar.gateway.strict import NotStrict, read_json

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
DENIED: Final = -32001
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION: Final = -32042

_MEMBERS = frozenset({"jsonrpc", "id", "method", "params"})
_ID_CHARS_MAX = 256
_NAME_CHARS_MAX = 128

Id = int | str


class Message(Struct, frozen=True, kw_only=True):
    """A request, or a notification where ``id`` is None. ``arguments`` are the raw bytes."""

    id: Id | None
    method: str
    params: dict[str, Any]
    arguments: bytes | None = None

    @property
    def meta(self) -> Mapping[str, Any]:
        """The ``_meta`` of its parameters."""
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}


class RpcRefused(Exception):
    """A message that gets an error. ``status`` is the HTTP status it has in every version."""

    def __init__(
        self, code: int, message: str, *, status: int = 200, data: dict[str, Any] | None = None
    ) -> None:
        self.code = code
        self.message = message
        self.status = status
        self.data = data
        super().__init__(message)


class _Params(Struct, frozen=True):
    arguments: msgspec.Raw = msgspec.Raw(b"")


class _Envelope(Struct, frozen=True):
    params: _Params = _Params()


def read_message(body: bytes) -> Message:
    """The one message of a body. Raises RpcRefused."""
    try:
        value = read_json(body)
    except NotStrict as error:
        raise RpcRefused(PARSE_ERROR, f"not strict JSON: {error}", status=400) from error
    if not isinstance(value, dict):
        what = "a batch is not taken: one body is one message"
        raise RpcRefused(INVALID_REQUEST, what, status=400)
    other = sorted(value.keys() - _MEMBERS)
    if other:
        said = f"{other[0][:40]!r} is no member of a request or notification"
        raise RpcRefused(INVALID_REQUEST, said, status=400)
    method, params = value.get("method"), value.get("params", {})
    if value.get("jsonrpc") != "2.0" or not isinstance(method, str) or not isinstance(params, dict):
        raise RpcRefused(INVALID_REQUEST, "this is no JSON-RPC 2.0 request", status=400)
    if not isinstance(params.get("_meta", {}), dict):
        raise RpcRefused(INVALID_REQUEST, "params._meta must be an object", status=400)
    return Message(
        id=_id(value) if "id" in value else None,
        method=method,
        params=params,
        arguments=_arguments(body, params),
    )


def result(identity: Id, raw: bytes) -> bytes:
    """A response with a result given as JSON."""
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (_json(identity), raw)


def error(
    identity: Id | None, code: int, message: str, data: dict[str, Any] | None = None
) -> bytes:
    """A response with an error."""
    said: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        said["data"] = data
    return _json({"jsonrpc": "2.0", "id": identity, "error": said})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """A notification."""
    return _json({"jsonrpc": "2.0", "method": method, "params": dict(params)})


def request(identity: Id, method: str, params: Mapping[str, Any]) -> bytes:
    """A request."""
    return _json({"jsonrpc": "2.0", "id": identity, "method": method, "params": dict(params)})


def call_request(identity: Id, name: str, arguments: bytes, meta: Mapping[str, Any]) -> bytes:
    """A ``tools/call`` whose arguments are these very bytes."""
    return (
        b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%s,"arguments":%s,'
        b'"_meta":%s}}' % (_json(identity), _json(name), arguments, _json(dict(meta)))
    )


def reading_request(identity: Id, method: str, asked: bytes, meta: Mapping[str, Any]) -> bytes:
    """A request whose parameters are the members of this object as they are, with ``_meta``."""
    rest = asked.lstrip()[1:].lstrip()
    comma = b"" if rest.startswith(b"}") else b","
    return b'{"jsonrpc":"2.0","id":%s,"method":%s,"params":{"_meta":%s%s%s}' % (
        *(_json(identity), _json(method), _json(dict(meta)), comma, rest.rstrip()),
    )


def encoded(value: Any) -> bytes:
    """A value as the JSON that messages are made of."""
    return _json(value)


def tool_name(message: Message) -> str:
    """The name of the tool that is called. Raises RpcRefused."""
    name = message.params.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARS_MAX:
        raise RpcRefused(INVALID_PARAMS, "params.name must be the name of a tool", status=400)
    return name


def _id(value: dict[str, Any]) -> Id:
    found = value["id"]
    whole = isinstance(found, int) and not isinstance(found, bool)
    if not whole and not (isinstance(found, str) and len(found) <= _ID_CHARS_MAX):
        what = f"id must be a whole number or a text of at most {_ID_CHARS_MAX} characters"
        raise RpcRefused(INVALID_REQUEST, what, status=400)
    checked: Id = found
    return checked


def _arguments(body: bytes, params: dict[str, Any]) -> bytes | None:
    if "arguments" not in params:
        return None
    if not isinstance(params["arguments"], dict):
        raise RpcRefused(INVALID_PARAMS, "params.arguments must be an object", status=400)
    return bytes(msgspec.json.decode(body, type=_Envelope).params.arguments)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
