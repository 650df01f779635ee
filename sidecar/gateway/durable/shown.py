"""How a call stands, for the agent whose it is."""

from typing import Any

from sidecar.gateway.approval import as_reply, instant
from sidecar.gateway.request import ToolReply
from sidecar.store.durable import DurableCall
from sidecar.store.ledger import CallRow

ACCEPTED = 202


def status_document(call: DurableCall) -> dict[str, Any]:
    """State, attempts, why it was last not done, and when it is tried next."""
    shown: dict[str, Any] = {
        "id": call.durable_id,
        "tool": call.tool,
        "state": call.state,
        "attempts": call.attempts,
        "code": call.code,
        "accepted_at": instant(call.created_at_ns),
    }
    if call.state == "waiting":
        shown["next_attempt_at"] = instant(call.due_at_ns)
        shown["given_up_at"] = instant(call.ends_at_ns)
    return {"call": shown}


def call_document(call: CallRow) -> dict[str, Any]:
    """The same of a call that was made at once: its claim's state and what is known of its effect.
    The answer itself is given to who asks for the call again, with its key."""
    shown = {
        "id": call.call_id,
        "tool": call.tool,
        "state": call.state or call.phase,
        "effect": call.effect,
        "code": call.code,
        "started_at": instant(call.started_at_ns),
    }
    return {"call": shown}


def accepted(call: DurableCall, receipt_id: str) -> ToolReply:
    """202: it is sure to be tried; where to ask how it stands, and the receipt of that."""
    reply = as_reply(status_document(call))
    where = (
        ("location", f"/v1/calls/{call.durable_id}"),
        ("preference-applied", "respond-async"),
        ("gateway-receipt", receipt_id),
    )
    told = tuple(pair for pair in where if pair[1])
    return ToolReply(status=ACCEPTED, headers=(*reply.headers, *told), body=reply.body)
