"""What each operation of the control API is asked with: one record an operation.

Rules
1. These types are the description: the router, the OpenAPI document, the gRPC messages and the
   checks of what comes in are all made from them.
2. A field whose name stands in the operation's path is taken from there; of a POST the others are
   the body, of a GET the query. ``project`` is never in a body.
3. Every text has a pattern or a longest length, every number a range.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from processors.model.call import ApprovalStatus
from processors.model.names import OutcomeStatus, StepKind
from sidecar.identity.roles import Actor
from sidecar.store.durable import DurableState
from sidecar.store.glass import GlassState
from sidecar.store.ledger import ClaimState
from sidecar.store.stop import StopKind, StopScope

LIST_MAX = 1000
WAIT_SECONDS_MAX = 55
REASON_CHARS_MAX = 1000

Id = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_.:-]{1,128}$")]
Cursor = Annotated[
    str,
    Meta(
        pattern=r"^(0|[1-9][0-9]{0,18})\.[0-9A-Za-z_.:-]{1,128}$",
        description="`next_cursor` of the page before; its form may change.",
    ),
]
BATCH_MAX = 100
Filter = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,256}$")]
Limit = Annotated[int, Meta(ge=1, le=LIST_MAX, description="At most this many in one page.")]
Place = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Moment = Annotated[int, Meta(ge=0, le=2**63 - 1, description="Nanoseconds since the Unix epoch.")]
Wait = Annotated[
    int,
    Meta(
        ge=0,
        le=WAIT_SECONDS_MAX,
        description="Seconds to hold the request while the answer is still the one whose ETag"
        " stands in `If-None-Match`; without that header nothing is waited for.",
    ),
]
Reason = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00]*[^\s\x00-\x1f][^\x00]*$",
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Why; masked, then kept in the audit chain for good.",
    ),
]
Name = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{0,128}$")]


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``project``: the one to act in, where the credential has a part in several."""

    project: Filter | None = None


class ListTracesRequest(Request, frozen=True, kw_only=True):
    """Which traces; times are of a trace's start."""

    service: Filter | None = None
    outcome: OutcomeStatus | None = None
    since_ns: Moment | None = None
    until_ns: Moment | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class GetTraceRequest(Request, frozen=True, kw_only=True):
    """Which trace, and which of its revisions; by default the newest."""

    trace_id: Id
    revision: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class ListStepsRequest(Request, frozen=True, kw_only=True):
    """Which trace's steps; the cursor is the number of the step before, and its id."""

    trace_id: Id
    revision: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    kind: StepKind | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class ListRevisionsRequest(Request, frozen=True, kw_only=True):
    """Which trace's revisions."""

    trace_id: Id


class ListPublicationsRequest(Request, frozen=True, kw_only=True):
    """Revisions published after a place; without one, where the feed stands now."""

    after: Place | None = None
    service: Filter | None = None
    outcome: OutcomeStatus | None = None
    limit: Limit = 100
    wait: Wait = 0


class TailTracesRequest(Request, frozen=True, kw_only=True):
    """Revisions to follow as they are published; ``after`` a place, by default from now on."""

    after: Place | None = None
    service: Filter | None = None
    outcome: OutcomeStatus | None = None


class ListCallsRequest(Request, frozen=True, kw_only=True):
    """Which tool calls; ``trace`` is a trace id, ``state`` that of the idempotency key's claim."""

    tool: Filter | None = None
    trace: Id | None = None
    state: ClaimState | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class GetCallRequest(Request, frozen=True, kw_only=True):
    """Which call."""

    call_id: Id


class GetReceiptRequest(Request, frozen=True, kw_only=True):
    """Which receipt."""

    receipt_id: Id


class ResolveCallRequest(Request, frozen=True, kw_only=True):
    """What became of a call whose outcome is unknown: ``done``, it had its effect; ``not_done``, it
    had none and never will, so that the same key may be used for another attempt."""

    call_id: Id
    outcome: Literal["done", "not_done"]
    reason: Reason


class ListDurableCallsRequest(Request, frozen=True, kw_only=True):
    """Which durable calls; those in state ``dead`` are dead letters."""

    state: DurableState | None = None
    limit: Limit = 100


class DisposeCallRequest(Request, frozen=True, kw_only=True):
    """Which dead letter, and why it is put back or away."""

    durable_id: Id
    reason: Reason


class ListApprovalsRequest(Request, frozen=True, kw_only=True):
    """Which requests for approval, as they stand now."""

    status: ApprovalStatus | None = None
    limit: Limit = 100
    cursor: Cursor | None = None
    wait: Wait = 0


class GetApprovalRequest(Request, frozen=True, kw_only=True):
    """Which request for approval."""

    approval_id: Id
    wait: Wait = 0


class WatchApprovalsRequest(Request, frozen=True, kw_only=True):
    """Which requests to be told of, now and at every change."""

    status: ApprovalStatus | None = None


