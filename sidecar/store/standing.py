"""Why a vote does not count and an approval is not spent: judged on what is stored, as codes.

**Rules**
1. A backend's statement decides, in its transaction; this says why it did not do it.
2. What is said first is what the caller can do least about: whose it is, then what it is for, then
   its state, then what has changed around it.
"""

import unicodedata
from typing import Any

from processors.model.call import Approval
from processors.model.principal import StepUp
from sidecar.store import step_up
from sidecar.store.ledger import ApprovalUse, Ballot, Claim, IntentResult, Scope, Seen

_DOTLESS = frozenset({"gmail.com", "googlemail.com"})


CLOCKS_APART_NS = 30_000_000_000
"""How far a moment may lie before what the ledger has seen already: clocks differ that much."""


class AskedTooOften(Exception):
    """An agent asked for more approvals than people are to be asked for in a while."""


class KeyMoved(Exception):
    """The key of a call is no more as it was looked up: another call with it came between."""


class Undone(Exception):
    """Leaves the transaction as if the job had never run; says why.

    ``written``: there is something to undo.
    """

    def __init__(self, result: IntentResult, *, written: bool = True) -> None:
        self.result = result
        self.written = written
        super().__init__()


def asked_for(wanted: Approval) -> Scope:
    """Whose key a request for approval is bound to."""
    return Scope(
        project=wanted.project,
        principal=wanted.requester,
        tool=wanted.tool,
        key_hash=wanted.key_hash,
    )


def as_seen(claim: Claim | None, seen: Seen | None) -> bool:
    """Whether a key's claim is the one that was looked up."""
    if claim is None or seen is None:
        return claim is None and seen is None
    return Seen(claim_id=claim.claim_id, fence=claim.fence, state=claim.state) == seen


def requested_entry(wanted: Approval) -> dict[str, Any]:
    """What the chain says of a request: whose, what it is bound to, what approvers are shown, and
    what is demanded of them."""
    demanded = {"step_up": [_demanded(each) for each in wanted.step_up]} if wanted.step_up else {}
    behalf = {"on_behalf_of": wanted.on_behalf_of} if wanted.on_behalf_of else {}
    return {
        **demanded,
        **behalf,
        "action_hash": wanted.action_hash,
        "approval_id": wanted.approval_id,
        "approvers_min": str(wanted.approvers_min),
        "decide_by_ns": str(wanted.decide_by_ns),
        "decision_id": wanted.decision_id,
        "execute_by_ns": str(wanted.execute_by_ns),
        "expires_at_ns": str(wanted.expires_at_ns),
        "key_hash": wanted.key_hash,
        "policy_revision": wanted.policy_revision,
        "requester": wanted.requester,
        "shown_digest": wanted.shown_digest,
        "tool": wanted.tool,
        "tool_digest": wanted.tool_digest,
    }


def vote_entry(ballot: Ballot) -> dict[str, Any]:
    """What the chain says of a vote: whose, on what was shown, and how they had signed in."""
    authn = ballot.authn
    signed: dict[str, Any] = {"method": authn.method, "amr": list(authn.amr)}
    if authn.acr is not None:
        signed["acr"] = authn.acr
    if authn.auth_time_ns is not None:
        signed["auth_time_ns"] = str(authn.auth_time_ns)
    return {
        "approval_id": ballot.approval_id,
        "authn": signed,
        "decision": ballot.decision,
        "reason": ballot.reason,
        "shown_digest": ballot.shown_digest,
        "voter": ballot.voter,
    }


def _demanded(demand: StepUp) -> dict[str, Any]:
    age = {} if demand.max_age_s is None else {"max_age_s": demand.max_age_s}
    return {"acr": list(demand.acr), "amr": list(demand.amr), **age}


