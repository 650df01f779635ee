"""Receipts: what is known of a call at one point of its life, signed.

**Rules**
1. Two a call with effects: ``authorised`` before anything is sent, ``executed`` after; a lone
   authorisation is a visible gap. One for a read, a refusal or a replay.
2. ``effect`` is ``confirmed`` only after the tool's own success, ``not_executed`` where nothing
   was sent or the tool proved it, else ``unknown``.
3. A receipt holds digests and codes, never content.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from processors.model.call import Decision, Receipt
from sidecar.gateway import signing
from sidecar.store.ledger import OpenedCall, Signer
from sidecar.store.receipts import signed_bytes

NO_DECISION = Decision(decision_id="", effect="deny")


def draft(
    call: OpenedCall,
    decision: Decision | None,
    *,
    receipt_id: str,
    now_ns: int,
    **outcome: Any,
) -> Receipt:
    """An unsigned receipt with what call and decision say, and what the caller says of the outcome:
    its phase, and any field in place of theirs."""
    decided = decision or NO_DECISION
    said: dict[str, Any] = {
        "receipt_id": receipt_id,
        "call_id": call.call_id,
        "phase": "refused",
        "project": call.project,
        "principal": call.principal,
        "principal_kind": call.principal_kind,
        "tool": call.tool,
        "class_": call.class_,
        "action_hash": call.action_hash,
        "decision_id": decided.decision_id,
        "decision_effect": decided.effect,
        "reasons": tuple(reason.code for reason in decided.reasons),
        "policy_revision": decided.policy_revision,
        "effect": "not_executed",
        "status": 0,
        "started_at_ns": call.started_at_ns,
        "finished_at_ns": now_ns,
        "key_hash": call.key_hash,
        "trace_id": call.trace_id,
    }
    return Receipt(**(said | outcome))


def sign(receipt: Receipt, signer: Signer) -> Receipt:
    """The receipt with key id and signature (base64url without padding)."""
    signed = signer.sign(signed_bytes(receipt, kid=signer.kid))
    signature = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
    return msgspec.structs.replace(receipt, kid=signer.kid, signature=signature)


def is_genuine(receipt: Receipt, keys: Mapping[str, bytes]) -> bool:
    """Whether one of the keys (id -> public) signed exactly this receipt."""
    public = keys.get(receipt.kid)
    if public is None:
        return False
    try:
        padding = "=" * (-len(receipt.signature) % 4)
        signature = base64.urlsafe_b64decode(receipt.signature + padding)
    except (binascii.Error, ValueError):
        return False
    return signing.verify(public, signature, signed_bytes(receipt))
