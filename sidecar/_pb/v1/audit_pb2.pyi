from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetAuditHeadRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class AuditHeadDocument(_message.Message):
    __slots__ = ("seq", "hash", "signed_at_ns", "kid", "public_key", "signature")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    SIGNED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    KID_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    hash: str
    signed_at_ns: str
    kid: str
    public_key: str
    signature: str
    def __init__(self, seq: _Optional[int] = ..., hash: _Optional[str] = ..., signed_at_ns: _Optional[str] = ..., kid: _Optional[str] = ..., public_key: _Optional[str] = ..., signature: _Optional[str] = ...) -> None: ...

class VerifyAuditRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class AuditVerification(_message.Message):
    __slots__ = ("good", "entries", "hash", "first_bad_index", "what", "keys")
    GOOD_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    FIRST_BAD_INDEX_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    good: bool
    entries: int
    hash: str
    first_bad_index: int
    what: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, good: _Optional[bool] = ..., entries: _Optional[int] = ..., hash: _Optional[str] = ..., first_bad_index: _Optional[int] = ..., what: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class ExportAuditRequest(_message.Message):
    __slots__ = ("project", "after")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    project: str
    after: int
    def __init__(self, project: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class AuditRecord(_message.Message):
    __slots__ = ("seq", "hash", "prev", "at_ns", "project", "kind", "body", "head")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    PREV_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    seq: int
    hash: str
    prev: str
    at_ns: str
    project: str
    kind: str
    body: _struct_pb2.Value
    head: AuditHeadDocument
    def __init__(self, seq: _Optional[int] = ..., hash: _Optional[str] = ..., prev: _Optional[str] = ..., at_ns: _Optional[str] = ..., project: _Optional[str] = ..., kind: _Optional[str] = ..., body: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., head: _Optional[_Union[AuditHeadDocument, _Mapping]] = ...) -> None: ...