def why_not_counted(
    approval: Approval | None, ballot: Ballot, *, revision: str | None, recent: int, mark_ns: int
) -> str | None:
    """The code of why a vote does not count; None where it does.

    ``revision``: the policy's that is active; ``recent``: how many this person approved of late;
    ``mark_ns``: the latest moment the ledger knows of.
    """
    if approval is None:
        return "no_such_approval"
    takes_back = ballot.decision == "deny" and approval.status == "approved"
    if approval.status != "pending" and not takes_back:
        return f"approval_{approval.status}"
    if approval.expires_at_ns <= ballot.now_ns:
        return "approval_expired"
    if approval.shown_digest != ballot.shown_digest:
        return "summary_changed"
    if ballot.decision == "deny":
        return None  # whatever has changed, a denial is safe
    if went_back(ballot.now_ns, mark_ns):
        return "clock_skewed"
    if revision is not None and approval.policy_revision != revision:
        return "approval_policy_changed"
    if step_up.unmet(ballot.authn, approval.step_up, ballot.now_ns) is not None:
        return step_up.CODE
    return "approval_fatigue" if ballot.pace and recent >= ballot.pace.most else None


def why_not_spent(
    found: Approval | None,
    use: ApprovalUse,
    *,
    requester: str,
    now_ns: int,
    stands: bool,
    mark_ns: int,
) -> str:
    """The code of why an approval was not spent. ``stands``: it has the votes it needs;
    ``mark_ns``: the latest moment the ledger knows of."""
    if found is None or found.requester != requester:
        return "approval_mismatch"
    if found.action_hash != use.action_hash or found.key_hash != use.key_hash:
        return "approval_mismatch"
    if found.status == "approved" and found.expires_at_ns <= now_ns:
        return "approval_expired"
    if found.status != "approved":
        return f"approval_{found.status}"
    if went_back(now_ns, mark_ns):
        return "clock_skewed"
    if found.tool_digest != use.tool_digest:
        return "approval_tool_changed"
    return "approval_policy_changed" if stands else "approval_revoked"


def went_back(now_ns: int, mark_ns: int) -> bool:
    """Whether a clock says less than the ledger has seen, so that no time that is left is true."""
    return now_ns + CLOCKS_APART_NS < mark_ns


def resolved_entry(approval: Approval, status: str, now_ns: int) -> dict[str, str]:
    """What the chain says of a request that is decided; until when it may be used, if it may."""
    said = {"approval_id": approval.approval_id, "status": status}
    if status != "approved":
        return said
    return {**said, "execute_by_ns": str(execute_by(approval, now_ns))}


def execute_by(approval: Approval, now_ns: int) -> int:
    """Until when a request that is approved now may be used: its time begins now. (One of a release
    that knew one time for both has what is left of that.)"""
    window_ns = approval.execute_by_ns - approval.decide_by_ns
    return now_ns + window_ns if window_ns > 0 else approval.expires_at_ns


def consumed_entry(found: Approval, call_id: str) -> dict[str, Any]:
    """What the chain says of a request that a call used: who had approved, and in which times."""
    return {
        "approval_id": found.approval_id,
        "call_id": call_id,
        "decide_by_ns": str(found.decide_by_ns),
        "execute_by_ns": str(found.execute_by_ns),
        **({"glass_id": found.glass_id} if found.glass_id else {}),
        "votes": [
            {"shown_digest": vote.shown_digest, "voter": vote.voter}
            for vote in found.votes
            if vote.decision == "approve"
        ],
    }


def identity_of(ballot: Ballot) -> str:
    """Whom a vote counts for: a person has one, whatever number of keys."""
    return person(ballot.voter_name) or ballot.voter


def person(name: str) -> str:
    """Whom a name means; empty where it names nobody.

    Case, width, blanks and what is not seen make no other person, nor does an e-mail address's tag
    (``ann+x@example.com``) or, where the provider drops them, its dots.
    """
    plain = unicodedata.normalize("NFKC", name).casefold()
    seen = "".join(one for one in plain if unicodedata.category(one) not in ("Cf", "Cc"))
    words = " ".join(unicodedata.normalize("NFKC", seen).split())
    local, at, domain = words.rpartition("@")
    if not at:
        return words
    local = local.partition("+")[0]
    if domain in _DOTLESS:
        local, domain = local.replace(".", ""), "gmail.com"
    return f"{local}@{domain}"
