"""How a call is turned down: Refused inside the gateway, problem+json (RFC 9457) on the wire.

**Rules**
1. ``code`` is stable and machine-readable; ``detail`` says what was wrong, where and what to do,
   and never repeats a credential or a stored answer.
2. ``next_action`` tells an agent what may help: ``request`` (ask for approval or send a changed
   request), ``retry`` (the same again, later), ``none`` (nothing).
3. A problem document has the members of interfaces.md and no others.
"""

import json
from http import HTTPStatus
from typing import Any, Literal

from msgspec import Struct

NextAction = Literal["request", "retry", "none"]
MEDIA_TYPE = "application/problem+json"


class Refusal(Struct, frozen=True, kw_only=True):
    """A refusal as data. ``approval`` is the request's state for the agent, where there is one."""

    status: int
    code: str
    detail: str
    next_action: NextAction = "none"
    retry_after: int | None = None
    approval: dict[str, Any] | None = None


class Refused(Exception):
    """A call that is not sent. ``status`` is the HTTP status, ``retry_after`` whole seconds."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        next_action: NextAction = "none",
        retry_after: int | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.next_action: NextAction = next_action
        self.retry_after = retry_after
        super().__init__(f"{status} {code}: {detail}")

    def refusal(self) -> Refusal:
        """The same as data."""
        return Refusal(
            status=self.status,
            code=self.code,
            detail=self.detail,
            next_action=self.next_action,
            retry_after=self.retry_after,
        )


def render(
    refusal: Refusal, *, decision_id: str = "", reasons: tuple[str, ...] = ()
) -> tuple[tuple[tuple[str, str], ...], bytes]:
    """Headers and body of a refusal. ``reasons`` are codes."""
    document: dict[str, Any] = {
        "type": f"urn:agenttwin:problem:{refusal.code}",
        "title": _title(refusal.status),
        "status": refusal.status,
        "code": refusal.code,
        "detail": refusal.detail,
        "decision_id": decision_id,
        "reasons": list(reasons) or [refusal.code],
        "next_action": refusal.next_action,
    }
    headers = [("content-type", MEDIA_TYPE), ("cache-control", "no-store")]
    if refusal.retry_after is not None:
        document["retry_after"] = refusal.retry_after
        headers.append(("retry-after", str(refusal.retry_after)))
    if refusal.approval is not None:
        document["approval"] = refusal.approval
        headers.append(("location", f"/v1/approvals/{refusal.approval['id']}"))
    return tuple(headers), json.dumps(document, ensure_ascii=False).encode()


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"
