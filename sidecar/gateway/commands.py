"""What is to be done for a tool call, in the imperative; the counterpart of ``events``.

**Rules**
1. A command is performed once, in order; all but Settle, Release, Keep and Reply are answered by
   one event.
"""

from typing import Literal

from msgspec import Struct

from processors.model.call import EffectKnown
from sidecar.gateway.problem import Refusal
from sidecar.store.ledger import Claim, ClaimState, Fence, Seen

Phase = Literal["executed", "refused", "replayed"]


class LookUpKey(Struct, frozen=True, kw_only=True):
    """Find the claim on the key; wait up to ``wait_ns`` for one in flight to end."""

    wait_ns: int = 0


class Decide(Struct, frozen=True, kw_only=True):
    """Ask policy about the action."""

    attempt: int = 1


class AskApproval(Struct, frozen=True, kw_only=True):
    """Request approval, or find the request; wait up to ``wait_ns`` for it. ``seen``: the claim
    as it was looked up, None where there was none."""

    wait_ns: int = 0
    seen: Seen | None = None


class CommitIntent(Struct, frozen=True, kw_only=True):
    """The one final transaction (gateway.md §0.3)."""

    approval_id: str | None
    seen: Seen | None
    attempt: int


class MarkSent(Struct, frozen=True, kw_only=True):
    """Make it durable that the next thing is the first byte."""

    claim: Fence


class Forward(Struct, frozen=True, kw_only=True):
    """Send, once."""


class Reconcile(Struct, frozen=True, kw_only=True):
    """Find out by the tool's recipe whether the call of this claim happened, and record it."""

    claim: Claim


class Settle(Struct, frozen=True, kw_only=True):
    """What was held is spent."""


class Release(Struct, frozen=True, kw_only=True):
    """What was held is free again."""


class Keep(Struct, frozen=True, kw_only=True):
    """What was held stays held until the outcome is known."""


class Record(Struct, frozen=True, kw_only=True):
    """Write the receipt, and how the claim ends if this call made one (``end``). ``replays`` is the
    receipt of the call whose answer is given again: its decision is this one's."""

    phase: Phase
    effect: EffectKnown
    status: int
    code: str | None = None
    end: ClaimState | None = None
    claim: Fence | None = None
    upstream_status: int | None = None
    restore_approval: bool = False
    keep_answer: bool = False
    replays: str | None = None


class Reply(Struct, frozen=True, kw_only=True):
    """Answer the agent: with the upstream's answer, a stored one, or a refusal."""

    refusal: Refusal | None = None
    stored: Claim | None = None


Command = (
    LookUpKey
    | Decide
    | AskApproval
    | CommitIntent
    | MarkSent
    | Forward
    | Reconcile
    | Settle
    | Release
    | Keep
    | Record
    | Reply
)
