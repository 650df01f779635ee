"""``POST /v1/actions``: a tool by its name, with arguments, as the request it stands for.

**Rules**
1. The document is strict JSON with ``tool``, ``arguments`` and ``idempotency_key``, and no more.
2. An argument of the tool's path is put there encoded for its place; one that could be read as more
   than a segment is refused. The others are the JSON body, or the query where the method has none.
3. Where no argument is of the path, the body is the bytes of ``arguments`` as they came.
4. What comes of it goes the way of every other request: nothing is judged here.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from sidecar.canonical import NotCanonical, canonical
from sidecar.gateway.action import ToolRequest
from sidecar.gateway.content import Headers
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import RegisteredTool, Registry, parameter
from sidecar.gateway.strict import NotStrict, read_json
from sidecar.gateway.target import escape, write_pairs

_MEMBERS = frozenset({"tool", "arguments", "idempotency_key"})
_BODILESS = frozenset({"GET", "HEAD", "DELETE"})


class _Raw(Struct, frozen=True):
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


def explicit_request(body: bytes, headers: Headers, registry: Registry) -> ToolRequest:
    """The request that a document stands for. Raises Refused 400 or 404."""
    said = _read(body)
    tool = registry.tools.get(said["tool"])
    if tool is None:
        raise Refused(404, "no_such_tool", f"no tool is registered as {said['tool'][:80]!r}")
    arguments: dict[str, Any] = said.get("arguments", {})
    path, rest = _path(tool, arguments)
    query, content = _carried(tool, rest, body, whole=len(rest) == len(arguments))
    return ToolRequest(
        upstream=tool.config.upstream,
        method=tool.config.match.method,
        raw_path=path + query,
        headers=_headers(tool, headers, said.get("idempotency_key"), content),
        body=content,
    )


def _read(body: bytes) -> dict[str, Any]:
    try:
        said = read_json(body)
    except NotStrict as error:
        raise Refused(400, "json_malformed", f"the body is not strict JSON: {error}") from error
    if not isinstance(said, dict) or not isinstance(said.get("tool"), str):
        raise _malformed("send {tool, arguments, idempotency_key}")
    if other := sorted(said.keys() - _MEMBERS):
        raise _malformed(f"{other[0][:40]!r} is no member of an action")
    if not isinstance(said.get("arguments", {}), dict):
        raise _malformed("arguments must be an object")
    if not isinstance(said.get("idempotency_key", ""), str):
        raise _malformed("idempotency_key must be text")
    return said


def _path(tool: RegisteredTool, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The raw path, and the arguments that are not in it."""
    rest = dict(arguments)
    segments = []
    for segment in tool.template:
        name = parameter(segment)
        if name is None:
            segments.append(escape(segment))
            continue
        if name not in rest:
            raise _malformed(f"the argument {name!r} is missing: it is part of the path")
        segments.append(escape(_segment(name, rest.pop(name))))
    return "/" + "/".join(segments), rest


def _segment(name: str, value: Any) -> str:
    text = _text(name, value)
    if text in ("", ".", "..") or any(char in "/\\?#%;" or ord(char) < 0x20 for char in text):
        raise _malformed(f"the argument {name!r} cannot be a segment of the path")
    return text


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _malformed(f"the argument {name!r} must be text or a whole number")
    return str(value)


def _carried(
    tool: RegisteredTool, rest: Mapping[str, Any], body: bytes, *, whole: bool
) -> tuple[str, bytes]:
    if tool.config.match.method in _BODILESS:
        pairs = tuple(
            (name, _text(name, each))
            for name, value in rest.items()
            for each in (value if isinstance(value, list) else [value])
        )
        return (f"?{write_pairs(pairs)}" if pairs else ""), b""
    if whole:
        return "", bytes(msgspec.json.decode(body, type=_Raw).arguments)
    try:
        return "", canonical(dict(rest))
    except NotCanonical as error:
        raise _malformed(f"the arguments have no canonical form: {error}") from error


def _headers(tool: RegisteredTool, headers: Headers, key: str | None, content: bytes) -> Headers:
    field = tool.config.idempotency.header.lower()
    dropped = {"content-type", "content-length"}
    if key is not None:
        dropped |= {field, "idempotency-key"}
        if any(name.lower() in (field, "idempotency-key") for name, _ in headers):
            raise _malformed("the key stands in the head and in the body")
    kept = [pair for pair in headers if pair[0].lower() not in dropped]
    if content:
        kept.append(("content-type", "application/json"))
    if key is not None:
        quoted = key.replace("\\", "\\\\").replace('"', '\\"')
        kept.append((field, f'"{quoted}"'))
    return tuple(kept)


def _malformed(why: str) -> Refused:
    return Refused(400, "action_malformed", why, next_action="request")
