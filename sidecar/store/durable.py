"""Durable calls: what the gateway makes for an agent that does not wait, until it has an end.

**Rules**
1. One row a key. The ledger's claim on the key decides what may be sent; a row only says what is to
   be tried again, and when.
2. A row is worked on by one gateway at a time, under a lease; whoever holds none changes nothing.
3. The request is kept sealed, and only while it may be sent.
"""

from typing import Literal

from msgspec import Struct

from processors.model.call import Receipt
from sidecar.store.ledger import OpenedCall

DurableState = Literal["waiting", "done", "dead", "discarded"]
DISPOSED = {"requeue": "requeued", "discard": "discarded"}


class DurableCall(Struct, frozen=True, kw_only=True):
    """One durable call. ``request`` is opened; None once it is of no use. ``code`` says why it was
    last not done. ``ends_at_ns`` is when it is given up."""

    durable_id: str
    project: str
    principal: str
    tool: str
    key_hash: str
    fingerprint: str
    state: DurableState
    attempts: int
    due_at_ns: int
    ends_at_ns: int
    created_at_ns: int
    updated_at_ns: int
    code: str | None = None
    owner: str | None = None
    lease_until_ns: int = 0
    request: bytes | None = None


class Accepted(Struct, frozen=True, kw_only=True):
    """A durable call to be taken on, and the signed receipt that says so."""

    call: DurableCall
    opened: OpenedCall
    receipt: Receipt


class Lease(Struct, frozen=True, kw_only=True):
    """To work on a row as it was ``seen``."""

    seen: DurableCall
    owner: str
    until_ns: int


class Attempted(Struct, frozen=True, kw_only=True):
    """What came of an attempt under a lease of ``owner``."""

    call: DurableCall
    owner: str
    state: DurableState
    attempts: int
    due_at_ns: int
    code: str | None
    now_ns: int


class Disposal(Struct, frozen=True, kw_only=True):
    """A person's word on a dead letter: try it again from the start, or never again."""

    project: str
    durable_id: str
    action: Literal["requeue", "discard"]
    by: str
    reason: str
    due_at_ns: int
    ends_at_ns: int


class DurableQuery(Struct, frozen=True, kw_only=True):
    """Which durable calls to list, newest first."""

    project: str | None = None
    state: DurableState | None = None
    limit: int = 100


def queued_body(call: DurableCall) -> dict[str, str]:
    """What the chain keeps of a call that was taken on."""
    return {"durable_id": call.durable_id, "key_hash": call.key_hash, "tool": call.tool}


def ended_body(ended: Attempted) -> dict[str, str]:
    """What the chain keeps of an end."""
    return {
        "attempts": str(ended.attempts),
        "code": ended.code or "",
        "durable_id": ended.call.durable_id,
        "state": ended.state,
    }


def disposed_body(disposal: Disposal) -> dict[str, str]:
    """What the chain keeps of a person's word."""
    return {"by": disposal.by, "durable_id": disposal.durable_id, "reason": disposal.reason}
