"""What a tool's whole answer says about its effect, and the refusals where there is none.

**Rules**
1. A success is the tool's own word for the effect. A status the tool declares without effect allows
   another attempt; other refusals of the tool are final answers.
2. 5xx, and answers that ask to come back, leave the effect unknown. 502, 503 and 504 are an
   intermediary's: the agent is told ``outcome_unknown``, not that it may try again.
"""

from msgspec import structs

from processors.model.call import EffectKnown, Reason
from sidecar.gateway.problem import NextAction, Refusal
from sidecar.store.budget import Over
from sidecar.store.ledger import ClaimState

_INTERMEDIARY = frozenset({502, 503, 504})
_COME_BACK = frozenset({409, 425, 429})


def read_status(
    status: int, retry_after: bool, no_effect_statuses: frozenset[int]
) -> tuple[EffectKnown, ClaimState, bool]:
    """The effect, how the claim ends, and whether the agent gets the answer itself."""
    if 200 <= status < 300 or status == 303:
        return "confirmed", "completed", True
    if status in no_effect_statuses:
        return "not_executed", "failed_safe", True
    come_back = status == 408 or (status in _COME_BACK and retry_after)
    if 400 <= status < 500 and not come_back:
        return "not_executed", "completed", True
    return "unknown", "unknown", status not in _INTERMEDIARY


def key_required(why: str) -> Refusal:
    """400: the call needs an idempotency key."""
    return Refusal(
        status=400,
        code="idempotency_key_required",
        detail=f"send Idempotency-Key, new for each intended action: {why}",
        next_action="request",
    )


def denied(reason: Reason | None) -> Refusal:
    """403 with policy's own code."""
    code = reason.code if reason else "denied"
    message = (reason.message if reason else "") or "policy does not allow this call"
    return Refusal(status=403, code=code, detail=f"{message}; {_NEVER}")


_NEVER = "nothing was sent, and no other wording, key or way changes that: do not try again"


_STOPS = {
    "killed": "all calls of this project, agent or tool are stopped until two people lift it",
    "frozen": "calls with effects of this project, agent or tool are frozen till a person lifts it",
}


def stopped(code: str) -> Refusal:
    """403: a kill switch or a freeze stands; nothing was sent."""
    return Refusal(
        status=403, code=code, detail=f"{_STOPS[code]}; it was not sent, do not try another way"
    )


_CLOSED = {
    "policy_changed": "policy has changed and does not allow it any more",
    "key_revoked": "the credential of this call was revoked",
    "fail_closed": "the ledger cannot be used, so whether it may go on cannot be told",
}


def closed(code: str) -> Refusal:
    """403: a long answer was broken off while it came."""
    why = _CLOSED.get(code) or _STOPS[code]
    return Refusal(status=403, code=code, detail=f"the answer was broken off: {why}")


def clock_skewed() -> Refusal:
    """503: whether an approval is in time cannot be told."""
    return Refusal(
        status=503,
        code="clock_skewed",
        detail="the gateway's clock was set, so no approval's or token's time can be told; "
        "an operator must set the clock right, or restart the gateway",
        next_action="retry",
        retry_after=60,
    )


def not_anchored() -> Refusal:
    """503: the audit chain has not been kept elsewhere for longer than allowed."""
    return Refusal(
        status=503,
        code="audit_not_anchored",
        detail="the audit chain has not reached its anchor for too long, so the call was not made",
        next_action="retry",
        retry_after=60,
    )


def over_budget(over: Over) -> Refusal:
    """429: a budget has no room now; 403 where it never has, for this amount."""
    said = f"the call takes {over.amount} {over.unit} of {over.budget!r}, whose limit is "
    if over.never:
        detail = f"{said}{over.limit}; no call may take that much"
        return Refusal(status=403, code="budget_exceeded", detail=detail)
    return Refusal(
        status=429,
        code="budget_exceeded",
        detail=f"{said}{over.limit}; {over.left} are left of it now",
        next_action="retry",
        retry_after=over.retry_after_s,
    )


def tool_busy() -> Refusal:
    """429: as many calls of the tool are on their way as may be."""
    return Refusal(
        status=429,
        code="tool_busy",
        detail="as many calls of this tool are on their way as may be; ask again with the same key",
        next_action="retry",
        retry_after=1,
    )


def policy_failed() -> Refusal:
    """503: no usable answer from policy."""
    return Refusal(
        status=503,
        code="policy_error",
        detail="policy gave no usable answer, so the call was not sent; the log says why",
        next_action="retry",
        retry_after=1,
    )


