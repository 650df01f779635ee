"""MCP messages a resource is read with: JSON-RPC out, answers in, both eras of the protocol.

Rules
1. From 2026-07-28 on a request stands for itself; before, a session is opened by ``initialize``.
2. An answer is JSON, or the events of a stream of which one is the answer; what else comes is
   not looked at.
3. An answer that is not for our request is no answer.

Source: Model Context Protocol, "Transports" (streamable HTTP), 2025-11-25 and 2026-07-28.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from sidecar.probe.extent import TooMuch, check_marks, read_json

MODERN: Final = "2026-07-28"
SESSION: Final = "2025-11-25"
LINES_MAX: Final = 20_000
"""Of a stream of events."""
_INFO: Final = {"name": "agenttwin-sidecar", "version": "1"}


class NotAnswered(ValueError):
    """The body holds no answer to the request; the message is a code."""


class RpcFailed(Exception):
    """The server answered with an error."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(str(code))


def read_request(identity: int, uri: str, *, modern: bool) -> bytes:
    """The request for a resource."""
    params: dict[str, Any] = {"uri": uri}
    if modern:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": _INFO,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    return _rpc({"id": identity, "method": "resources/read", "params": params})


def modern_headers(uri: str) -> tuple[tuple[str, str], ...]:
    """What a request that stands for itself says in its head too."""
    return (
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "resources/read"),
        ("mcp-name", uri),
    )


def initialize_request(identity: int) -> bytes:
    """The request that opens a session."""
    params = {"protocolVersion": SESSION, "capabilities": {}, "clientInfo": _INFO}
    return _rpc({"id": identity, "method": "initialize", "params": params})


def initialized_notice() -> bytes:
    """What follows it."""
    return _rpc({"method": "notifications/initialized"})


def read_answer(body: bytes, content_type: str, identity: int) -> Mapping[str, Any]:
    """The result of a request. Raises NotAnswered, RpcFailed or TooMuch."""
    for message in _messages(body, content_type):
        if not isinstance(message, Mapping) or message.get("id") != identity:
            continue
        error, result = message.get("error"), message.get("result")
        if isinstance(error, Mapping):
            code = error.get("code")
            raise RpcFailed(code if isinstance(code, int) else 0)
        if isinstance(result, Mapping):
            return result
    raise NotAnswered("no_whole_answer")


def resource_of(result: Mapping[str, Any], status: int) -> dict[str, Any]:
    """A read resource as an expression sees it: its first text, JSON where it is that.

    Raises TooMuch.
    """
    contents = result.get("contents")
    first = contents[0] if isinstance(contents, list) and contents else {}
    text = first.get("text") if isinstance(first, Mapping) else None
    if not isinstance(text, str):
        return {"status": status, "headers": {}, "json": None, "text": ""}
    return {"status": status, "headers": {}, "json": read_json(text), "text": text}


def _rpc(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def _messages(body: bytes, content_type: str) -> list[Any]:
    text = body.decode("utf-8", "replace")
    if content_type.partition(";")[0].strip().lower() != "text/event-stream":
        return [read_json(text)]
    check_marks(text)
    if text.count("\n") + text.count("\r") > LINES_MAX:
        raise TooMuch
    found = []
    for event in text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line.partition(":") for line in event.split("\n")]
        data = "\n".join(value.removeprefix(" ") for name, _, value in lines if name == "data")
        if data:
            found.append(read_json(data))
    return found
