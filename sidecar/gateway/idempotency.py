"""Idempotency: whose key it is, what a claim on it means for the next call with it.

**Rules**
1. A key belongs to project, principal and tool; nobody else can see it, use it up or probe it.
2. The same key with another action is refused, and says nothing of the first.
3. A new attempt only where no effect is possible: never sent, or proved without effect; after that
   only for a tool that declares ``upstream_idempotent``, and while the upstream remembers the key:
   until the claim of the first attempt that may have had its effect expires. While its owner is at
   it, a call that was sent is in flight, whatever a clock says of its lease.
4. The upstream gets a key derived from ours: stable over attempts and restarts, and of no use to
   another project.
5. An expired key of an irreversible call is remembered and refused, never executed again.
"""

import hmac

from msgspec import Struct

from processors.model.names import SideEffectClass
from sidecar.gateway.problem import Refusal
from sidecar.store.ledger import Claim, OpenedCall, Scope, Seen

RETRY_AFTER_SECONDS = 1


class KeyRules(Struct, frozen=True, kw_only=True):
    """What the tool says of its calls."""

    class_: SideEffectClass
    upstream_idempotent: bool = False
    reconcilable: bool = False


class Execute(Struct, frozen=True, kw_only=True):
    """Go on: claim the key, or take over what was seen; ``possible``: an attempt before may have
    had its effect."""

    attempt: int = 1
    seen: Seen | None = None
    possible: bool = False


class Replay(Struct, frozen=True, kw_only=True):
    """Give the stored answer again."""

    claim: Claim


class InFlight(Struct, frozen=True, kw_only=True):
    """Another call with this key is on its way."""


class Unknown(Struct, frozen=True, kw_only=True):
    """Nobody knows whether the call happened."""

    claim: Claim


Meaning = Execute | Replay | InFlight | Unknown | Refusal


def key_hash(secret: bytes, *, project: str, principal: str, tool: str, key: str) -> str:
    """How a key appears in store, receipts and tokens: keyed, so that it cannot be guessed back."""
    parts = "\n".join((project, principal, tool, key))
    return "hmac:" + hmac.digest(secret, b"idk/1\n" + parts.encode(), "sha256").hex()


def scope_of(call: OpenedCall) -> Scope | None:
    """Where a call's claim is found; None for a call without a key."""
    if call.key_hash is None:
        return None
    return Scope(
        project=call.project, principal=call.principal, tool=call.tool, key_hash=call.key_hash
    )


def meaning(
    claim: Claim | None, fingerprint: str, rules: KeyRules, now_ns: int, *, runs: bool
) -> Meaning:
    """What a key's claim means for a call with this fingerprint (gateway.md §2.3).

    ``runs``: whoever made the claim is still at its call.
    """
    if claim is None:
        return Execute()
    if claim.fingerprint != fingerprint:
        return _reused()
    if claim.expires_at_ns <= now_ns and claim.state in ("completed", "resolved_done"):
        return _take_over(claim) if rules.class_ != "irreversible" else _expired()
    if claim.state in ("completed", "resolved_done"):
        return Replay(claim=claim) if claim.answer is not None else _not_kept(claim)
    if claim.state in ("failed_safe", "resolved_not_done"):
        return _take_over(claim)
    if claim.state != "unknown" and runs:
        return InFlight()
    if claim.state == "claimed" and not claim.possible:
        return _take_over(claim)
    again = rules.upstream_idempotent and now_ns < claim.expires_at_ns
    return _take_over(claim, possible=True) if again else Unknown(claim=claim)


def in_flight() -> Refusal:
    """409 while another call with the key is on its way."""
    return Refusal(
        status=409,
        code="in_flight",
        detail="a call with this key is on its way; ask again with the same key",
        next_action="retry",
        retry_after=RETRY_AFTER_SECONDS,
    )


def outcome_unknown(why: str) -> Refusal:
    """409 for a call that may have happened."""
    return Refusal(
        status=409,
        code="outcome_unknown",
        detail=f"it is not known whether the call happened ({why}); it will not be sent again. "
        "Do not repeat it under another key; ask an operator or look the effect up",
    )


def not_settled(seconds: int) -> Refusal:
    """409 for a call the tool's recipe does not show yet: it may still be on its way there."""
    return Refusal(
        status=409,
        code="outcome_unknown",
        detail="it is not known whether the call happened: the tool does not show it, which proves "
        f"nothing while it may still be at work; ask again with the same key in {seconds} s. "
        "Do not repeat it under another key",
        next_action="retry",
        retry_after=seconds,
    )


def _take_over(claim: Claim, *, possible: bool = False) -> Execute:
    seen = Seen(claim_id=claim.claim_id, fence=claim.fence, state=claim.state)
    return Execute(attempt=claim.attempt + 1, seen=seen, possible=possible)


def _reused() -> Refusal:
    return Refusal(
        status=422,
        code="key_reused",
        detail="this key was used for another request; use a new key for a new action",
        next_action="request",
    )


def _expired() -> Refusal:
    return Refusal(
        status=409,
        code="key_expired",
        detail="a call with this key was made and its answer has expired; it is not made again",
    )


def _not_kept(claim: Claim) -> Refusal:
    return Refusal(
        status=409,
        code="replay_body_unavailable",
        detail=f"the call was made, its answer was not kept; see receipt {claim.receipt_id}",
    )
