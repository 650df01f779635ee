"""What happens to a tool call, in the past tense; the counterpart of ``commands``.

**Rules**
1. An event says what was seen and holds what the machine needs to go on, no more: bodies stay with
   the driver.
"""

from msgspec import Struct

from processors.model.call import Approval, Decision, Reason
from processors.model.names import SideEffectClass
from sidecar.gateway.idempotency import KeyRules
from sidecar.gateway.problem import Refusal
from sidecar.store.budget import Over
from sidecar.store.ledger import Claim, Fence


class CallReceived(Struct, frozen=True, kw_only=True):
    """A request that is an action. ``fingerprint`` is its hash; ``token`` the approval a presented
    token proves, ``token_fault`` the code of why a presented one proves nothing here."""

    class_: SideEffectClass
    fingerprint: str
    rules: KeyRules
    observe: bool = False
    fail_open: bool = False
    refusal: Refusal | None = None
    has_key: bool = False
    token: str | None = None
    token_fault: Refusal | None = None
    wait_ns: int = 0
    asynchronous: bool = False
    respond_async: bool = False
    no_effect_statuses: frozenset[int] = frozenset()


class Malformed(Struct, frozen=True, kw_only=True):
    """A request that is no action."""

    refusal: Refusal


class KeyFound(Struct, frozen=True, kw_only=True):
    """The claim on the call's key, None when there is none; ``runs``: somebody is still at it."""

    claim: Claim | None
    now_ns: int
    runs: bool = False


class Decided(Struct, frozen=True, kw_only=True):
    """Policy's answer; ``exceeded`` says which of its limits the action is beyond, ``no_room`` why
    no budget can let it through. ``reserves``: the call takes of a budget."""

    decision: Decision
    exceeded: Reason | None = None
    no_room: Refusal | None = None
    reserves: bool = False


class Approved(Struct, frozen=True, kw_only=True):
    """Approved while the call waited."""

    approval_id: str


class NotApproved(Struct, frozen=True, kw_only=True):
    """The request as it stands: pending, approved (but the token is not here), denied, …"""

    approval: Approval


class KeyTaken(Struct, frozen=True, kw_only=True):
    """Another call has the key, or it changed since it was looked up."""


class IntentRefused(Struct, frozen=True, kw_only=True):
    """The transaction refused: ``policy_changed``, ``key_revoked``, ``budget_exceeded`` (``over``
    says which) or an ``approval_…`` code; or approval cannot be asked for, since no person could
    judge the call; or ``cooling_off``: it is held for ``retry_after_s`` more."""

    code: str
    over: Over | None = None
    retry_after_s: int | None = None


class SentMarked(Struct, frozen=True, kw_only=True):
    """From here on an effect counts as possible. ``held`` false: another took the claim.

    ``stopped``: it was not marked, since a stop of this code stands.
    """

    held: bool = True
    stopped: str | None = None


class IntentCommitted(Struct, frozen=True, kw_only=True):
    """Key, approval, holds and authorisation are durable, and ours. ``sent``: what came of the mark
    where it was made right after, in a commit of its own."""

    claim: Fence
    sent: SentMarked | None = None


class Stopped(Struct, frozen=True, kw_only=True):
    """A read was not sent, since a stop of this code (``killed``) stands."""

    code: str


class Closed(Struct, frozen=True, kw_only=True):
    """The answer of a read was broken off while it came, since it may not go on: a stop
    (``killed``), or ``policy_changed``, ``key_revoked``, ``fail_closed``."""

    code: str


class UpstreamReplied(Struct, frozen=True, kw_only=True):
    """A whole answer came."""

    status: int
    retry_after: bool = False


class UpstreamFailed(Struct, frozen=True, kw_only=True):
    """No whole answer; ``sent`` false only where nothing can have left."""

    sent: bool
    reason: str


class TimedOut(Struct, frozen=True, kw_only=True):
    """No whole answer in time, after the request may have left."""


class Reconciled(Struct, frozen=True, kw_only=True):
    """What the tool's own recipe says, recorded by us or another: done, not done, None for neither.

    ``settles_in_s``: it found nothing, which proves nothing before so many seconds.
    """

    done: bool | None
    settles_in_s: int | None = None


class Recorded(Struct, frozen=True, kw_only=True):
    """The receipt is durable."""


class StoreFailed(Struct, frozen=True, kw_only=True):
    """What was to be read or written was not."""


Event = (
    CallReceived
    | Malformed
    | KeyFound
    | Decided
    | Approved
    | NotApproved
    | IntentCommitted
    | KeyTaken
    | IntentRefused
    | SentMarked
    | Stopped
    | Closed
    | UpstreamReplied
    | UpstreamFailed
    | TimedOut
    | Reconciled
    | Recorded
    | StoreFailed
)
