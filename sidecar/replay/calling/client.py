"""Tools for an agent that is handed them: each call by name, through the gateway.

Rules
1. A call is ``POST /v1/actions``: policy, limits, approvals, keys and receipts are the gateway's,
   as for an agent that calls by itself.
2. A call that waits for an approval is presented again with the token, once there is one; else the
   agent is told what the gateway says.
3. A call without a key is a call of its own: it gets the key that its number in the run makes.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from sidecar.twins.reply import Reply

_BYTES_MAX = 8 * 1024**2
_SECONDS = 60.0


class ToolCaller:
    """``call(tool, arguments, key="")``, as a callable agent is handed it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._base = environment["SIDECAR_GATEWAY_URL"]
        self._headers = {
            "Authorization": f"Bearer {environment['SIDECAR_AGENT_KEY']}",
            "Content-Type": "application/json",
            "traceparent": environment["TRACEPARENT"],
        }
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._number = 0

    def __call__(self, tool: str, arguments: dict[str, Any], key: str = "") -> Reply:
        """The tool's answer, or the gateway's refusal (a problem with ``code``)."""
        self._number += 1
        value = {
            "tool": tool,
            "arguments": arguments,
            "idempotency_key": key or f"call-{self._number}",
        }
        body = json.dumps(value).encode()
        reply = self._asked("POST", "/v1/actions", body)
        if reply.status != 403 or _said(reply, "code") != "approval_required":
            return reply
        approval = reply.value["approval"]
        found = self._asked("GET", f"/v1/approvals/{approval['id']}", None)
        token = _said(found, "token")
        if not isinstance(token, str):
            return reply
        return self._asked("POST", "/v1/actions", body, {"Approval-Token": token})

    def _asked(
        self, method: str, path: str, body: bytes | None, more: Mapping[str, str] | None = None
    ) -> Reply:
        request = urllib.request.Request(  # noqa: S310 (the gateway that we were told of)
            self._base + path, data=body, method=method, headers={**self._headers, **(more or {})}
        )
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return _reply(answer.status, answer.headers.items(), answer.read(_BYTES_MAX))
        except urllib.error.HTTPError as error:
            return _reply(error.code, error.headers.items(), error.read(_BYTES_MAX))
        except (OSError, ValueError):
            return Reply(status=None, failure="dropped")


def _reply(status: int, headers: Any, body: bytes) -> Reply:
    pairs = tuple((str(name).lower(), str(value)) for name, value in headers)
    kind = dict(pairs).get("content-type", "").partition(";")[0]
    if kind.endswith("json"):
        try:
            return Reply(status=status, value=json.loads(body), has_body=True, headers=pairs)
        except (ValueError, RecursionError):
            pass  # what says that it is JSON and is not, is told as the text it is
    text = body.decode("utf-8", "replace")
    return Reply(
        status=status, value=text if body else None, has_body=bool(body), headers=pairs, raw=body
    )


def _said(reply: Reply, name: str) -> Any:
    return reply.value.get(name) if isinstance(reply.value, dict) else None
