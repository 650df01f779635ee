"""One MCP message in its HTTP request, and the answers it gets.

**Rules**
1. A header that decides something stands once, or the request is refused.
2. No answer is kept by anybody on the way.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from msgspec import Struct

from processors.model.principal import Principal
from sidecar.gateway.content import OWS, Headers
from sidecar.gateway.driver import Gateway
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.rpc import message
from sidecar.gateway.rpc.message import Message
from sidecar.gateway.stream.http import AgentStream

OpenStream = Callable[[], AgentStream]
Known = Callable[[], Awaitable[Principal]]
"""Authenticates the caller once more. Raises Refused."""


class Asked(Struct, frozen=True, kw_only=True):
    """One HTTP request, framed and authenticated."""

    method: str
    headers: Headers
    body: bytes
    principal: Principal
    open_stream: OpenStream
    known: Known
    client_ip: str | None = None

    def one(self, name: str) -> str | None:
        """A header's value. Raises Refused where it stands twice."""
        found = [value.strip(OWS) for key, value in self.headers if key.lower() == name]
        if len(found) > 1:
            raise Refused(400, "header_repeated", f"the header {name} stands twice; send it once")
        return found[0] if found else None


class Talk(Struct, frozen=True, kw_only=True):
    """One message in its place."""

    gateway: Gateway
    server: str
    asked: Asked
    said: Message
    version: str

    @property
    def registered(self) -> list[RegisteredTool]:
        """What is registered of the server, in configuration's order."""
        known = self.gateway.registry.tools.values()
        return [tool for tool in known if tool.config.upstream == self.server]

    def result(self, value: dict[str, Any]) -> web.Response:
        """The answer with a result."""
        assert self.said.id is not None
        return json_answer(message.result(self.said.id, json.dumps(value).encode()), 200)


def json_answer(body: bytes, status: int) -> web.Response:
    """One message as the whole answer."""
    answer = web.Response(status=status, body=body, content_type="application/json")
    answer.headers["Cache-Control"] = "no-store"
    return answer
