"""What an MCP request says in its head, and whether that agrees with its body.

**Rules**
1. Nothing is decided by a header but the protocol version, and that has to be the body's too.
2. A header that mirrors the body has to say the same, in every version; from 2026-07-28 on it has
   to be there.
3. ``Mcp-Param-*`` mirrors what the tool's reviewed schema marks with ``x-mcp-header``, and nothing
   else.

Source: Model Context Protocol 2026-07-28, "Streamable HTTP"; RFC 9110 §5.6.2.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sidecar.gateway.content import OWS, Headers
from sidecar.gateway.rpc.message import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    UNSUPPORTED_VERSION,
    Message,
    RpcRefused,
)

MODERN: Final = "2026-07-28"
SESSION_VERSIONS: Final = ("2025-06-18", "2025-11-25")
VERSIONS: Final = (*SESSION_VERSIONS, MODERN)
VERSION_META: Final = "io.modelcontextprotocol/protocolVersion"
INFO_META: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_META: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_META: Final = "io.modelcontextprotocol/serverInfo"

VERSION, METHOD, NAME, PARAM = "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-"
_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=\Z")
_PLAIN = re.compile(r"[\x20-\x7e]*\Z")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")


def version_of(headers: Headers, message: Message) -> str:
    """The protocol version a message is in. Raises RpcRefused."""
    for name in (VERSION, METHOD, NAME, "mcp-session-id"):
        if sum(1 for key, _ in headers if key.lower() == name) > 1:
            raise _mismatch(f"the header {name} stands twice")
    said, meant = _one(headers, VERSION), message.meta.get(VERSION_META)
    if meant is not None and meant != said:
        raise _mismatch(f"{VERSION} and the body's {VERSION_META} differ")
    if said == MODERN and meant is None and message.id is not None:
        raise _mismatch(f"the body has no {VERSION_META}")
    if said is None and message.method == "initialize":
        return SESSION_VERSIONS[-1]
    if said not in VERSIONS:
        data = {"supported": list(VERSIONS), "requested": (said or "")[:40]}
        what = f"send {VERSION} with a version this gateway speaks"
        raise RpcRefused(UNSUPPORTED_VERSION, what, status=400, data=data)
    return said


def check(headers: Headers, message: Message, version: str) -> None:
    """That what mirrors the method and the name agrees with them. Raises RpcRefused."""
    wanted: dict[str, str | None] = {METHOD: message.method, NAME: None}
    if (member := _NAMED.get(message.method)) is not None:
        name = message.params.get(member)
        wanted[NAME] = name if isinstance(name, str) else None
    for header, value in wanted.items():
        said = decoded(_one(headers, header))
        absent = _one(headers, header) is None
        if absent and (version != MODERN or value is None or message.id is None):
            continue
        if absent:
            raise _mismatch(f"the header {header} is missing")
        if value is None or said != value:
            raise _mismatch(f"the header {header} and the body differ")


def check_parameters(headers: Headers, schema: Any, arguments: Mapping[str, Any]) -> None:
    """That ``Mcp-Param-*`` agrees with the arguments it mirrors. Raises RpcRefused."""
    mirrored = dict(_mirrored(schema, arguments))
    for name, value in headers:
        lowered = name.lower()
        if lowered.startswith(PARAM):
            if sum(1 for key, _ in headers if key.lower() == lowered) > 1:
                raise _mismatch(f"the header {lowered} stands twice")
            if decoded(value.strip(OWS)) != mirrored.get(lowered):
                raise _mismatch(f"the header {lowered} and the body differ")


def carried(headers: Headers, message: Message, member: str, header: str) -> str | None:
    """What a client says of its call in ``_meta`` or in the head: one text, or None.

    Raises RpcRefused where it is none, or the two differ: what is not read must not seem heeded.
    """
    meant, said = message.meta.get(member), _one(headers, header)
    if sum(1 for key, _ in headers if key.lower() == header) > 1:
        raise _mismatch(f"the header {header} stands twice")
    if meant is not None and not isinstance(meant, str):
        raise RpcRefused(INVALID_PARAMS, f"{member} must be a text", status=400)
    if meant is not None and said is not None and meant != said:
        raise _mismatch(f"the header {header} and the body's {member} differ")
    return said if meant is None else meant


def mirror(message_method: str, name: str, schema: Any, arguments: Mapping[str, Any]) -> Headers:
    """The headers that say again what the body of a modern request says."""
    return (
        (VERSION, MODERN),
        (METHOD, message_method),
        *(((NAME, encoded(name)),) if name else ()),
        *((header, encoded(value)) for header, value in _mirrored(schema, arguments)),
    )


def encoded(value: str) -> str:
    """A value as a header: plain where that is safe, else in base64 between sentinels."""
    if _PLAIN.match(value) and value == value.strip() and not _SENTINEL.match(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decoded(value: str | None) -> str | None:
    """What a header means; None where it is malformed, so that it agrees with nothing."""
    match = _SENTINEL.match(value) if value is not None else None
    if match is None:
        return value
    try:
        data = base64.b64decode(match[1], validate=True)
        text = data.decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return text if base64.b64encode(data).decode() == match[1] else None


def _mirrored(schema: Any, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for key, inner in (properties or {}).items() if isinstance(properties, dict) else ():
        if not isinstance(inner, dict) or not isinstance(arguments, Mapping):
            continue
        value, token = arguments.get(key), inner.get("x-mcp-header")
        if isinstance(token, str) and _TOKEN.match(token) and isinstance(value, str | int):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield PARAM + token.lower(), text
        if isinstance(value, dict):
            yield from _mirrored(inner, value)


def _one(headers: Headers, name: str) -> str | None:
    return next((value.strip(OWS) for key, value in headers if key.lower() == name), None)


def _mismatch(what: str) -> RpcRefused:
    return RpcRefused(HEADER_MISMATCH, what, status=400)
