"""Approvals: what is asked, who may answer, and when an answer counts.

**Rules**
1. The summary is rendered from the canonical action alone (``shown``), never from the agent's
   prose; its digest is in the request and in every vote, so what was on screen is evidence.
2. An approver is a principal whose role may decide (``identity.roles``), which no agent's does;
   neither the requester nor a key of the same person (the same name) decides, nor who owns the
   agent, nor on whose behalf it acts, and nobody counts twice. Where more than one must approve,
   who has no name cannot be told from another and does not count.
3. One deny ends it, until the call is made: an approval can be taken back. Time ends it: it is
   decided by one moment and used by another, expired is denied, and no setting turns it into an
   allowance. Policy shortens both, and lengthens neither.
4. An approval holds for one action under one key, one policy revision and one tool definition;
   once policy or tool is another, it is invalidated whatever votes it has.
"""

import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from processors.model.call import Action, Approval, ApprovalTerms, Decision
from processors.model.principal import Principal, StepUp
from sidecar.canonical import canonical, sha256
from sidecar.gateway.action import counted
from sidecar.gateway.config import Approvals
from sidecar.gateway.policy.obligations import of_type
from sidecar.gateway.problem import NextAction, Refusal
from sidecar.gateway.request import ToolReply
from sidecar.gateway.shown import summary as summary
from sidecar.identity.roles import allows
from sidecar.store.ledger import OpenedCall
from sidecar.store.standing import person

POLL_AFTER_MS = 1000
REASON_CHARS_MAX = 1000
_FIELD_DIGITS = 12
_SECOND_NS = 1_000_000_000


def shown_digest(text: str) -> str:
    """``sha256:<hex>`` of a rendered summary, domain ``agws/1``."""
    return sha256(b"agws/1\n" + text.encode())


def request(
    action: Action,
    decision: Decision,
    rules: Approvals,
    call: OpenedCall,
    *,
    approval_id: str,
    requester_name: str,
    now_ns: int,
    body: Any = None,
    requester_owner: str = "",
    secret: bytes | None = None,
    step_up: tuple[StepUp, ...] = (),
) -> Approval:
    """A new request for a call with a key. The stricter of policy's terms and configuration
    holds. ``secret`` keys the digests of the action's fields; there are none without. ``step_up``
    is what configuration demands of the approvers' sign-in, besides policy. Raises Unshowable where
    no person could judge it."""
    assert call.key_hash is not None, "an approval is bound to a key"
    terms = decision.approval or ApprovalTerms()
    text = summary(action, body)
    decide_by_ns = now_ns + _shorter(rules.expires_ns, terms.ttl_s)
    return Approval(
        approval_id=approval_id,
        project=action.tenant,
        requester=call.principal,
        requester_name=requester_name,
        tool=action.tool,
        action_hash=call.action_hash,
        key_hash=call.key_hash,
        policy_revision=decision.policy_revision,
        tool_digest=action.tool_digest,
        status="pending",
        summary=text,
        shown_digest=shown_digest(text),
        roles=terms.roles,
        requested_at_ns=now_ns,
        expires_at_ns=decide_by_ns,
        decide_by_ns=decide_by_ns,
        execute_by_ns=decide_by_ns + _shorter(rules.execute_within_ns, terms.execute_s),
        approvers_min=max(rules.approvers, terms.min),
        decision_id=decision.decision_id,
        trace_id=call.trace_id,
        requester_owner=requester_owner,
        fields=() if secret is None else field_digests(action, secret, approval_id),
        on_behalf_of=action.on_behalf_of or "",
        step_up=demanded(decision, step_up),
    )


def demanded(decision: Decision, configured: tuple[StepUp, ...]) -> tuple[StepUp, ...]:
    """All that is demanded of the approvers' sign-in: by configuration, by the terms of approval,
    by obligations."""
    terms = decision.approval
    of_terms = (terms.step_up,) if terms is not None and terms.step_up is not None else ()
    obliged = (msgspec.convert(each, StepUp) for each in of_type(decision, "step_up"))
    return tuple(dict.fromkeys((*configured, *of_terms, *obliged)))


def field_digests(action: Action, secret: bytes, approval_id: str) -> tuple[str, ...]:
    """``name:digest`` of each field of an action that counts, keyed, and of this request only."""

    def marked(name: str, value: Any) -> str:
        said = f"{approval_id}\n{name}\n".encode() + canonical(value)
        return f"{name}:{hmac.digest(secret, said, 'sha256').hex()[:_FIELD_DIGITS]}"

    return tuple(marked(name, value) for name, value in counted(action).items())


def changed_fields(
    fields: tuple[str, ...], action: Action, secret: bytes, approval_id: str
) -> tuple[str, ...]:
    """Names of the fields in which an action is another than the one of a request."""
    differing = set(fields) ^ set(field_digests(action, secret, approval_id))
    return tuple(sorted({each.partition(":")[0] for each in differing}))


class Ground(Struct, frozen=True, kw_only=True):
    """What an approval stands on: the active policy's revision, and the digest of each tool that is
    known here."""

    policy_revision: str | None
    tool_digests: Mapping[str, str]


def current(approval: Approval, now_ns: int, ground: Ground | None = None) -> Approval:
    """The request as it stands now: what has run out is expired, what has lost its ground is
    invalidated."""
    if approval.status not in ("pending", "approved"):
        return approval
    if approval.expires_at_ns <= now_ns:
        return msgspec.structs.replace(approval, status="expired")
    if ground is not None and why_invalid(approval, ground) is not None:
        return msgspec.structs.replace(approval, status="invalidated")
    return approval


