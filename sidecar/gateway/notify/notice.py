"""What webhooks are told of a decision, where policy asks for it (the obligation ``notify``).

**Rules**
1. It says who, which tool and what was decided, by code: no arguments, no text that policy made.
2. Its id is made from the decision's, so that whoever gets it twice knows.
"""

import json
from datetime import UTC, datetime

from msgspec import Struct

from processors.model.names import Effect, SideEffectClass


class Notice(Struct, frozen=True, kw_only=True):
    """One decision, as webhooks are told of it. ``codes`` are its reasons'."""

    decision_id: str
    call_id: str
    project: str
    principal: str
    tool: str
    class_: SideEffectClass
    effect: Effect
    codes: tuple[str, ...]
    policy_revision: str
    at_ns: int


def body(notice: Notice) -> bytes:
    """The message, as JSON."""
    at = datetime.fromtimestamp(notice.at_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {
        "decision_id": notice.decision_id,
        "call_id": notice.call_id,
        "project": notice.project,
        "principal": notice.principal,
        "tool": notice.tool,
        "class": notice.class_,
        "effect": notice.effect,
        "codes": list(notice.codes),
        "policy_revision": notice.policy_revision,
    }
    message = {"type": "policy.notice", "timestamp": at, "data": told}
    return json.dumps(message, ensure_ascii=False).encode()


def message_id(notice: Notice) -> str:
    """What a receiver knows the message by."""
    return f"msg_{notice.decision_id}"
