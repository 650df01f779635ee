"""What a webhook is told of approvals, and the signature that proves whose word it is.

**Rules**
1. A message says what happened to which request, and where a person can decide it. It holds nothing
   that was asked (no summary, no arguments), no reason a person gave, and nothing that opens
   anything: a token is told to the asking agent alone.
2. It is one entry of the audit chain: its id is made from the entry's hash, the same at every
   attempt, so that whoever gets it twice knows; ``seq`` is its place, in order.
3. Signed over id, time of the attempt and exact body, with every secret of the file, so that
   secrets can be changed without a gap.

Source: Standard Webhooks 1.0.0 (webhook-id, webhook-timestamp, webhook-signature ``v1``).
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from processors.model.call import Approval
from sidecar.gateway.webhook import Event
from sidecar.store.ledger import AuditEntry

EVENTS: dict[str, Event] = {
    "approval_requested": "requested",
    "approval_vote": "vote",
    "approval_resolved": "resolved",
}
LOUD = {
    "glass_opened": "break_glass_opened",
    "glass_broken": "break_glass_broken",
    "glass_reviewed": "break_glass_reviewed",
}
"""Kinds that every webhook is told of, whatever events it asks for."""
"""Kinds of the audit chain that are told, and what they are called."""
_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)
_SECRETS_MAX = 4


def body(entry: AuditEntry, approval: Approval, page: str | None) -> bytes:
    """The message about an entry, as JSON."""
    facts = json.loads(entry.body)
    told: dict[str, Any] = {
        "seq": entry.seq,
        "approval_id": approval.approval_id,
        "project": entry.project,
        "tool": approval.tool,
        "requester": approval.requester,
        "action_hash": approval.action_hash,
        "shown_digest": approval.shown_digest,
        "approvers_min": approval.approvers_min,
        "expires_at": _instant(approval.expires_at_ns),
        "decide_by": _instant(approval.decide_by_ns),
        "execute_by": _instant(approval.execute_by_ns),
        "status": facts.get("status", "pending"),
    }
    if entry.kind == "approval_vote":
        told |= {"decision": facts["decision"], "voter": facts["voter"]}
    if entry.kind in LOUD:
        told |= {"by": facts["by"], "glass_digest": facts["digest"], "status": approval.status}
    if page is not None:
        told["page"] = page
    message = {
        "type": f"approval.{LOUD.get(entry.kind) or EVENTS[entry.kind]}",
        "timestamp": _instant(entry.at_ns),
        "data": told,
    }
    return json.dumps(message, ensure_ascii=False).encode()


def about(entry: AuditEntry) -> str:
    """Which request an entry is about."""
    found: str = json.loads(entry.body)["approval_id"]
    return found


def message_id(entry: AuditEntry) -> str:
    """What a receiver knows a message by."""
    return f"msg_{entry.hash.removeprefix('sha256:')[:32]}"


def headers(
    secrets: Sequence[bytes], id_: str, at_s: int, content: bytes
) -> tuple[tuple[str, str], ...]:
    """The headers of one attempt."""
    signed = f"{id_}.{at_s}.".encode() + content
    marks = (
        base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode() for secret in secrets
    )
    return (
        ("content-type", "application/json"),
        ("webhook-id", id_),
        ("webhook-timestamp", str(at_s)),
        ("webhook-signature", " ".join(f"v1,{mark}" for mark in marks)),
    )


def read_secrets(text: str) -> tuple[bytes, ...]:
    """The secrets of a file, one a line, the newest first: ``whsec_`` and base64 of 24 to 64 bytes.
    Raises ValueError, which repeats nothing of them."""
    lines = text.split()
    if not 1 <= len(lines) <= _SECRETS_MAX:
        raise ValueError(f"holds no 1 to {_SECRETS_MAX} secrets, one a line")
    return tuple(_secret(line) for line in lines)


def is_retryable(status: int) -> bool:
    """Whether a refused message may be taken later."""
    return status >= 500 or status in (408, 425, 429)


def _secret(line: str) -> bytes:
    try:
        if not line.startswith(_PREFIX):
            raise ValueError
        secret = base64.b64decode(line.removeprefix(_PREFIX), validate=True)
        if len(secret) not in _SECRET_BYTES:
            raise ValueError
    except (binascii.Error, ValueError):
        raise ValueError("a secret is whsec_ and base64 of 24 to 64 bytes") from None
    return secret


def _instant(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
