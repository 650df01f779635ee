"""A callable ``f(request, call)`` in this process whose calls go through the gateway of a replay.

Rules
1. A call is the request that the twin's tool is matched by: path, query or JSON body, and the key
   in the tool's header. What comes back is told as it is.
2. A call that waits for an approval asks once whether it is decided; the scripted approver has.
3. An agent may make so many calls in an episode and no more: it cannot be stopped otherwise.
"""

import http.client
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from sidecar.gateway.config import Idempotency
from sidecar.replay.environment import Addresses, Identity
from sidecar.twins.declaration import Tool
from sidecar.twins.episode import Reply
from sidecar.twins.group import TwinGroup

CALLS_MAX: Final = 200
TIMEOUT_SECONDS: Final = 40.0
_PARAMETER: Final = re.compile(r"\{([^}]+)\}")


class TooManyCalls(RuntimeError):
    """The agent called more often than an episode allows."""


class GatewayCalls:
    """The tools of one episode: ``calls(tool, arguments, key="")``."""

    def __init__(self, group: TwinGroup, at: Addresses, who: Identity) -> None:
        self._group = group
        self._at = at
        self._headers = {
            "Authorization": f"Bearer {who.token}",
            "Accept": "application/json",
            "traceparent": f"00-{who.trace_id}-{who.span_id}-01",
        }
        self._made = 0

    def __call__(self, tool: str, arguments: dict[str, Any], key: str = "") -> Reply:
        """The answer to a call; status None where none came. Raises TooManyCalls."""
        self._made += 1
        if self._made > CALLS_MAX:
            raise TooManyCalls(f"more than {CALLS_MAX} calls")
        twin = self._group.owner(tool)
        if twin is None:
            return Reply(status=404, value={"error": f"there is no tool {tool}"}, has_body=True)
        declared = twin.tools[tool].declared
        upstream = declared.upstream or twin.declaration.upstream or twin.name
        method, path, body = _request(declared, arguments)
        headers = dict(self._headers)
        if key:
            headers[_header(declared)] = key
        reply = self._sent(method, f"/{upstream}{path}", headers, body)
        approval = _waits(reply)
        if approval is None:
            return reply
        token = self._token(approval)
        if token is None:
            return reply
        headers["Approval-Token"] = token
        return self._sent(method, f"/{upstream}{path}", headers, body)

    def _token(self, approval: str) -> str | None:
        told = self._sent("GET", f"/v1/approvals/{quote(approval, safe='')}", self._headers, None)
        value = told.value if told.status == 200 and isinstance(told.value, dict) else {}
        return str(value["token"]) if value.get("status") == "approved" else None

    def _sent(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        connection = http.client.HTTPConnection(
            self._at.host, self._at.gateway_port, timeout=TIMEOUT_SECONDS
        )
        try:
            more = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, body=body, headers={**headers, **more})
            answer = connection.getresponse()
            return _reply(answer.status, answer.getheaders(), answer.read())
        except (OSError, http.client.HTTPException):
            return Reply(status=None, failure="dropped")
        finally:
            connection.close()


def _request(declared: Tool, arguments: dict[str, Any]) -> tuple[str, str, bytes | None]:
    """Method, path with its query, and body of a call."""
    match = declared.match
    inside = set(_PARAMETER.findall(match.path))
    path = _PARAMETER.sub(lambda one: quote(str(arguments.get(one[1], "")), safe=""), match.path)
    rest = {name: value for name, value in arguments.items() if name not in inside}
    if match.method in ("GET", "DELETE", "HEAD"):
        return match.method, f"{path}?{urlencode(rest)}" if rest else path, None
    return match.method, path, json.dumps(rest).encode()


def _header(declared: Tool) -> str:
    said = declared.idempotency
    return said.header if isinstance(said, Idempotency) else Idempotency().header


def _reply(status: int, headers: list[tuple[str, str]], body: bytes) -> Reply:
    try:
        value: Any = json.loads(body) if body else None
    except ValueError:
        value = body.decode("utf-8", "replace")
    return Reply(status=status, value=value, has_body=bool(body), headers=tuple(headers))


def _waits(reply: Reply) -> str | None:
    """The approval that a call waits for."""
    value = reply.value
    if not isinstance(value, dict) or value.get("code") != "approval_required":
        return None
    approval = value.get("approval")
    return str(approval["id"]) if isinstance(approval, dict) and approval.get("id") else None
