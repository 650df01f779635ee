"""What the control API answers with, where the product's own records are not it.

Rules
1. Nothing secret has a field here: no hash of a key's secret, no credential of an upstream, no
   sealed arguments. A key's text is in ``CreatedKey`` alone.
2. A page without ``next_cursor`` is the last.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from processors.model.call import Approval, ApprovalStatus, EffectKnown
from processors.model.names import Capture, Effect, PrincipalKind, SideEffectClass
from processors.model.principal import KeyKind, Role
from processors.model.step import Step
from sidecar.gateway.allowance import BudgetStanding
from sidecar.gateway.config import Mode
from sidecar.gateway.problem import NextAction
from sidecar.store.durable import DurableState
from sidecar.store.glass import GlassState, GlassVote
from sidecar.store.ledger import ClaimState
from sidecar.store.stop import Stop
from sidecar.store.traces import TraceSummary
from sidecar.store.verdicts import VerdictSummary


class TracePage(Struct, frozen=True, kw_only=True):
    """Newest revisions, newest start first."""

    traces: tuple[TraceSummary, ...]
    next_cursor: str | UnsetType = UNSET


class StepPage(Struct, frozen=True, kw_only=True):
    """Steps of one revision, in its order."""

    trace_id: str
    revision: int
    steps: tuple[Step, ...]
    next_cursor: str | UnsetType = UNSET


class RevisionList(Struct, frozen=True, kw_only=True):
    """All revisions of one trace, oldest first."""

    revisions: tuple[TraceSummary, ...]


class Publications(Struct, frozen=True, kw_only=True):
    """Revisions in the order in which they were published; ask again with ``after`` = ``place``."""

    traces: tuple[TraceSummary, ...]
    place: int


class Call(Struct, frozen=True, kw_only=True):
    """A tool call through the gateway: its last receipt in short."""

    call_id: str
    project: str
    principal: str
    tool: str
    class_: SideEffectClass = field(name="class")
    phase: str
    status: int
    effect: EffectKnown
    decision_effect: Effect
    code: str | None
    approval_id: str | None
    trace_id: str | None
    started_at_ns: int
    finished_at_ns: int
    state: ClaimState | None


class CallPage(Struct, frozen=True, kw_only=True):
    """Calls, newest first."""

    calls: tuple[Call, ...]
    next_cursor: str | UnsetType = UNSET


class ReceiptDocument(Struct, frozen=True, kw_only=True):
    """A receipt as it was signed (docs/specs/gateway.md); times are decimal text."""

    receipt_id: str
    call_id: str
    phase: str
    project: str
    principal: str
    principal_kind: PrincipalKind
    tool: str
    class_: SideEffectClass = field(name="class")
    action_hash: str
    decision_id: str
    decision_effect: Effect
    reasons: tuple[str, ...]
    policy_revision: str
    effect: EffectKnown
    status: int
    started_at_ns: str
    finished_at_ns: str
    upstream: str | None
    upstream_status: int | None
    approval_id: str | None
    key_hash: str | None
    attempt: int
    request_digest: str | None
    response_digest: str | None
    trace_id: str | None
    span_id: str | None
    episode: str | None
    enforcement: str
    code: str | None
    kid: str
    signature: str
    upstream_authority: str | UnsetType = UNSET
    upstream_address: str | UnsetType = UNSET


class CallDetail(Call, frozen=True, kw_only=True):
    """A call with its receipts, oldest first."""

    receipts: tuple[ReceiptDocument, ...]


class DurableCallDocument(Struct, frozen=True, kw_only=True):
    """A call that the gateway makes for an agent that does not wait. Times are nanoseconds as text;
    ``code`` says why it was last not done."""

    durable_id: str
    project: str
    principal: str
    tool: str
    key_hash: str
    state: DurableState
    attempts: int
    due_at_ns: str
    ends_at_ns: str
    created_at_ns: str
    updated_at_ns: str
    code: str | None


class DurableCallList(Struct, frozen=True, kw_only=True):
    """Durable calls, newest first."""

    calls: tuple[DurableCallDocument, ...]


class ApprovalPage(Struct, frozen=True, kw_only=True):
    """Requests for approval, newest first."""

    approvals: tuple[Approval, ...]
    next_cursor: str | UnsetType = UNSET


class BatchOutcome(Struct, frozen=True, kw_only=True):
    """What became of one vote of a batch: whether it counted, how the request stands, or the code
    and words of why it did not."""

    approval_id: str
    counted: bool
    status: ApprovalStatus | None = None
    code: str | None = None
    detail: str | None = None


class BatchOutcomes(Struct, frozen=True, kw_only=True):
    """One outcome for each request that was listed, in that order."""

    outcomes: tuple[BatchOutcome, ...]


class BudgetList(Struct, frozen=True, kw_only=True):
    """Accounts of configured budgets, by name; one is there once it was used."""

    budgets: tuple[BudgetStanding, ...]


class BreakGlassDocument(Struct, frozen=True, kw_only=True):
    """A glass: ``document`` is the text that ``digest`` is of and ``signature`` (hex, by the
    signing key ``kid``) signs, both over ``agwb/1``, a line feed and the document."""

    glass_id: str
    project: str
    approval_id: str
    state: GlassState
    document: str
    digest: str
    kid: str
    signature: str
    opened_at_ns: int
    expires_at_ns: int
    broken_at_ns: int | None
    reviewed_at_ns: int | None
    reviewed_by: str
    review: str
    votes: tuple[GlassVote, ...]


class BreakGlassList(Struct, frozen=True, kw_only=True):
    """Glasses: those whose review is open, then the newest."""

    glasses: tuple[BreakGlassDocument, ...]


class StopList(Struct, frozen=True, kw_only=True):
    """Kill switches and freezes: those that stand, then those that were lifted, newest first."""

    stops: tuple[Stop, ...]


class VerdictPage(Struct, frozen=True, kw_only=True):
    """Verdicts of the gate, newest first."""

    verdicts: tuple[VerdictSummary, ...]
    next_cursor: str | UnsetType = UNSET


class AuditHeadDocument(Struct, frozen=True, kw_only=True):
    """The signed end of the chain. ``public_key`` and ``signature`` are base64."""

    seq: int
    hash: str
    signed_at_ns: str
    kid: str
    public_key: str
    signature: str


class AuditVerification(Struct, frozen=True, kw_only=True):
    """Whether the chain is as it was written: ``entries`` good ones, then the first bad place."""

    good: bool
    entries: int
    hash: str
    first_bad_index: int | None
    what: str | None
    keys: tuple[str, ...]


class AuditRecord(Struct, frozen=True, kw_only=True):
    """One line of an export: an entry, or at the end the signed head.

    Of another project's entry only place and hashes are told, which is what links the chain.
    """

    seq: int
    hash: str
    prev: str | UnsetType = UNSET
    at_ns: str | UnsetType = UNSET
    project: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    body: Any | UnsetType = UNSET
    head: AuditHeadDocument | UnsetType = UNSET


class ProjectDocument(Struct, frozen=True, kw_only=True):
    """A project that the caller may see, and what is kept of it."""

    name: str
    role: str
    capture: Capture
    traces_retention: str
    content_retention: str


class ProjectList(Struct, frozen=True, kw_only=True):
    """The caller's projects, its own first."""

    projects: tuple[ProjectDocument, ...]


