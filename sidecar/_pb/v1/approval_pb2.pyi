from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListApprovalsRequest(_message.Message):
    __slots__ = ("project", "status", "limit", "cursor", "wait")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    project: str
    status: str
    limit: int
    cursor: str
    wait: int
    def __init__(self, project: _Optional[str] = ..., status: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ..., wait: _Optional[int] = ...) -> None: ...

class ApprovalPage(_message.Message):
    __slots__ = ("approvals", "next_cursor")
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    approvals: _containers.RepeatedCompositeFieldContainer[Approval]
    next_cursor: str
    def __init__(self, approvals: _Optional[_Iterable[_Union[Approval, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class Approval(_message.Message):
    __slots__ = ("approval_id", "project", "requester", "tool", "action_hash", "key_hash", "policy_revision", "tool_digest", "status", "summary", "requested_at_ns", "expires_at_ns", "approvers_min", "decision_id", "trace_id", "votes", "consumed_by", "requester_name", "roles", "shown_digest", "requester_owner", "fields", "decide_by_ns", "execute_by_ns", "on_behalf_of", "step_up", "glass_id")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ACTION_HASH_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    POLICY_REVISION_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_NS_FIELD_NUMBER: _ClassVar[int]
    APPROVERS_MIN_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_BY_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    SHOWN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_OWNER_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    DECIDE_BY_NS_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_BY_NS_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    STEP_UP_FIELD_NUMBER: _ClassVar[int]
    GLASS_ID_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    project: str
    requester: str
    tool: str
    action_hash: str
    key_hash: str
    policy_revision: str
    tool_digest: str
    status: str
    summary: str
    requested_at_ns: int
    expires_at_ns: int
    approvers_min: int
    decision_id: str
    trace_id: str
    votes: _containers.RepeatedCompositeFieldContainer[Vote]
    consumed_by: str
    requester_name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    shown_digest: str
    requester_owner: str
    fields: _containers.RepeatedScalarFieldContainer[str]
    decide_by_ns: int
    execute_by_ns: int
    on_behalf_of: str
    step_up: _containers.RepeatedCompositeFieldContainer[StepUp]
    glass_id: str
    def __init__(self, approval_id: _Optional[str] = ..., project: _Optional[str] = ..., requester: _Optional[str] = ..., tool: _Optional[str] = ..., action_hash: _Optional[str] = ..., key_hash: _Optional[str] = ..., policy_revision: _Optional[str] = ..., tool_digest: _Optional[str] = ..., status: _Optional[str] = ..., summary: _Optional[str] = ..., requested_at_ns: _Optional[int] = ..., expires_at_ns: _Optional[int] = ..., approvers_min: _Optional[int] = ..., decision_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., votes: _Optional[_Iterable[_Union[Vote, _Mapping]]] = ..., consumed_by: _Optional[str] = ..., requester_name: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., shown_digest: _Optional[str] = ..., requester_owner: _Optional[str] = ..., fields: _Optional[_Iterable[str]] = ..., decide_by_ns: _Optional[int] = ..., execute_by_ns: _Optional[int] = ..., on_behalf_of: _Optional[str] = ..., step_up: _Optional[_Iterable[_Union[StepUp, _Mapping]]] = ..., glass_id: _Optional[str] = ...) -> None: ...

class Vote(_message.Message):
    __slots__ = ("voter", "decision", "reason", "voted_at_ns", "shown_digest", "authn")
    VOTER_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VOTED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    SHOWN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    AUTHN_FIELD_NUMBER: _ClassVar[int]
    voter: str
    decision: str
    reason: str
    voted_at_ns: int
    shown_digest: str
    authn: Authn
    def __init__(self, voter: _Optional[str] = ..., decision: _Optional[str] = ..., reason: _Optional[str] = ..., voted_at_ns: _Optional[int] = ..., shown_digest: _Optional[str] = ..., authn: _Optional[_Union[Authn, _Mapping]] = ...) -> None: ...

class Authn(_message.Message):
    __slots__ = ("method", "acr", "amr", "auth_time_ns")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    ACR_FIELD_NUMBER: _ClassVar[int]
    AMR_FIELD_NUMBER: _ClassVar[int]
    AUTH_TIME_NS_FIELD_NUMBER: _ClassVar[int]
    method: str
    acr: str
    amr: _containers.RepeatedScalarFieldContainer[str]
    auth_time_ns: int
    def __init__(self, method: _Optional[str] = ..., acr: _Optional[str] = ..., amr: _Optional[_Iterable[str]] = ..., auth_time_ns: _Optional[int] = ...) -> None: ...

class StepUp(_message.Message):
    __slots__ = ("acr", "amr", "max_age_s")
    ACR_FIELD_NUMBER: _ClassVar[int]
    AMR_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_S_FIELD_NUMBER: _ClassVar[int]
    acr: _containers.RepeatedScalarFieldContainer[str]
    amr: _containers.RepeatedScalarFieldContainer[str]
    max_age_s: int
    def __init__(self, acr: _Optional[_Iterable[str]] = ..., amr: _Optional[_Iterable[str]] = ..., max_age_s: _Optional[int] = ...) -> None: ...

class GetApprovalRequest(_message.Message):
    __slots__ = ("project", "approval_id", "wait")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    project: str
    approval_id: str
    wait: int
    def __init__(self, project: _Optional[str] = ..., approval_id: _Optional[str] = ..., wait: _Optional[int] = ...) -> None: ...

class WatchApprovalsRequest(_message.Message):
    __slots__ = ("project", "status")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    project: str
    status: str
    def __init__(self, project: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...

class ApproveRequest(_message.Message):
    __slots__ = ("project", "approval_id", "reason", "shown_digest")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SHOWN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    project: str
    approval_id: str
    reason: str
    shown_digest: str
    def __init__(self, project: _Optional[str] = ..., approval_id: _Optional[str] = ..., reason: _Optional[str] = ..., shown_digest: _Optional[str] = ...) -> None: ...

class DenyRequest(_message.Message):
    __slots__ = ("project", "approval_id", "reason", "shown_digest")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SHOWN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    project: str
    approval_id: str
    reason: str
    shown_digest: str
    def __init__(self, project: _Optional[str] = ..., approval_id: _Optional[str] = ..., reason: _Optional[str] = ..., shown_digest: _Optional[str] = ...) -> None: ...

class ApproveBatchRequest(_message.Message):
    __slots__ = ("project", "approvals", "reason")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    project: str
    approvals: _containers.RepeatedCompositeFieldContainer[BatchItem]
    reason: str
    def __init__(self, project: _Optional[str] = ..., approvals: _Optional[_Iterable[_Union[BatchItem, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class BatchItem(_message.Message):
    __slots__ = ("approval_id", "action_hash", "shown_digest")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_HASH_FIELD_NUMBER: _ClassVar[int]
    SHOWN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    action_hash: str
    shown_digest: str
    def __init__(self, approval_id: _Optional[str] = ..., action_hash: _Optional[str] = ..., shown_digest: _Optional[str] = ...) -> None: ...

class BatchOutcomes(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[BatchOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[BatchOutcome, _Mapping]]] = ...) -> None: ...

class BatchOutcome(_message.Message):
    __slots__ = ("approval_id", "counted", "status", "code", "detail")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    counted: bool
    status: str
    code: str
    detail: str
    def __init__(self, approval_id: _Optional[str] = ..., counted: _Optional[bool] = ..., status: _Optional[str] = ..., code: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class ListBreakGlassesRequest(_message.Message):
    __slots__ = ("project", "state", "limit")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    project: str
    state: str
    limit: int
    def __init__(self, project: _Optional[str] = ..., state: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class BreakGlassList(_message.Message):
    __slots__ = ("glasses",)
    GLASSES_FIELD_NUMBER: _ClassVar[int]
    glasses: _containers.RepeatedCompositeFieldContainer[BreakGlassDocument]
    def __init__(self, glasses: _Optional[_Iterable[_Union[BreakGlassDocument, _Mapping]]] = ...) -> None: ...

class BreakGlassDocument(_message.Message):
    __slots__ = ("glass_id", "project", "approval_id", "state", "document", "digest", "kid", "signature", "opened_at_ns", "expires_at_ns", "broken_at_ns", "reviewed_at_ns", "reviewed_by", "review", "votes")
    GLASS_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KID_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_NS_FIELD_NUMBER: _ClassVar[int]
    BROKEN_AT_NS_FIELD_NUMBER: _ClassVar[int]
    REVIEWED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    REVIEWED_BY_FIELD_NUMBER: _ClassVar[int]
    REVIEW_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    glass_id: str
    project: str
    approval_id: str
    state: str
    document: str
    digest: str
    kid: str
    signature: str
    opened_at_ns: int
    expires_at_ns: int
    broken_at_ns: int
    reviewed_at_ns: int
    reviewed_by: str
    review: str
    votes: _containers.RepeatedCompositeFieldContainer[GlassVote]
    def __init__(self, glass_id: _Optional[str] = ..., project: _Optional[str] = ..., approval_id: _Optional[str] = ..., state: _Optional[str] = ..., document: _Optional[str] = ..., digest: _Optional[str] = ..., kid: _Optional[str] = ..., signature: _Optional[str] = ..., opened_at_ns: _Optional[int] = ..., expires_at_ns: _Optional[int] = ..., broken_at_ns: _Optional[int] = ..., reviewed_at_ns: _Optional[int] = ..., reviewed_by: _Optional[str] = ..., review: _Optional[str] = ..., votes: _Optional[_Iterable[_Union[GlassVote, _Mapping]]] = ...) -> None: ...

class GlassVote(_message.Message):
    __slots__ = ("voter", "reason", "voted_at_ns", "digest", "authn")
    VOTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VOTED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    AUTHN_FIELD_NUMBER: _ClassVar[int]
    voter: str
    reason: str
    voted_at_ns: int
    digest: str
    authn: Authn
    def __init__(self, voter: _Optional[str] = ..., reason: _Optional[str] = ..., voted_at_ns: _Optional[int] = ..., digest: _Optional[str] = ..., authn: _Optional[_Union[Authn, _Mapping]] = ...) -> None: ...

class OpenBreakGlassRequest(_message.Message):
    __slots__ = ("project", "approval_id", "reason", "shown_digest")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SHOWN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    project: str
    approval_id: str
    reason: str
    shown_digest: str
    def __init__(self, project: _Optional[str] = ..., approval_id: _Optional[str] = ..., reason: _Optional[str] = ..., shown_digest: _Optional[str] = ...) -> None: ...

class BreakGlassRequest(_message.Message):
    __slots__ = ("project", "glass_id", "reason", "digest")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    GLASS_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    project: str
    glass_id: str
    reason: str
    digest: str
    def __init__(self, project: _Optional[str] = ..., glass_id: _Optional[str] = ..., reason: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class ReviewBreakGlassRequest(_message.Message):
    __slots__ = ("project", "glass_id", "reason")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    GLASS_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    project: str
    glass_id: str
    reason: str
    def __init__(self, project: _Optional[str] = ..., glass_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
