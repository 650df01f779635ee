"""Why a vote does not count and an approval is not spent: judged on what is stored, as codes.

**Rules**
1. A backend's statement decides, in its transaction; this says why it did not do it.
2. What is said first is what the caller can do least about: whose it is, then what it is for, then
   its state, then what has changed around it.
"""

import unicodedata

from processors.model.call import Approval
from sidecar.store.ledger import ApprovalUse, Ballot, IntentResult

_DOTLESS = frozenset({"gmail.com", "googlemail.com"})


class AskedTooOften(Exception):
    """An agent asked for more approvals than people are to be asked for in a while."""


class Undone(Exception):
    """Leaves the transaction as if the job had never run; says why.

    ``written``: there is something to undo.
    """

    def __init__(self, result: IntentResult, *, written: bool = True) -> None:
        self.result = result
        self.written = written
        super().__init__()


def requested_entry(wanted: Approval) -> dict[str, str]:
    """What the chain says of a request: whose, what it is bound to, what approvers are shown."""
    return {
        "action_hash": wanted.action_hash,
        "approval_id": wanted.approval_id,
        "approvers_min": str(wanted.approvers_min),
        "decision_id": wanted.decision_id,
        "expires_at_ns": str(wanted.expires_at_ns),
        "key_hash": wanted.key_hash,
        "policy_revision": wanted.policy_revision,
        "requester": wanted.requester,
        "shown_digest": wanted.shown_digest,
        "tool": wanted.tool,
        "tool_digest": wanted.tool_digest,
    }


def why_not_counted(
    approval: Approval | None, ballot: Ballot, *, revision: str | None, recent: int
) -> str | None:
    """The code of why a vote does not count; None where it does.

    ``revision``: the policy's that is active; ``recent``: how many this person approved of late.
    """
    if approval is None:
        return "no_such_approval"
    if approval.status != "pending":
        return f"approval_{approval.status}"
    if approval.expires_at_ns <= ballot.now_ns:
        return "approval_expired"
    if approval.shown_digest != ballot.shown_digest:
        return "summary_changed"
    if ballot.decision == "deny":
        return None  # whatever has changed, a denial is safe
    if revision is not None and approval.policy_revision != revision:
        return "approval_policy_changed"
    return "approval_fatigue" if ballot.pace and recent >= ballot.pace.most else None


def why_not_spent(
    found: Approval | None, use: ApprovalUse, *, requester: str, now_ns: int, stands: bool
) -> str:
    """The code of why an approval was not spent. ``stands``: it has the votes it needs."""
    if found is None or found.requester != requester:
        return "approval_mismatch"
    if found.action_hash != use.action_hash or found.key_hash != use.key_hash:
        return "approval_mismatch"
    if found.status == "approved" and found.expires_at_ns <= now_ns:
        return "approval_expired"
    if found.status != "approved":
        return f"approval_{found.status}"
    if found.tool_digest != use.tool_digest:
        return "approval_tool_changed"
    return "approval_policy_changed" if stands else "approval_revoked"


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
