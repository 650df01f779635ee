"""The person who approves: a client of the control API with an approver's key.

Rules
1. It sees and decides only through the control port; the gateway port is the agents'.
2. What it is shown is the gateway's own summary of the action, never the agent's words.
"""

import json
from typing import Any

from msgspec import Struct

from sidecar.demo.wire import Answer, send
from sidecar.errors import SidecarError


class Held(Struct, frozen=True, kw_only=True):
    """A call that waits for approval, as the approver sees it."""

    approval_id: str
    tool: str
    summary: str
    requester: str
    shown_digest: str


class Approver:
    """Talks to the control API at ``url`` with ``key``."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key

    def pending(self) -> list[Held]:
        """Requests that wait for a decision. Raises SidecarError when the API says no."""
        answer = send("GET", f"{self._url}/v1/approvals?status=pending", key=self._key)
        if answer.status != 200:
            raise SidecarError(
                f"the control API lists no approvals: {answer.value}", where=self._url
            )
        return [_held(row) for row in answer.value["approvals"]]

    def approve(self, held: Held, reason: str) -> None:
        """Approve. Raises SidecarError when the API says no."""
        answer = self.try_to_approve(held, reason, key=self._key)
        if answer.status != 200:
            raise SidecarError(f"the control API approved nothing: {answer.value}", where=self._url)

    def try_to_approve(self, held: Held, reason: str, *, key: str) -> Answer:
        """Approve with any key, and see what the control API answers."""
        body = json.dumps({"reason": reason, "shown_digest": held.shown_digest}).encode()
        url = f"{self._url}/v1/approvals/{held.approval_id}/approve"
        return send("POST", url, key=key, body=body)


def _held(row: dict[str, Any]) -> Held:
    return Held(
        approval_id=row["approval_id"],
        tool=row["tool"],
        summary=row["summary"],
        requester=row["requester"],
        shown_digest=row["shown_digest"],
    )
