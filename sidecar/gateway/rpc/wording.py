"""How the gateway's own answers are told to an MCP client: problems as errors, approvals as a visit
to a page.

**Rules**
1. ``data.code`` is the code that HTTP callers get; -32001 is a refusal of this call, -32602 the
   caller's fault, -32603 a failure to decide or to reach the tool.
2. A person approves on a page that asks who they are. The client is only asked to lead there: its
   own answer decides nothing.
3. A refusal that no other wording helps says so.
4. A server's error does not pass for a refusal of ours, and leads nobody to a page: what it adds
   stands under ``data.server`` where it could.
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sidecar.gateway.problem import MEDIA_TYPE
from sidecar.gateway.request import ToolReply
from sidecar.gateway.rpc.message import (
    DENIED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    URL_ELICITATION,
)

_OURS = frozenset({DENIED, URL_ELICITATION})
_SAID_BY_US = frozenset(
    {
        *("code", "reasons", "decision_id", "next_action", "retry_after", "approval", "receipt_id"),
        *("hint", "url", "idempotency_key", "elicitations", "withheld", "server"),
    }
)
_FAULTS_OF_CALLER = frozenset({400, 404, 413, 415, 422})
_KEPT = ("code", "reasons", "decision_id", "next_action", "retry_after", "approval")
_NEVER = "no other wording or key will change this: do not retry"


class Failure(Struct, frozen=True, kw_only=True):
    """An error for a client. ``approval`` is the id of the request a person may grant."""

    code: int
    message: str
    data: dict[str, Any]

    @property
    def awaits(self) -> dict[str, Any] | None:
        """The approval that is waited for, if that is all that stands in the way."""
        found = self.data.get("approval")
        waits = self.data.get("code") == "approval_required"
        return found if waits and isinstance(found, dict) else None


def failure(reply: ToolReply) -> Failure | None:
    """The error that a reply of the gateway is; None where it is the tool's answer."""
    headers = dict(reply.headers)
    if headers.get("content-type") != MEDIA_TYPE:
        return None
    document = json.loads(reply.body)
    data = {key: document[key] for key in _KEPT if document.get(key) not in (None, "")}
    if receipt := headers.get("gateway-receipt"):
        data["receipt_id"] = receipt
    if document["next_action"] == "none":
        data["hint"] = _NEVER
    return Failure(code=_code(reply.status), message=document["detail"], data=data)


def kept_answer(reply: ToolReply) -> tuple[bytes | None, dict[str, Any] | None]:
    """The result of a tool's answer as raw JSON, or the error it answered with."""
    if reply.body.startswith(_RESULT):
        return reply.body[len(_RESULT) : -1], None
    found = json.loads(reply.body).get("error")
    return None, found if isinstance(found, dict) else {}


def of_server(error: Mapping[str, Any]) -> Failure:
    """The error that a server answered with, as its client is told."""
    code, text = error.get("code"), error.get("message")
    data = error.get("data", {})
    lure = not isinstance(code, int) or isinstance(code, bool) or code in _OURS
    if lure or not isinstance(data, dict) or _SAID_BY_US & data.keys():
        data = {"server": data}
    return Failure(
        code=INTERNAL_ERROR if lure or not isinstance(code, int) else code,
        message=text if isinstance(text, str) else "",
        data=data,
    )


def visit(url: str, approval: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the elicitation that leads a person to the page."""
    text = f"A person has to approve this call before {approval['expires_at']}. Open the page:"
    return {"mode": "url", "url": url, "message": text}


_RESULT = b'{"result":'


def _code(status: int) -> int:
    if status in _FAULTS_OF_CALLER:
        return INVALID_PARAMS
    return INTERNAL_ERROR if status >= 500 else DENIED
