"""The ledger's records: claims on idempotency keys, intents, outcomes, facts, and the audit chain.

**Rules**
1. A claim is found by its scope (project, principal, tool, key) and by nothing else; a call without
   a key has a claim of its own.
2. ``fence`` grows with every take-over; who holds an older fence can change nothing.
3. What the store keeps of a key's change goes into the chain before the next entry does: no
   entry can be of a key whose making the chain does not know.
4. An audit entry's hash covers the hash before it and every field of the entry; a signed head
   covers the last, so that an edited, missing, moved or cut-off entry shows.
5. Times inside signed or hashed documents are decimal text: they exceed what RFC 8785 can say.
"""

import hashlib
import json
from typing import Any, Literal, Protocol

from msgspec import Struct

from processors.model.call import Receipt
from processors.model.names import PrincipalKind, SideEffectClass
from processors.model.principal import Authn, StepUp
from sidecar.store.budget import Hold, Over, Spent

ClaimState = Literal[
    "claimed", "sent", "completed", "failed_safe", "unknown", "resolved_done", "resolved_not_done"
]
HoldState = Literal["held", "settled", "released"]
GENESIS = "sha256:" + "0" * 64
ANSWER_BYTES_MAX = 1024**2
TOMBSTONE_NS = 90 * 86_400 * 10**9
"""How long an irreversible call's key is remembered after it has expired."""


class Scope(Struct, frozen=True, kw_only=True):
    """Whose key it is: the same key of another principal or on another tool is another key."""

    project: str
    principal: str
    tool: str
    key_hash: str


class Answer(Struct, frozen=True, kw_only=True):
    """An upstream's whole answer, kept sealed so that it can be given again."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Claim(Struct, frozen=True, kw_only=True):
    """One row of the idempotency table. ``answer`` is None when none was kept; ``possible``: an
    attempt before this one may have had its effect, so that this one's having none proves nothing.
    """

    claim_id: int
    project: str
    principal: str
    tool: str
    key_hash: str | None
    fingerprint: str
    state: ClaimState
    owner: str
    lease_until_ns: int
    fence: int
    attempt: int
    call_id: str
    updated_at_ns: int
    expires_at_ns: int
    approval_id: str | None = None
    receipt_id: str | None = None
    reason: str | None = None
    possible: bool = False
    answer: Answer | None = None


class Fence(Struct, frozen=True, kw_only=True):
    """A claim as it was taken: whoever changes it must still hold this fence."""

    claim_id: int
    fence: int


class Seen(Struct, frozen=True, kw_only=True):
    """A claim as it was seen before taking it over; if anything moved, nothing is taken."""

    claim_id: int
    fence: int
    state: ClaimState


class OpenedCall(Struct, frozen=True, kw_only=True):
    """A call as far as it is known before anything is decided; ``arguments`` are kept sealed."""

    call_id: str
    project: str
    principal: str
    principal_kind: PrincipalKind
    tool: str
    class_: SideEffectClass
    action_hash: str
    started_at_ns: int
    key_hash: str | None = None
    trace_id: str | None = None
    arguments: dict[str, Any] | None = None


class Counted(Struct, frozen=True, kw_only=True):
    """How many calls of a tool an agent ``made``, which had or may have had their effect, and how
    many were ``refused``."""

    tool: str
    class_: SideEffectClass
    made: int
    refused: int


class ApprovalUse(Struct, frozen=True, kw_only=True):
    """Which approval an intent consumes, and what it must still be bound to; ``step_up``: what is
    demanded of its approvers now."""

    approval_id: str
    action_hash: str
    key_hash: str
    policy_revision: str
    tool_digest: str
    step_up: tuple[StepUp, ...] = ()


class Intent(Struct, frozen=True, kw_only=True):
    """What the one final transaction writes. ``expected`` is the claim to take over, None for a new
    one; ``receipt`` is the signed authorisation; ``fingerprint`` what makes another call with the
    key the same. ``distinct_since_ns``: refused when the same was called since then. ``marks``: the
    kinds of stop that hold the call back, where its claim may be marked sent right after, in a
    commit of its own; empty where that is left to ``mark_sent``."""

    call: OpenedCall
    owner: str
    lease_until_ns: int
    expires_at_ns: int
    policy_revision: str
    receipt: Receipt
    now_ns: int
    fingerprint: str
    expected: Seen | None = None
    approval: ApprovalUse | None = None
    holds: tuple[Hold, ...] = ()
    distinct_since_ns: int | None = None
    marks: tuple[Literal["kill", "freeze"], ...] = ()


class Committed(Struct, frozen=True, kw_only=True):
    """The intent is durable; the holder of this fence alone may send, once it is marked.

    ``marked``: what ``mark_sent`` said right after; None where it was not asked, or could not be
    written.
    """

    claim: Fence
    marked: bool | None = None


class Occupied(Struct, frozen=True, kw_only=True):
    """Another call has the key; nothing was written."""


class NotCommitted(Struct, frozen=True, kw_only=True):
    """Refused: ``policy_changed``, ``possible_duplicate``, ``budget_exceeded`` (then ``over`` says
    which budget) or an ``approval_…`` code. Nothing was written."""

    code: str
    over: Over | None = None


IntentResult = Committed | Occupied | NotCommitted


class ClaimEnd(Struct, frozen=True, kw_only=True):
    """How a claim ends (or is resolved) with this outcome. ``call_id`` is the call that made the
    attempt: its holds settle with what was ``spent`` where that is told, and its consumed approval
    comes back (at most once) where ``restore_approval`` says so."""

    claim: Fence
    call_id: str
    state: ClaimState
    reason: str | None = None
    answer: Answer | None = None
    restore_approval: bool = False
    holds: HoldState = "held"
    spent: tuple[Spent, ...] = ()


class Resolution(Struct, frozen=True, kw_only=True):
    """Who said what became of an unknown outcome, and why: a principal, or ``recipe``."""

    by: str
    reason: str


class CallOutcome(Struct, frozen=True, kw_only=True):
    """One record: a signed receipt, and what it does to the call's claim, if it has one. A
    ``resolution`` is an entry of the chain of its own, ``unknown_resolved``."""

    call: OpenedCall
    receipt: Receipt
    now_ns: int
    end: ClaimEnd | None = None
    resolution: Resolution | None = None


def resolved_body(outcome: CallOutcome) -> dict[str, str]:
    """What the chain keeps of a resolution."""
    assert outcome.resolution is not None and outcome.end is not None
    return {
        "by": outcome.resolution.by,
        "call_id": outcome.end.call_id,
        "reason": outcome.resolution.reason,
        "state": outcome.end.state,
    }


class Fact(Struct, frozen=True, kw_only=True):
    """A receipt for the pipeline with its place in the chain and the call's opened arguments."""

    seq: int
    project: str
    receipt: Receipt
    arguments: dict[str, Any] | None