class KeyDocument(Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    key_id: str
    kind: KeyKind
    project: str
    name: str
    role: Role | None
    tools: tuple[str, ...]
    created_at_ns: int
    expires_at_ns: int | None
    revoked_at_ns: int | None
    previous_until_ns: int | None
    owner: str
    on_behalf_of: str


class KeyPage(Struct, frozen=True, kw_only=True):
    """Keys of one project, oldest first."""

    keys: tuple[KeyDocument, ...]
    next_cursor: str | UnsetType = UNSET


class CreatedKey(KeyDocument, frozen=True, kw_only=True):
    """A key that was made or got a new secret: ``key`` is its text, told this once."""

    key: str


class ToolDocument(Struct, frozen=True, kw_only=True):
    """A registered tool: which requests it is, and how they are treated."""

    name: str
    upstream: str
    method: str
    path: str
    class_: SideEffectClass = field(name="class")
    mode: str
    tool_digest: str
    timeout: str
    has_schema: bool
    has_cost: bool
    reconciles: bool


class ToolList(Struct, frozen=True, kw_only=True):
    """The registry, by name."""

    tools: tuple[ToolDocument, ...]


class PolicyDocument(Struct, frozen=True, kw_only=True):
    """What decides: ``revision`` is the digest of the bundle's files."""

    engine: str
    revision: str
    mode: Mode
    approvers: int
    approvals_expire: str
    approvals_execute_within: str
    distinct_from: tuple[str, ...]


class Caller(Struct, frozen=True, kw_only=True):
    """The caller, as its credential makes it known."""

    id: str
    kind: PrincipalKind
    project: str
    name: str
    role: str
    projects: tuple[str, ...]
    permissions: tuple[str, ...]


class Version(Struct, frozen=True, kw_only=True):
    """The program that answers."""

    name: str
    version: str
    api: str


class Problem(Struct, frozen=True, kw_only=True):
    """A refusal (RFC 9457). ``code`` is stable; ``detail`` is for people."""

    type: str
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    code: str
    detail: str
    decision_id: str
    reasons: tuple[str, ...]
    next_action: NextAction
    retry_after: int | UnsetType = UNSET
