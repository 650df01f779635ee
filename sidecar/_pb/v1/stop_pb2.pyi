from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListStopsRequest(_message.Message):
    __slots__ = ("project", "limit")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    project: str
    limit: int
    def __init__(self, project: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class StopList(_message.Message):
    __slots__ = ("stops",)
    STOPS_FIELD_NUMBER: _ClassVar[int]
    stops: _containers.RepeatedCompositeFieldContainer[Stop]
    def __init__(self, stops: _Optional[_Iterable[_Union[Stop, _Mapping]]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("stop_id", "project", "kind", "scope", "subject", "reason", "set_by", "set_at_ns", "lifted_at_ns", "lifts")
    STOP_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SET_BY_FIELD_NUMBER: _ClassVar[int]
    SET_AT_NS_FIELD_NUMBER: _ClassVar[int]
    LIFTED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    LIFTS_FIELD_NUMBER: _ClassVar[int]
    stop_id: str
    project: str
    kind: str
    scope: str
    subject: str
    reason: str
    set_by: str
    set_at_ns: int
    lifted_at_ns: int
    lifts: _containers.RepeatedCompositeFieldContainer[Lift]
    def __init__(self, stop_id: _Optional[str] = ..., project: _Optional[str] = ..., kind: _Optional[str] = ..., scope: _Optional[str] = ..., subject: _Optional[str] = ..., reason: _Optional[str] = ..., set_by: _Optional[str] = ..., set_at_ns: _Optional[int] = ..., lifted_at_ns: _Optional[int] = ..., lifts: _Optional[_Iterable[_Union[Lift, _Mapping]]] = ...) -> None: ...

class Lift(_message.Message):
    __slots__ = ("lifter", "reason", "at_ns")
    LIFTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    lifter: str
    reason: str
    at_ns: int
    def __init__(self, lifter: _Optional[str] = ..., reason: _Optional[str] = ..., at_ns: _Optional[int] = ...) -> None: ...

class SetStopRequest(_message.Message):
    __slots__ = ("project", "kind", "scope", "subject", "reason")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    project: str
    kind: str
    scope: str
    subject: str
    reason: str
    def __init__(self, project: _Optional[str] = ..., kind: _Optional[str] = ..., scope: _Optional[str] = ..., subject: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LiftStopRequest(_message.Message):
    __slots__ = ("project", "stop_id", "reason")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    STOP_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    project: str
    stop_id: str
    reason: str
    def __init__(self, project: _Optional[str] = ..., stop_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
