from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListVerdictsRequest(_message.Message):
    __slots__ = ("project", "suite", "limit", "cursor")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    SUITE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    project: str
    suite: str
    limit: int
    cursor: str
    def __init__(self, project: _Optional[str] = ..., suite: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class VerdictPage(_message.Message):
    __slots__ = ("verdicts", "next_cursor")
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedCompositeFieldContainer[VerdictSummary]
    next_cursor: str
    def __init__(self, verdicts: _Optional[_Iterable[_Union[VerdictSummary, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class VerdictSummary(_message.Message):
    __slots__ = ("verdict_id", "project", "suite", "baseline", "candidate", "status", "exit_code", "created_at_ns")
    VERDICT_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    SUITE_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    verdict_id: str
    project: str
    suite: str
    baseline: str
    candidate: str
    status: str
    exit_code: int
    created_at_ns: int
    def __init__(self, verdict_id: _Optional[str] = ..., project: _Optional[str] = ..., suite: _Optional[str] = ..., baseline: _Optional[str] = ..., candidate: _Optional[str] = ..., status: _Optional[str] = ..., exit_code: _Optional[int] = ..., created_at_ns: _Optional[int] = ...) -> None: ...

class GetVerdictRequest(_message.Message):
    __slots__ = ("project", "verdict_id")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_ID_FIELD_NUMBER: _ClassVar[int]
    project: str
    verdict_id: str
    def __init__(self, project: _Optional[str] = ..., verdict_id: _Optional[str] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("verdict_id", "project", "suite", "baseline", "candidate", "status", "exit_code", "findings", "failures", "counts", "created_at_ns", "digest", "evidence")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VERDICT_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    SUITE_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    verdict_id: str
    project: str
    suite: str
    baseline: str
    candidate: str
    status: str
    exit_code: int
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    counts: _containers.ScalarMap[str, int]
    created_at_ns: int
    digest: str
    evidence: _struct_pb2.Struct
    def __init__(self, verdict_id: _Optional[str] = ..., project: _Optional[str] = ..., suite: _Optional[str] = ..., baseline: _Optional[str] = ..., candidate: _Optional[str] = ..., status: _Optional[str] = ..., exit_code: _Optional[int] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ..., counts: _Optional[_Mapping[str, int]] = ..., created_at_ns: _Optional[int] = ..., digest: _Optional[str] = ..., evidence: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("rule", "severity", "detail", "cases", "operands")
    RULE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    CASES_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    rule: str
    severity: str
    detail: str
    cases: _containers.RepeatedScalarFieldContainer[str]
    operands: _struct_pb2.Struct
    def __init__(self, rule: _Optional[str] = ..., severity: _Optional[str] = ..., detail: _Optional[str] = ..., cases: _Optional[_Iterable[str]] = ..., operands: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("case", "case_class", "expectation", "detail", "first_difference")
    CASE_FIELD_NUMBER: _ClassVar[int]
    CASE_CLASS_FIELD_NUMBER: _ClassVar[int]
    EXPECTATION_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FIRST_DIFFERENCE_FIELD_NUMBER: _ClassVar[int]
    case: str
    case_class: str
    expectation: str
    detail: str
    first_difference: str
    def __init__(self, case: _Optional[str] = ..., case_class: _Optional[str] = ..., expectation: _Optional[str] = ..., detail: _Optional[str] = ..., first_difference: _Optional[str] = ...) -> None: ...
