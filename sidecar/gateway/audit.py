"""Verifying the audit chain: the first entry that is not as it was written, or none.

**Rules**
1. Places run from 1 without a gap; each hash covers the one before; each receipt inside is signed.
2. The end is where the signed head says: a missing last entry is found there, and so is an entry
   after it.
3. What a key signed after the entry of its revocation is not signed.
4. The verifier needs the entries, the head and public keys, nothing else; keys may come from
   outside the store, so that who rewrites the store cannot also choose the key.
"""

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct, ValidationError

from sidecar.gateway import signing
from sidecar.gateway.receipt import is_genuine
from sidecar.store.ledger import GENESIS, AuditEntry, AuditHead, entry_hash
from sidecar.store.receipts import from_document

RECEIPT_KINDS = frozenset({"accepted", "authorised", "executed", "refused", "replayed"})
REVOKED_KIND = "signing_key_revoked"


class Fault(Struct, frozen=True, kw_only=True):
    """The first bad place of the chain, and what is wrong there."""

    index: int
    what: str


class Verified(Struct, frozen=True, kw_only=True):
    """What was read: ``entries`` good ones, then ``fault`` or the end."""

    entries: int
    hash: str
    fault: Fault | None = None


def verify(
    entries: Iterable[AuditEntry], head: AuditHead | None, keys: Mapping[str, bytes]
) -> Verified:
    """Walk the whole chain against its signed head; ``keys`` is id -> public key."""
    seq, prev, at_head = 0, GENESIS, GENESIS
    able = dict(keys)
    for entry in entries:
        fault = _entry_fault(entry, seq + 1, prev, able)
        if fault is not None:
            return Verified(entries=seq, hash=prev, fault=Fault(index=seq + 1, what=fault))
        seq, prev = entry.seq, entry.hash
        if entry.kind == REVOKED_KIND:
            able.pop(_revoked(entry), None)
        if head is not None and seq == head.seq:
            at_head = prev
    fault_at_end = _head_fault(seq, at_head, head, able)
    good = seq if fault_at_end is None else min(seq, fault_at_end.index - 1)
    return Verified(entries=good, hash=prev, fault=fault_at_end)


def missing(verified: Verified, head: AuditHead | None, *, calls: bool) -> Verified:
    """A chain with nothing in it, in a store that knows calls (``calls``), was taken away whole."""
    if verified.entries or head is not None or not calls:
        return verified
    gone = Fault(index=1, what="the chain and its head are gone, though calls are recorded")
    return Verified(entries=0, hash=verified.hash, fault=gone)


def witnessed(verified: Verified, fault: Fault | None) -> Verified:
    """What was verified, with a fault that checkpoints kept elsewhere have found, if it is first.

    Where the walk ended early, places it did not reach prove nothing.
    """
    if fault is None or (verified.fault is not None and verified.fault.index <= fault.index):
        return verified
    good = min(verified.entries, fault.index - 1)
    return Verified(entries=good, hash=verified.hash, fault=fault)


def verify_end(
    seq: int, hash_: str, head: AuditHead | None, keys: Mapping[str, bytes]
) -> Fault | None:
    """Check only that the chain ends where its signed head says; for every start."""
    return _head_fault(seq, hash_ if head and head.seq == seq else "", head, keys)


def _entry_fault(entry: AuditEntry, seq: int, prev: str, keys: Mapping[str, bytes]) -> str | None:
    if entry.seq != seq:
        return f"the entry is missing; the next one there is {entry.seq}"
    if entry.prev != prev:
        return "the entry does not follow the one before it"
    hash_ = entry_hash(
        entry.prev,
        seq=entry.seq,
        at_ns=entry.at_ns,
        project=entry.project,
        kind=entry.kind,
        body=entry.body,
    )
    if hash_ != entry.hash:
        return "the entry was altered: its hash does not fit"
    if entry.kind in RECEIPT_KINDS and not _receipt_holds(entry, keys):
        return "the receipt in the entry is not signed by a known key"
    return None


def _revoked(entry: AuditEntry) -> str:
    return str(json.loads(entry.body).get("key_id"))


def _receipt_holds(entry: AuditEntry, keys: Mapping[str, bytes]) -> bool:
    try:
        receipt = from_document(json.loads(entry.body)["receipt"])
    except (ValueError, KeyError, TypeError, ValidationError):
        return False
    return is_genuine(receipt, keys)


def _head_fault(
    seq: int, at_head: str, head: AuditHead | None, keys: Mapping[str, bytes]
) -> Fault | None:
    if head is None:
        return Fault(index=1, what="there are entries but no signed head") if seq else None
    public = keys.get(head.kid)
    if public is None:
        return Fault(index=head.seq, what=f"the head is signed by an unknown key {head.kid}")
    if not signing.verify(public, head.signature, head.document()):
        return Fault(index=head.seq, what="the signature of the head does not fit")
    if seq < head.seq:
        return Fault(index=seq + 1, what=f"the chain is cut off; its head is at {head.seq}")
    if at_head != head.hash:
        return Fault(index=head.seq, what="the head is of another chain")
    if seq > head.seq:
        return Fault(index=head.seq + 1, what="the entry is beyond the signed head")
    return None
