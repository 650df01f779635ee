"""Twins as one MCP server over streamable HTTP, 2025-06-18, 2025-11-25 and 2026-07-28.

Rules
1. One body is one message; what it says decides, headers only have to agree with it.
2. A call goes through the twin's one pipeline, faults included: an answer of 400 or more is a
   result with ``isError``, what a fault does to the wire it does to the message.
3. A gap, or a fault of the twin's own, is an error of the protocol and never a tool's result: the
   episode is void.
4. Nothing is kept of a client: its token names its episode, and there is no session.
5. Browsers are not spoken to: a request with an Origin is refused.

Source: Model Context Protocol, "Streamable HTTP" and "Tools".
"""

import json
from typing import Any, Final

from msgspec import structs

from sidecar.gateway.content import OWS, Headers
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import parameter
from sidecar.gateway.rpc import head, message
from sidecar.gateway.rpc.listing import TTL_MS
from sidecar.gateway.rpc.mcp import KEY_META
from sidecar.gateway.rpc.message import Message, RpcRefused
from sidecar.twins.declaration import Tool
from sidecar.twins.reply import Call, Reply
from sidecar.twins.serving.driver import Full, Hall, Outcome, Seat

PATH: Final = "/mcp"
_INFO: Final = {"name": "agenttwin-twins", "version": "1"}
_CALL_MEMBERS: Final = frozenset({"name", "arguments", "_meta"})