def store_failed() -> Refusal:
    """503: the ledger cannot be read or written."""
    return Refusal(
        status=503,
        code="fail_closed",
        detail="the ledger cannot be used, so the call was not made; the log says why",
        next_action="retry",
        retry_after=1,
    )


def still_possible(why: str) -> Refusal:
    """409: this attempt had no effect, one before it may have had; the tool takes the key again."""
    return Refusal(
        status=409,
        code="outcome_unknown",
        detail=f"this attempt had no effect ({why}), and it is not known whether the one before it "
        "had; ask again with the same key. Do not repeat it under another key",
        next_action="retry",
        retry_after=1,
    )


def cooling_off(seconds: int) -> Refusal:
    """403: policy holds the call for a while, in which a person may cancel it."""
    return Refusal(
        status=403,
        code="cooling_off",
        detail="policy holds this call for a while, so that a person can cancel it; nothing was "
        "sent. Ask again with the same key then, and do not change the call",
        next_action="retry",
        retry_after=seconds,
    )


def possible_duplicate() -> Refusal:
    """409: the same call, without a key, was made moments ago."""
    return Refusal(
        status=409,
        code="possible_duplicate",
        detail="the same call by the same agent was made moments ago, or its outcome is not known; "
        "it is not made again. If another one is meant, send Confirm-Distinct: ?1, or a new "
        "Idempotency-Key for each intended action",
        next_action="request",
    )


def own_fault() -> Refusal:
    """500: the gateway failed before anything was sent."""
    return Refusal(
        status=500,
        code="gateway_fault",
        detail="the gateway failed on this request and did not send it; the log says where",
    )


def unreachable(reason: str) -> Refusal:
    """502: nothing was sent."""
    return Refusal(
        status=502,
        code="upstream_unreachable",
        detail=f"the tool was not reached and nothing was sent: {reason}",
        next_action="retry",
    )


def broken(reason: str) -> Refusal:
    """502: a read without a whole answer."""
    return Refusal(
        status=502,
        code="upstream_broken",
        detail=f"the tool gave no whole answer: {reason}",
        next_action="retry",
    )


def read_timed_out() -> Refusal:
    """504: a read that was not answered in time."""
    return Refusal(
        status=504,
        code="upstream_timeout",
        detail="the tool did not answer in time",
        next_action="retry",
    )


_SPENT = {
    "approval_mismatch": "the approval is for another action, key or agent",
    "approval_consumed": "the approval was used already",
    "approval_denied": "an approver denied this call",
    "approval_expired": "the approval has run out; a new key makes a new request",
    "approval_fatigue": "this agent has asked for more approvals than people are to be asked for "
    "in a while; wait, and ask for fewer",
    "approval_pending": "the approval is not given yet",
    "approval_policy_changed": "policy has changed since the approval; ask anew",
    "approval_too_large": "this call needs approval and has more fields or text than a person can "
    "judge; send a smaller one",
    "approval_unreadable": "this call needs approval and its body cannot be shown to a person",
    "approval_tool_changed": "the tool has changed since the approval; ask anew",
    "step_up_required": "its approvers' sign-in is not what is demanded of them now; a new key "
    "makes a new request",
    "approval_revoked": "an approver's key was revoked since; a new key makes a new request",
    "call_cancelled": "a person cancelled this call while policy held it",
    "obligation_unmet": "policy holds this call, and nothing says since when: send it with "
    "Prefer: respond-async where its tool takes that",
    "key_revoked": "the credential of this call was revoked before it was sent",
}


_NEXT: dict[str, NextAction] = {
    "approval_pending": "retry",
    "approval_fatigue": "retry",
    "call_cancelled": "none",
    "key_revoked": "none",
}
_REST_SECONDS = 60


def mismatched(fields: tuple[str, ...]) -> Refusal:
    """403: the approval is for another call; ``fields`` names what of this one differs."""
    refusal = not_spendable("approval_mismatch")
    told = f"; what differs: {', '.join(fields)}" if fields else ""
    return structs.replace(refusal, detail=refusal.detail + told)


def not_spendable(code: str) -> Refusal:
    """403: the approval cannot be used for this call; 429: it is not asked for now."""
    tired = code == "approval_fatigue"
    return Refusal(
        status=429 if tired else 403,
        code=code,
        detail=_SPENT.get(code, "the approval cannot be used"),
        next_action=_NEXT.get(code, "request"),
        retry_after=_REST_SECONDS if tired else None,
    )
