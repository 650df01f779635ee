from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListCallsRequest(_message.Message):
    __slots__ = ("project", "tool", "trace", "state", "limit", "cursor")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    project: str
    tool: str
    trace: str
    state: str
    limit: int
    cursor: str
    def __init__(self, project: _Optional[str] = ..., tool: _Optional[str] = ..., trace: _Optional[str] = ..., state: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class CallPage(_message.Message):
    __slots__ = ("calls", "next_cursor")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[Call]
    next_cursor: str
    def __init__(self, calls: _Optional[_Iterable[_Union[Call, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("call_id", "project", "principal", "tool", "phase", "status", "effect", "decision_effect", "code", "approval_id", "trace_id", "started_at_ns", "finished_at_ns", "state")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    DECISION_EFFECT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    project: str
    principal: str
    tool: str
    phase: str
    status: int
    effect: str
    decision_effect: str
    code: str
    approval_id: str
    trace_id: str
    started_at_ns: int
    finished_at_ns: int
    state: str
    def __init__(self, call_id: _Optional[str] = ..., project: _Optional[str] = ..., principal: _Optional[str] = ..., tool: _Optional[str] = ..., phase: _Optional[str] = ..., status: _Optional[int] = ..., effect: _Optional[str] = ..., decision_effect: _Optional[str] = ..., code: _Optional[str] = ..., approval_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., started_at_ns: _Optional[int] = ..., finished_at_ns: _Optional[int] = ..., state: _Optional[str] = ..., **kwargs) -> None: ...

class GetCallRequest(_message.Message):
    __slots__ = ("project", "call_id")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    project: str
    call_id: str
    def __init__(self, project: _Optional[str] = ..., call_id: _Optional[str] = ...) -> None: ...

class CallDetail(_message.Message):
    __slots__ = ("call_id", "project", "principal", "tool", "phase", "status", "effect", "decision_effect", "code", "approval_id", "trace_id", "started_at_ns", "finished_at_ns", "state", "receipts")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    DECISION_EFFECT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    project: str
    principal: str
    tool: str
    phase: str
    status: int
    effect: str
    decision_effect: str
    code: str
    approval_id: str
    trace_id: str
    started_at_ns: int
    finished_at_ns: int
    state: str
    receipts: _containers.RepeatedCompositeFieldContainer[ReceiptDocument]
    def __init__(self, call_id: _Optional[str] = ..., project: _Optional[str] = ..., principal: _Optional[str] = ..., tool: _Optional[str] = ..., phase: _Optional[str] = ..., status: _Optional[int] = ..., effect: _Optional[str] = ..., decision_effect: _Optional[str] = ..., code: _Optional[str] = ..., approval_id: _Optional[str] = ..., trace_id: _Optional[str] = ..., started_at_ns: _Optional[int] = ..., finished_at_ns: _Optional[int] = ..., state: _Optional[str] = ..., receipts: _Optional[_Iterable[_Union[ReceiptDocument, _Mapping]]] = ..., **kwargs) -> None: ...

class ReceiptDocument(_message.Message):
    __slots__ = ("receipt_id", "call_id", "phase", "project", "principal", "principal_kind", "tool", "action_hash", "decision_id", "decision_effect", "reasons", "policy_revision", "effect", "status", "started_at_ns", "finished_at_ns", "upstream", "upstream_status", "approval_id", "key_hash", "attempt", "request_digest", "response_digest", "trace_id", "span_id", "episode", "enforcement", "code", "kid", "signature", "upstream_authority", "upstream_address")
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_KIND_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    ACTION_HASH_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_EFFECT_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    POLICY_REVISION_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_STATUS_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    ENFORCEMENT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    KID_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    call_id: str
    phase: str
    project: str
    principal: str
    principal_kind: str
    tool: str
    action_hash: str
    decision_id: str
    decision_effect: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    policy_revision: str
    effect: str
    status: int
    started_at_ns: str
    finished_at_ns: str
    upstream: str
    upstream_status: int
    approval_id: str
    key_hash: str
    attempt: int
    request_digest: str
    response_digest: str
    trace_id: str
    span_id: str
    episode: str
    enforcement: str
    code: str
    kid: str
    signature: str
    upstream_authority: str
    upstream_address: str
    def __init__(self, receipt_id: _Optional[str] = ..., call_id: _Optional[str] = ..., phase: _Optional[str] = ..., project: _Optional[str] = ..., principal: _Optional[str] = ..., principal_kind: _Optional[str] = ..., tool: _Optional[str] = ..., action_hash: _Optional[str] = ..., decision_id: _Optional[str] = ..., decision_effect: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ..., policy_revision: _Optional[str] = ..., effect: _Optional[str] = ..., status: _Optional[int] = ..., started_at_ns: _Optional[str] = ..., finished_at_ns: _Optional[str] = ..., upstream: _Optional[str] = ..., upstream_status: _Optional[int] = ..., approval_id: _Optional[str] = ..., key_hash: _Optional[str] = ..., attempt: _Optional[int] = ..., request_digest: _Optional[str] = ..., response_digest: _Optional[str] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., episode: _Optional[str] = ..., enforcement: _Optional[str] = ..., code: _Optional[str] = ..., kid: _Optional[str] = ..., signature: _Optional[str] = ..., upstream_authority: _Optional[str] = ..., upstream_address: _Optional[str] = ..., **kwargs) -> None: ...

class ResolveCallRequest(_message.Message):
    __slots__ = ("project", "call_id", "outcome", "reason")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    project: str
    call_id: str
    outcome: str
    reason: str
    def __init__(self, project: _Optional[str] = ..., call_id: _Optional[str] = ..., outcome: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ListDurableCallsRequest(_message.Message):
    __slots__ = ("project", "state", "limit")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    project: str
    state: str
    limit: int
    def __init__(self, project: _Optional[str] = ..., state: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class DurableCallList(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[DurableCallDocument]
    def __init__(self, calls: _Optional[_Iterable[_Union[DurableCallDocument, _Mapping]]] = ...) -> None: ...

class DurableCallDocument(_message.Message):
    __slots__ = ("durable_id", "project", "principal", "tool", "key_hash", "state", "attempts", "due_at_ns", "ends_at_ns", "created_at_ns", "updated_at_ns", "code")
    DURABLE_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    KEY_HASH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_NS_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_NS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    durable_id: str
    project: str
    principal: str
    tool: str
    key_hash: str
    state: str
    attempts: int
    due_at_ns: str
    ends_at_ns: str
    created_at_ns: str
    updated_at_ns: str
    code: str
    def __init__(self, durable_id: _Optional[str] = ..., project: _Optional[str] = ..., principal: _Optional[str] = ..., tool: _Optional[str] = ..., key_hash: _Optional[str] = ..., state: _Optional[str] = ..., attempts: _Optional[int] = ..., due_at_ns: _Optional[str] = ..., ends_at_ns: _Optional[str] = ..., created_at_ns: _Optional[str] = ..., updated_at_ns: _Optional[str] = ..., code: _Optional[str] = ...) -> None: ...

class DisposeCallRequest(_message.Message):
    __slots__ = ("project", "durable_id", "reason")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    DURABLE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    project: str
    durable_id: str
    reason: str
    def __init__(self, project: _Optional[str] = ..., durable_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class GetReceiptRequest(_message.Message):
    __slots__ = ("project", "receipt_id")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    project: str
    receipt_id: str
    def __init__(self, project: _Optional[str] = ..., receipt_id: _Optional[str] = ...) -> None: ...

class ListBudgetsRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class BudgetList(_message.Message):
    __slots__ = ("budgets",)
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    budgets: _containers.RepeatedCompositeFieldContainer[BudgetStanding]
    def __init__(self, budgets: _Optional[_Iterable[_Union[BudgetStanding, _Mapping]]] = ...) -> None: ...

class BudgetStanding(_message.Message):
    __slots__ = ("project", "name", "scope", "subject", "unit", "limit", "used", "held", "left", "overdrawn", "window", "window_ends_at_ns")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    OVERDRAWN_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    WINDOW_ENDS_AT_NS_FIELD_NUMBER: _ClassVar[int]
    project: str
    name: str
    scope: str
    subject: str
    unit: str
    limit: str
    used: str
    held: str
    left: str
    overdrawn: bool
    window: str
    window_ends_at_ns: str
    def __init__(self, project: _Optional[str] = ..., name: _Optional[str] = ..., scope: _Optional[str] = ..., subject: _Optional[str] = ..., unit: _Optional[str] = ..., limit: _Optional[str] = ..., used: _Optional[str] = ..., held: _Optional[str] = ..., left: _Optional[str] = ..., overdrawn: _Optional[bool] = ..., window: _Optional[str] = ..., window_ends_at_ns: _Optional[str] = ...) -> None: ...
