"""Action, Decision, Approval, Receipt: one tool call through the gateway, as facts.

Rules
1. ``action_hash`` covers the action and never the idempotency key; an approval token binds both.
2. Money is a decimal string or integer minor units with an ISO 4217 currency, never a binary float.
3. A receipt says what is known of the effect: confirmed, not_executed or unknown. Never a guess.
"""

from typing import Any, Literal

from msgspec import Struct

from processors.model.names import Effect, PrincipalKind, SideEffectClass
from processors.model.principal import Authn, StepUp

EffectKnown = Literal["confirmed", "not_executed", "unknown"]
ApprovalStatus = Literal["pending", "approved", "denied", "expired", "invalidated", "consumed"]
"""``expired`` by time, ``invalidated`` where policy or tool has changed: both are told, whatever is
stored."""


class Action(Struct, frozen=True, kw_only=True):
    """What an agent wants done: the canonical form that is hashed, judged, approved and sent.

    ``path`` is canonical (gateway.md §3.2); ``query`` an ordered list of decoded pairs;
    ``body_digest`` is
    ``sha256:<hex>`` of the identity-encoded bytes; ``body`` the parsed JSON (numbers exact) or
    None; ``on_behalf_of`` the person that the agent's credential says it acts for.
    """

    tenant: str
    agent: str
    tool: str
    upstream: str
    class_: SideEffectClass
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str | None = None
    body_digest: str | None = None
    body_jcs_digest: str | None = None
    arguments: dict[str, Any] = {}
    cost_amount: str | None = None
    cost_currency: str | None = None
    tool_digest: str = ""
    mode: Literal["live", "twin"] = "live"
    on_behalf_of: str | None = None


class Obligation(Struct, frozen=True, kw_only=True):
    """Something the gateway must do with a decision (AuthZEN obligations): unknown type = deny."""

    id: str
    type: str
    properties: dict[str, Any] = {}


class Reason(Struct, frozen=True, kw_only=True):
    """Why; ``code`` is stable and machine-readable, ``rule`` the Rego rule that said so."""

    code: str
    message: str = ""
    rule: str = ""


class ApprovalTerms(Struct, frozen=True, kw_only=True):
    """What a require_approval decision asks for. ``ttl_s``: how long people may take to decide;
    ``execute_s``: how long after that the call may be made. Each shortens configuration's."""

    min: int = 1
    roles: tuple[str, ...] = ()
    ttl_s: int | None = None
    execute_s: int | None = None
    step_up: StepUp | None = None


class Decision(Struct, frozen=True, kw_only=True):
    """The policy's answer on one action."""

    decision_id: str
    effect: Effect
    reasons: tuple[Reason, ...] = ()
    limits: dict[str, Any] = {}
    approval: ApprovalTerms | None = None
    obligations: tuple[Obligation, ...] = ()
    policy_revision: str = ""
    engine: str = ""
    input_digest: str = ""
    error: str | None = None


class Vote(Struct, frozen=True, kw_only=True):
    """One approver's word on a request; ``shown_digest`` is the hash of the summary they saw,
    ``authn`` how they had signed in."""

    voter: str
    decision: Literal["approve", "deny"]
    reason: str
    voted_at_ns: int
    shown_digest: str
    authn: Authn = Authn()


class Approval(Struct, frozen=True, kw_only=True):
    """A request for approval of one exact action under one idempotency key.

    ``decide_by_ns``: until then people decide; ``execute_by_ns``: until then the call is made, at
    the latest while nobody has decided, and for good once it is approved; ``expires_at_ns`` is the
    one of both that runs now.
    ``fields``: a keyed digest of each field of the action, as ``name:digest``: they tell which of
    them is another, and nothing of what it is. ``on_behalf_of``: the person the agent acts for;
    ``step_up``: what each approver's sign-in must be; ``glass_id``: the glass whose two people
    approved it in the approvers' place, empty where none did.
    """

    approval_id: str
    project: str
    requester: str
    tool: str
    action_hash: str
    key_hash: str
    policy_revision: str
    tool_digest: str
    status: ApprovalStatus
    summary: str
    requested_at_ns: int
    expires_at_ns: int
    decide_by_ns: int
    execute_by_ns: int
    approvers_min: int = 1
    decision_id: str = ""
    trace_id: str | None = None
    votes: tuple[Vote, ...] = ()
    consumed_by: str | None = None
    requester_name: str = ""
    roles: tuple[str, ...] = ()
    shown_digest: str = ""
    requester_owner: str = ""
    fields: tuple[str, ...] = ()
    on_behalf_of: str = ""
    step_up: tuple[StepUp, ...] = ()
    glass_id: str = ""


class Spend(Struct, frozen=True, kw_only=True):
    """An amount held or settled against a budget."""

    scope: str
    amount: str
    currency: str
    state: Literal["held", "settled", "released"]


class Receipt(Struct, frozen=True, kw_only=True):
    """What the gateway knows of one call: signed, chained, retrievable (gateway.md §2.9).

    ``phase`` is ``authorised`` (before anything was sent) or ``executed`` (after); ``accepted`` is
    of a call that will be made later, which has receipts of its own then, and reaches no trace.
    ``status`` is the HTTP status the agent got; ``upstream_status`` the tool's own, None when
    nothing whole came back; ``upstream_authority`` the host and port it was for,
    ``upstream_address`` the address dialled.
    """

    receipt_id: str
    call_id: str
    phase: Literal["accepted", "authorised", "executed", "refused", "replayed"]
    project: str
    principal: str
    principal_kind: PrincipalKind
    tool: str
    class_: SideEffectClass
    action_hash: str
    decision_id: str
    decision_effect: Effect
    reasons: tuple[str, ...]
    policy_revision: str
    effect: EffectKnown
    status: int
    started_at_ns: int
    finished_at_ns: int
    upstream: str | None = None
    upstream_status: int | None = None
    approval_id: str | None = None
    key_hash: str | None = None
    attempt: int = 1
    request_digest: str | None = None
    response_digest: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    episode: str | None = None
    enforcement: str = "enforce"
    code: str | None = None
    kid: str = ""
    signature: str = ""
    upstream_authority: str | None = None
    upstream_address: str | None = None


class ReceiptFact(Struct, frozen=True, kw_only=True):
    """A receipt as the pipeline meets it, with the arguments the gateway read, which none stores.

    ``arguments`` are path parameters, query values and body members by name; None if they are gone.
    """

    receipt: Receipt
    arguments: dict[str, Any] | None = None