class TwinMcp:
    """Answers MCP messages for one Hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._tools: dict[str, Tool] = {
            tool.name: tool for twin in hall.group.twins.values() for tool in twin.declaration.tools
        }

    def answer(self, seat: Seat, method: str, headers: Headers, body: bytes, call_id: str) -> Reply:
        """The HTTP answer to one request in an episode. Raises Refused where it is no MCP."""
        _check_http(method, headers)
        if method != "POST":
            return Reply(status=405, headers=(("allow", "POST"),))
        identity: message.Id | None = None
        version: str = head.MODERN
        try:
            said = message.read_message(body)
            identity = said.id
            version = head.version_of(headers, said)
            head.check(headers, said, version)
            if said.id is None:
                return Reply(status=202)
            if said.method == "tools/call":
                return self._call(seat, said, headers, version, call_id)
            return _result(said, self._told(said, version))
        except RpcRefused as error:
            told = message.error(identity, error.code, error.message, error.data)
            status = error.status if identity is None or version == head.MODERN else 200
            return _json(told, status)

    def _told(self, said: Message, version: str) -> dict[str, Any]:
        """What is told of the server itself."""
        modern = version == head.MODERN
        if said.method == "tools/list":
            listed = [definition(tool) for _, tool in sorted(self._tools.items())]
            return {
                "resultType": "complete",
                "tools": listed,
                "ttlMs": TTL_MS,
                "cacheScope": "private",
            }
        if said.method == "initialize" and not modern:
            wanted = said.params.get("protocolVersion")
            spoken = wanted if wanted in head.SESSION_VERSIONS else head.SESSION_VERSIONS[-1]
            return {"protocolVersion": spoken, "capabilities": {"tools": {}}, "serverInfo": _INFO}
        if said.method == "ping" and not modern:
            return {}
        if said.method == "server/discover" and modern:
            return {
                "resultType": "complete",
                "supportedVersions": list(head.VERSIONS),
                "capabilities": {"tools": {}},
                "serverInfo": _INFO,
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {head.SERVER_META: _INFO},
            }
        what = f"{said.method[:60]} is not served by twins"
        raise RpcRefused(message.METHOD_NOT_FOUND, what, status=404)

    def _call(
        self, seat: Seat, said: Message, headers: Headers, version: str, call_id: str
    ) -> Reply:
        name = message.tool_name(said)
        other = sorted(said.params.keys() - _CALL_MEMBERS)
        if other:
            raise _invalid(f"params.{other[0][:40]} is not taken by twins")
        key = head.carried(headers, said, KEY_META, "idempotency-key") or ""
        tool, arguments = self._tools.get(name), said.params.get("arguments", {})
        try:
            if tool is None:
                detail = f"no twin declares the tool {name!r}"
                self._hall.gap(seat, name, detail)
                raise _gap(message.INVALID_PARAMS, f"twin_gap: {name}: {detail}")
            _check_path(tool, arguments)
            head.check_parameters(headers, definition(tool)["inputSchema"], arguments)
            call = Call(tool=name, arguments=arguments, key=key, call_id=call_id)
            outcome = self._hall.call(seat, call)
        except Full:
            data = {"code": "episode_full"}
            said_full = "the episode takes no more calls"
            raise RpcRefused(message.DENIED, said_full, data=data) from None
        return _told_call(said, outcome, modern=version == head.MODERN)


def definition(tool: Tool) -> dict[str, Any]:
    """A tool as ``tools/list`` shows it."""
    found: dict[str, Any] = {"name": tool.name}
    if tool.description:
        found["description"] = tool.description
    return {
        **found,
        "inputSchema": _schema(tool),
        "annotations": {
            "readOnlyHint": not tool.has_effect,
            "destructiveHint": tool.class_ == "irreversible",
            "idempotentHint": not tool.has_effect,
            "openWorldHint": False,
        },
    }


def _schema(tool: Tool) -> dict[str, Any]:
    """The declared schema, or what the path alone says."""
    if tool.arguments.schema:
        return {"type": "object", **tool.arguments.schema}
    names = _parameters(tool)
    shape: dict[str, Any] = {"type": "object"}
    if names:
        shape |= {"properties": {name: {"type": "string"} for name in names}, "required": names}
    return shape


def _parameters(tool: Tool) -> list[str]:
    parts = tool.match.path[1:].split("/")
    return [name for part in parts if (name := parameter(part)) is not None]


def _check_path(tool: Tool, arguments: dict[str, Any]) -> None:
    """That what stands in the path over HTTP is there, as text."""
    for name in _parameters(tool):
        value = arguments.get(name)
        if not isinstance(value, str) or not value:
            raise _invalid(f"params.arguments.{name} must be a text: it is part of the path")


def _told_call(said: Message, outcome: Outcome, *, modern: bool) -> Reply:
    reply = outcome.reply
    if outcome.void is not None:
        raise _gap(message.INTERNAL_ERROR, outcome.void)
    if reply.status is None:
        return reply
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": reply.body().decode("utf-8", "replace")}],
        "isError": reply.status >= 400,
        "_meta": {"agenttwin/status": reply.status},
    }
    if reply.headers:
        shown = {name.lower(): value for name, value in reply.headers}
        result["_meta"]["agenttwin/headers"] = shown
    if reply.raw is None and isinstance(reply.value, dict):
        result["structuredContent"] = reply.value
    if modern:
        result["resultType"] = "complete"
    whole = _result(said, result)
    if reply.failure == "truncated":
        assert whole.raw is not None
        return structs.replace(whole, raw=whole.raw[: len(whole.raw) // 2], failure="truncated")
    return whole


def _gap(code: int, void: str) -> RpcRefused:
    kind, _, detail = void.partition(": ")
    return RpcRefused(code, void, data={"code": kind, "detail": detail})


def _invalid(what: str) -> RpcRefused:
    return RpcRefused(message.INVALID_PARAMS, what, status=400)


def _result(said: Message, value: dict[str, Any]) -> Reply:
    assert said.id is not None
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return _json(message.result(said.id, encoded), 200)


def _json(body: bytes, status: int) -> Reply:
    told = (("content-type", "application/json"), ("cache-control", "no-store"))
    return Reply(status=status, headers=told, raw=body, has_body=True)


def _check_http(method: str, headers: Headers) -> None:
    found = {name.lower(): value.strip(OWS) for name, value in headers}
    if "origin" in found:
        raise Refused(403, "origin_refused", "pages in browsers are not served here")
    kind = found.get("content-type", "").partition(";")[0].strip().lower()
    if method == "POST" and kind != "application/json":
        raise Refused(415, "media_type", "send one JSON-RPC message as application/json")