def why_invalid(approval: Approval, ground: Ground) -> str | None:
    """The code of what has changed under a request since it was made, or None."""
    if ground.policy_revision not in (None, approval.policy_revision):
        return "approval_policy_changed"
    known = ground.tool_digests.get(approval.tool, approval.tool_digest)
    return None if known == approval.tool_digest else "approval_tool_changed"


def why_not_eligible(approval: Approval, voter: Principal, rules: Approvals) -> str | None:
    """The code of why this principal may not decide this request, or None."""
    if not allows(voter, "approvals.decide") or voter.project != approval.project:
        return "approver_not_eligible"
    if "requester" in rules.distinct_from and voter.id == approval.requester:
        return "self_approval"
    owners = (approval.requester_name, approval.requester_owner)
    if "owner" in rules.distinct_from and any(_same_person(voter.name, each) for each in owners):
        return "self_approval"
    for_whom = approval.on_behalf_of if "on_behalf_of" in rules.distinct_from else ""
    if any(_same_person(each, for_whom) for each in _names(voter)):
        return "self_approval"
    if approval.approvers_min > 1 and not person(voter.name):
        return "approver_not_eligible"
    if approval.roles and not {voter.kind, voter.role, voter.name} & set(approval.roles):
        return "approver_not_eligible"
    return None


def why_not_glass(approval: Approval, voter: Principal, rules: Approvals) -> str | None:
    """The code of why this principal may not break the glass on this request, or None: who and how
    many is the glass's own, everything else as for a vote."""
    code = why_not_review(approval, voter, rules)
    if code is not None:
        return code
    words = {voter.kind, voter.role or ""}
    people = rules.break_glass.people
    of_them = any(each in words or _same_person(each, voter.name) for each in people)
    return None if of_them else "approver_not_eligible"


def why_not_review(approval: Approval, voter: Principal, rules: Approvals) -> str | None:
    """The code of why this principal may not close the review of a glass on this request, or None:
    anybody by name who may decide in the project, for two who may break it and nobody else would
    leave the review open for good. Who broke it is the ledger's to know."""
    bare = msgspec.structs.replace(approval, roles=(), approvers_min=2)
    return why_not_eligible(bare, voter, rules)


def for_agent(approval: Approval) -> dict[str, Any]:
    """The request as the agent sees it (interfaces.md)."""
    return {
        "id": approval.approval_id,
        "status": approval.status,
        "expires_at": instant(approval.expires_at_ns),
        "decide_by": instant(approval.decide_by_ns),
        "execute_by": instant(approval.execute_by_ns),
        "poll_after_ms": POLL_AFTER_MS,
        "action_hash": approval.action_hash,
        "summary": approval.summary,
    }


def page_of(approval: Approval, pages: str) -> str | None:
    """The URL at which a person sees and decides a request; it is no credential. None where it is
    not known (``pages`` empty)."""
    if not pages:
        return None
    return f"{pages.rstrip('/')}/approvals/{approval.approval_id}?project={quote(approval.project)}"


def as_reply(document: dict[str, Any]) -> ToolReply:
    """A document about a request, for the agent that asked."""
    headers = (("content-type", "application/json"), ("cache-control", "no-store"))
    body = json.dumps(document, ensure_ascii=False).encode()
    return ToolReply(status=200, headers=headers, body=body)


_ENDINGS: dict[str, tuple[str, str, NextAction]] = {
    "pending": ("approval_required", "this call needs approval; it is asked for", "request"),
    "approved": (
        "approval_required",
        "this call is approved; get the token from /v1/approvals/{id}, send it as Approval-Token",
        "request",
    ),
    "denied": ("approval_denied", "an approver denied this call", "none"),
    "expired": (
        "approval_expired",
        "nobody approved this call in time; a new key makes a new request",
        "request",
    ),
    "invalidated": (
        "approval_policy_changed",
        "policy or the tool has changed since this was asked; make the call again",
        "request",
    ),
    "consumed": (
        "approval_consumed",
        "the approval was used; a new key makes a new request",
        "request",
    ),
}


def refusal(approval: Approval, *, asynchronous: bool = False) -> Refusal:
    """What the agent gets without a usable approval: 403, or 202 where it asked for that."""
    code, detail, next_action = _ENDINGS[approval.status]
    waiting = approval.status in ("pending", "approved")
    return Refusal(
        status=202 if waiting and asynchronous else 403,
        code=code,
        detail=detail.format(id=approval.approval_id),
        next_action=next_action,
        approval=for_agent(approval),
    )


def instant(at_ns: int) -> str:
    """A moment as agents read it: RFC 3339, whole seconds."""
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _names(voter: Principal) -> tuple[str, ...]:
    """By what a person may be known to whoever names them: name, id, and a provider's subject."""
    parts = voter.id.split(":", 2)
    return (voter.name, voter.id, *(parts[2:] if parts[0] == "oidc" else parts[1:]))


def _shorter(configured_ns: int, policy_s: int | None) -> int:
    """Policy shortens what is configured, and lengthens nothing."""
    return configured_ns if policy_s is None else min(configured_ns, policy_s * _SECOND_NS)


def _same_person(one: str, other: str) -> bool:
    return bool(person(one)) and person(one) == person(other)