class ApproveRequest(Request, frozen=True, kw_only=True):
    """A vote for a request. ``shown_digest`` says which summary the approver saw."""

    approval_id: Id
    reason: Reason
    shown_digest: Filter


class DenyRequest(Request, frozen=True, kw_only=True):
    """A vote against a request. ``shown_digest`` says which summary the approver saw, if any."""

    approval_id: Id
    reason: Reason
    shown_digest: Filter | None = None


class BatchItem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of a batch: which, for which action, and which summary the approver saw."""

    approval_id: Id
    action_hash: Filter
    shown_digest: Filter


class ApproveBatchRequest(Request, frozen=True, kw_only=True):
    """Votes for the requests that are listed, each named by its id and its action; nothing else
    names one. Each is a vote of its own and counts, or not, for itself."""

    approvals: Annotated[tuple[BatchItem, ...], Meta(min_length=1, max_length=BATCH_MAX)]
    reason: Reason


class ListBudgetsRequest(Request, frozen=True, kw_only=True):
    """Which budgets: all that the project can see."""


class ListBreakGlassesRequest(Request, frozen=True, kw_only=True):
    """Which glasses, those whose review is open first."""

    state: GlassState | None = None
    limit: Limit = 100


class OpenBreakGlassRequest(Request, frozen=True, kw_only=True):
    """On which request to break the glass, seen as ``shown_digest``: the first of two words."""

    approval_id: Id
    reason: Reason
    shown_digest: Filter


class BreakGlassRequest(Request, frozen=True, kw_only=True):
    """Which glass to break; ``digest`` says which document the person saw: the second word."""

    glass_id: Id
    reason: Reason
    digest: Filter


class ReviewBreakGlassRequest(Request, frozen=True, kw_only=True):
    """Whose review to close, and what came of it."""

    glass_id: Id
    reason: Reason


class ListStopsRequest(Request, frozen=True, kw_only=True):
    """Which stops."""

    limit: Limit = 100


class SetStopRequest(Request, frozen=True, kw_only=True):
    """What to stop. ``subject`` is the agent (`key:<id>`) or the tool, empty for the project."""

    kind: StopKind
    scope: StopScope
    subject: Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{0,256}$")] = ""
    reason: Reason


class LiftStopRequest(Request, frozen=True, kw_only=True):
    """A vote to lift a stop."""

    stop_id: Id
    reason: Reason


class GetPolicyOfferRequest(Request, frozen=True, kw_only=True):
    """The policy that people vote on."""


class VotePolicyRequest(Request, frozen=True, kw_only=True):
    """A vote on a looser policy, by its revision."""

    revision: Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
    reason: Reason


class ListVerdictsRequest(Request, frozen=True, kw_only=True):
    """Which verdicts of the gate."""

    suite: Filter | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class GetVerdictRequest(Request, frozen=True, kw_only=True):
    """Which verdict."""

    verdict_id: Id


class GetAuditHeadRequest(Request, frozen=True, kw_only=True):
    """The signed end of the chain."""


class VerifyAuditRequest(Request, frozen=True, kw_only=True):
    """The whole chain."""


class ExportAuditRequest(Request, frozen=True, kw_only=True):
    """From which place of the chain on; by default all of it."""

    after: Place = 0


class ListKeysRequest(Request, frozen=True, kw_only=True):
    """Which keys."""

    limit: Limit = 100
    cursor: Cursor | None = None


class KeyRequest(Request, frozen=True, kw_only=True):
    """Which key."""

    key_id: Id


class CreateKeyRequest(Request, frozen=True, kw_only=True):
    """A new key. ``role``: an agent, or what a person is in the project (docs/specs/identity.md).

    ``tools``: the only ones an agent may call, all where empty. ``owner``: who answers for an
    agent, ``on_behalf_of``: for whom it acts, by name; neither approves its calls. It opens
    for ``lifetime_seconds``, for ever without.
    """

    role: Actor
    name: Name = ""
    tools: Annotated[tuple[Id, ...], Meta(max_length=256)] = ()
    lifetime_seconds: Annotated[int, Meta(ge=1, le=3650 * 86400)] | None = None
    owner: Name = ""
    on_behalf_of: Name = ""


class RotateKeyRequest(Request, frozen=True, kw_only=True):
    """Which key gets a new secret; the one before opens for ``overlap_seconds`` more."""

    key_id: Id
    overlap_seconds: Annotated[int, Meta(ge=0, le=30 * 86400)] = 0


class ListProjectsRequest(Request, frozen=True, kw_only=True):
    """The caller's projects."""


class ListToolsRequest(Request, frozen=True, kw_only=True):
    """The registered tools."""


class GetPolicyRequest(Request, frozen=True, kw_only=True):
    """What decides."""


class WhoAmIRequest(Request, frozen=True, kw_only=True):
    """The caller."""


class GetVersionRequest(Request, frozen=True, kw_only=True):
    """The program."""