class CallRow(Struct, frozen=True, kw_only=True):
    """A call for lists: its last receipt in short. ``receipts`` are ids in order."""

    call_id: str
    project: str
    principal: str
    tool: str
    class_: SideEffectClass
    phase: str
    status: int
    effect: str
    decision_effect: str
    code: str | None
    approval_id: str | None
    trace_id: str | None
    started_at_ns: int
    finished_at_ns: int
    receipts: tuple[str, ...] = ()
    state: ClaimState | None = None


class CallQuery(Struct, frozen=True, kw_only=True):
    """Which calls to list, newest first; ``after`` a start and call id in that order."""

    project: str | None = None
    tool: str | None = None
    trace_id: str | None = None
    state: ClaimState | None = None
    limit: int = 100
    after: tuple[int, str] | None = None


class TrafficQuery(Struct, frozen=True, kw_only=True):
    """The calls of one trace of a project, or (``trace_id`` None) those that named none; times are
    of a call's start. ``after``: only receipts that follow this place of the chain."""

    project: str
    trace_id: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    after: int = 0
    limit: int = 100_000


class KeptAnswer(Struct, frozen=True, kw_only=True):
    """A tool's whole answer that is still kept under a call's key, and whose key it is."""

    call_id: str
    principal: str
    tool: str
    key_hash: str | None
    answer: Answer


class Pace(Struct, frozen=True, kw_only=True):
    """At most ``most`` in any ``window_ns``."""

    most: int
    window_ns: int


class Ballot(Struct, frozen=True, kw_only=True):
    """A vote to cast; ``voter_name`` tells two keys of one person apart from two people.

    ``pace``: how many this person may approve in a while; as many as they like where None;
    ``authn``: how they have signed in.
    """

    project: str
    approval_id: str
    voter: str
    voter_name: str
    decision: Literal["approve", "deny"]
    reason: str
    shown_digest: str
    now_ns: int
    pace: Pace | None = None
    authn: Authn = Authn()


class StoredSigningKey(Struct, frozen=True, kw_only=True):
    """An Ed25519 key: ``public`` is 32 raw bytes, ``private`` 32 raw bytes, sealed at rest."""

    kid: str
    public: bytes
    private: bytes
    created_at_ns: int


class Signer(Protocol):
    """Signs heads and receipts."""

    @property
    def kid(self) -> str:
        """Which key signs."""
        ...

    def sign(self, data: bytes) -> bytes:
        """The signature over ``data``."""
        ...


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One link of the chain; ``body`` is the RFC 8785 text of an object."""

    seq: int
    at_ns: int
    project: str
    kind: str
    body: str
    prev: str
    hash: str


class AuditHead(Struct, frozen=True, kw_only=True):
    """The signed end of the chain."""

    seq: int
    hash: str
    signed_at_ns: int
    kid: str
    signature: bytes

    def document(self) -> bytes:
        """The bytes that are signed."""
        return head_document(self.seq, self.hash, self.signed_at_ns)


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The end of the chain at one moment, signed, to be kept elsewhere: what was before it can
    then neither be rewritten nor cut off."""

    seq: int
    hash: str
    at_ns: int
    kid: str
    signature: bytes

    def document(self) -> bytes:
        """The bytes that are signed."""
        return checkpoint_document(self.seq, self.hash, self.at_ns)


def checkpoint_document(seq: int, hash_: str, at_ns: int) -> bytes:
    """What a checkpoint's signature covers."""
    return f'agwc/1\n{{"at_ns":"{at_ns}","hash":"{hash_}","seq":{seq}}}'.encode()


def entry_hash(prev: str, *, seq: int, at_ns: int, project: str, kind: str, body: str) -> str:
    """``sha256:<hex>`` over the previous hash and the RFC 8785 form of the entry."""
    entry = (
        f'{{"at_ns":"{at_ns}","body":{body},"kind":{_text(kind)},'
        f'"project":{_text(project)},"seq":{seq}}}'
    )
    data = b"agwl/1\n" + prev.encode() + b"\n" + entry.encode()
    return "sha256:" + hashlib.sha256(data).hexdigest()


def head_document(seq: int, hash_: str, signed_at_ns: int) -> bytes:
    """What a head's signature covers."""
    return f'agwh/1\n{{"hash":"{hash_}","seq":{seq},"signed_at_ns":"{signed_at_ns}"}}'.encode()


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
