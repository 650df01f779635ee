from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListTracesRequest(_message.Message):
    __slots__ = ("project", "service", "outcome", "since_ns", "until_ns", "limit", "cursor")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    project: str
    service: str
    outcome: str
    since_ns: int
    until_ns: int
    limit: int
    cursor: str
    def __init__(self, project: _Optional[str] = ..., service: _Optional[str] = ..., outcome: _Optional[str] = ..., since_ns: _Optional[int] = ..., until_ns: _Optional[int] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class TracePage(_message.Message):
    __slots__ = ("traces", "next_cursor")
    TRACES_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    traces: _containers.RepeatedCompositeFieldContainer[TraceSummary]
    next_cursor: str
    def __init__(self, traces: _Optional[_Iterable[_Union[TraceSummary, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class TraceSummary(_message.Message):
    __slots__ = ("trace_id", "project", "revision", "service", "version", "started_ns", "ended_ns", "steps", "completeness", "outcome", "contradictions", "published_ns")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    COMPLETENESS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTIONS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_NS_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    project: str
    revision: int
    service: str
    version: str
    started_ns: int
    ended_ns: int
    steps: int
    completeness: str
    outcome: str
    contradictions: _containers.RepeatedScalarFieldContainer[str]
    published_ns: int
    def __init__(self, trace_id: _Optional[str] = ..., project: _Optional[str] = ..., revision: _Optional[int] = ..., service: _Optional[str] = ..., version: _Optional[str] = ..., started_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ..., steps: _Optional[int] = ..., completeness: _Optional[str] = ..., outcome: _Optional[str] = ..., contradictions: _Optional[_Iterable[str]] = ..., published_ns: _Optional[int] = ...) -> None: ...

class GetTraceRequest(_message.Message):
    __slots__ = ("project", "trace_id", "revision")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    project: str
    trace_id: str
    revision: int
    def __init__(self, project: _Optional[str] = ..., trace_id: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class AgentTrace(_message.Message):
    __slots__ = ("trace_id", "trace_ids", "conversation_id", "service", "project", "revision", "completeness", "warnings", "steps", "final_output", "claims", "evidence", "outcome", "detections", "usage_total")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_IDS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    COMPLETENESS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    FINAL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    USAGE_TOTAL_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    trace_ids: _containers.RepeatedScalarFieldContainer[str]
    conversation_id: str
    service: Service
    project: str
    revision: int
    completeness: str
    warnings: _containers.RepeatedCompositeFieldContainer[TraceWarning]
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    final_output: str
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    outcome: Outcome
    detections: _containers.RepeatedCompositeFieldContainer[Detection]
    usage_total: Usage
    def __init__(self, trace_id: _Optional[str] = ..., trace_ids: _Optional[_Iterable[str]] = ..., conversation_id: _Optional[str] = ..., service: _Optional[_Union[Service, _Mapping]] = ..., project: _Optional[str] = ..., revision: _Optional[int] = ..., completeness: _Optional[str] = ..., warnings: _Optional[_Iterable[_Union[TraceWarning, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., final_output: _Optional[str] = ..., claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., detections: _Optional[_Iterable[_Union[Detection, _Mapping]]] = ..., usage_total: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class Service(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class TraceWarning(_message.Message):
    __slots__ = ("code", "detail")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    code: str
    detail: str
    def __init__(self, code: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("step_id", "kind", "name", "subtype", "parent_step_id", "agent", "start_ns", "end_ns", "status", "error", "model", "usage", "messages_in", "messages_out", "output", "tool", "decision", "receipt_id", "content_state", "attributes", "sources")
    class ContentStateEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUBTYPE_FIELD_NUMBER: _ClassVar[int]
    PARENT_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_IN_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_OUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_STATE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    step_id: str
    kind: str
    name: str
    subtype: str
    parent_step_id: str
    agent: Agent
    start_ns: int
    end_ns: int
    status: str
    error: StepError
    model: Model
    usage: Usage
    messages_in: _containers.RepeatedCompositeFieldContainer[Message]
    messages_out: _containers.RepeatedCompositeFieldContainer[Message]
    output: _struct_pb2.Value
    tool: Tool
    decision: StepDecision
    receipt_id: str
    content_state: _containers.ScalarMap[str, str]
    attributes: _struct_pb2.Struct
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    def __init__(self, step_id: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., subtype: _Optional[str] = ..., parent_step_id: _Optional[str] = ..., agent: _Optional[_Union[Agent, _Mapping]] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., status: _Optional[str] = ..., error: _Optional[_Union[StepError, _Mapping]] = ..., model: _Optional[_Union[Model, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., messages_in: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., messages_out: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., output: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., tool: _Optional[_Union[Tool, _Mapping]] = ..., decision: _Optional[_Union[StepDecision, _Mapping]] = ..., receipt_id: _Optional[str] = ..., content_state: _Optional[_Mapping[str, str]] = ..., attributes: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ...) -> None: ...

class Agent(_message.Message):
    __slots__ = ("name", "id", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: str
    version: str
    def __init__(self, name: _Optional[str] = ..., id: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class StepError(_message.Message):
    __slots__ = ("type", "message", "inferred")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    INFERRED_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    inferred: bool
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., inferred: _Optional[bool] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("provider", "request_model", "response_model", "response_id", "finish_reasons")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_MODEL_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_MODEL_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASONS_FIELD_NUMBER: _ClassVar[int]
    provider: str
    request_model: str
    response_model: str
    response_id: str
    finish_reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, provider: _Optional[str] = ..., request_model: _Optional[str] = ..., response_model: _Optional[str] = ..., response_id: _Optional[str] = ..., finish_reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("input", "output", "cache_read", "cache_write", "reasoning", "scope")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CACHE_READ_FIELD_NUMBER: _ClassVar[int]
    CACHE_WRITE_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    scope: str
    def __init__(self, input: _Optional[int] = ..., output: _Optional[int] = ..., cache_read: _Optional[int] = ..., cache_write: _Optional[int] = ..., reasoning: _Optional[int] = ..., scope: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "parts", "name", "finish_reason")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    role: str
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    name: str
    finish_reason: str
    def __init__(self, role: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., name: _Optional[str] = ..., finish_reason: _Optional[str] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("type", "content", "id", "name", "failed")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    type: str
    content: _struct_pb2.Value
    id: str
    name: str
    failed: bool
    def __init__(self, type: _Optional[str] = ..., content: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., failed: _Optional[bool] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "namespace", "call_id", "type", "arguments", "result", "requested_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    namespace: str
    call_id: str
    type: str
    arguments: _struct_pb2.Value
    result: _struct_pb2.Value
    requested_by: str
    def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., call_id: _Optional[str] = ..., type: _Optional[str] = ..., arguments: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., result: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., requested_by: _Optional[str] = ...) -> None: ...

class StepDecision(_message.Message):
    __slots__ = ("effect", "decision_id", "reasons", "source")
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    effect: str
    decision_id: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    source: str
    def __init__(self, effect: _Optional[str] = ..., decision_id: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ..., source: _Optional[str] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("kind", "trace_id", "span_id", "dialect", "ref")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    kind: str
    trace_id: str
    span_id: str
    dialect: str
    ref: str
    def __init__(self, kind: _Optional[str] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., dialect: _Optional[str] = ..., ref: _Optional[str] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("claim_id", "subject", "status", "source", "rule", "step_id", "text", "action", "objects", "amount", "currency", "count", "total", "confidence", "language")
    CLAIM_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    claim_id: str
    subject: str
    status: str
    source: str
    rule: str
    step_id: str
    text: str
    action: str
    objects: _containers.RepeatedScalarFieldContainer[str]
    amount: str
    currency: str
    count: int
    total: int
    confidence: float
    language: str
    def __init__(self, claim_id: _Optional[str] = ..., subject: _Optional[str] = ..., status: _Optional[str] = ..., source: _Optional[str] = ..., rule: _Optional[str] = ..., step_id: _Optional[str] = ..., text: _Optional[str] = ..., action: _Optional[str] = ..., objects: _Optional[_Iterable[str]] = ..., amount: _Optional[str] = ..., currency: _Optional[str] = ..., count: _Optional[int] = ..., total: _Optional[int] = ..., confidence: _Optional[float] = ..., language: _Optional[str] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("evidence_id", "source", "name", "held", "subject", "step_id", "receipt_id", "observed_ns", "detail", "data")
    EVIDENCE_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_NS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    evidence_id: str
    source: str
    name: str
    held: bool
    subject: str
    step_id: str
    receipt_id: str
    observed_ns: int
    detail: str
    data: _struct_pb2.Struct
    def __init__(self, evidence_id: _Optional[str] = ..., source: _Optional[str] = ..., name: _Optional[str] = ..., held: _Optional[bool] = ..., subject: _Optional[str] = ..., step_id: _Optional[str] = ..., receipt_id: _Optional[str] = ..., observed_ns: _Optional[int] = ..., detail: _Optional[str] = ..., data: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("status", "contradictions")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTIONS_FIELD_NUMBER: _ClassVar[int]
    status: str
    contradictions: _containers.RepeatedCompositeFieldContainer[Contradiction]
    def __init__(self, status: _Optional[str] = ..., contradictions: _Optional[_Iterable[_Union[Contradiction, _Mapping]]] = ...) -> None: ...

class Contradiction(_message.Message):
    __slots__ = ("code", "detail", "step_id", "evidence", "said")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    SAID_FIELD_NUMBER: _ClassVar[int]
    code: str
    detail: str
    step_id: str
    evidence: _containers.RepeatedScalarFieldContainer[str]
    said: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[str] = ..., detail: _Optional[str] = ..., step_id: _Optional[str] = ..., evidence: _Optional[_Iterable[str]] = ..., said: _Optional[_Iterable[str]] = ...) -> None: ...

class Detection(_message.Message):
    __slots__ = ("detection_id", "code", "severity", "sentence", "remedy", "steps", "subjects", "evidence", "measures")
    class MeasuresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    DETECTION_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    MEASURES_FIELD_NUMBER: _ClassVar[int]
    detection_id: str
    code: str
    severity: str
    sentence: str
    remedy: str
    steps: _containers.RepeatedScalarFieldContainer[str]
    subjects: _containers.RepeatedScalarFieldContainer[str]
    evidence: _containers.RepeatedCompositeFieldContainer[Exhibit]
    measures: _containers.ScalarMap[str, int]
    def __init__(self, detection_id: _Optional[str] = ..., code: _Optional[str] = ..., severity: _Optional[str] = ..., sentence: _Optional[str] = ..., remedy: _Optional[str] = ..., steps: _Optional[_Iterable[str]] = ..., subjects: _Optional[_Iterable[str]] = ..., evidence: _Optional[_Iterable[_Union[Exhibit, _Mapping]]] = ..., measures: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Exhibit(_message.Message):
    __slots__ = ("role", "step_id", "field", "excerpt")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    EXCERPT_FIELD_NUMBER: _ClassVar[int]
    role: str
    step_id: str
    field: str
    excerpt: str
    def __init__(self, role: _Optional[str] = ..., step_id: _Optional[str] = ..., field: _Optional[str] = ..., excerpt: _Optional[str] = ...) -> None: ...

class ListStepsRequest(_message.Message):
    __slots__ = ("project", "trace_id", "revision", "kind", "limit", "cursor")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    project: str
    trace_id: str
    revision: int
    kind: str
    limit: int
    cursor: str
    def __init__(self, project: _Optional[str] = ..., trace_id: _Optional[str] = ..., revision: _Optional[int] = ..., kind: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class StepPage(_message.Message):
    __slots__ = ("trace_id", "revision", "steps", "next_cursor")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    revision: int
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    next_cursor: str
    def __init__(self, trace_id: _Optional[str] = ..., revision: _Optional[int] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class ListRevisionsRequest(_message.Message):
    __slots__ = ("project", "trace_id")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    project: str
    trace_id: str
    def __init__(self, project: _Optional[str] = ..., trace_id: _Optional[str] = ...) -> None: ...

class RevisionList(_message.Message):
    __slots__ = ("revisions",)
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    revisions: _containers.RepeatedCompositeFieldContainer[TraceSummary]
    def __init__(self, revisions: _Optional[_Iterable[_Union[TraceSummary, _Mapping]]] = ...) -> None: ...

class ListPublicationsRequest(_message.Message):
    __slots__ = ("project", "after", "service", "outcome", "limit", "wait")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    project: str
    after: int
    service: str
    outcome: str
    limit: int
    wait: int
    def __init__(self, project: _Optional[str] = ..., after: _Optional[int] = ..., service: _Optional[str] = ..., outcome: _Optional[str] = ..., limit: _Optional[int] = ..., wait: _Optional[int] = ...) -> None: ...

class Publications(_message.Message):
    __slots__ = ("traces", "place")
    TRACES_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    traces: _containers.RepeatedCompositeFieldContainer[TraceSummary]
    place: int
    def __init__(self, traces: _Optional[_Iterable[_Union[TraceSummary, _Mapping]]] = ..., place: _Optional[int] = ...) -> None: ...

class TailTracesRequest(_message.Message):
    __slots__ = ("project", "after", "service", "outcome")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    project: str
    after: int
    service: str
    outcome: str
    def __init__(self, project: _Optional[str] = ..., after: _Optional[int] = ..., service: _Optional[str] = ..., outcome: _Optional[str] = ...) -> None: ...
