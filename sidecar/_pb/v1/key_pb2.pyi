from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListKeysRequest(_message.Message):
    __slots__ = ("project", "limit", "cursor")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    project: str
    limit: int
    cursor: str
    def __init__(self, project: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class KeyPage(_message.Message):
    __slots__ = ("keys", "next_cursor")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[KeyDocument]
    next_cursor: str
    def __init__(self, keys: _Optional[_Iterable[_Union[KeyDocument, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class KeyDocument(_message.Message):
    __slots__ = ("key_id", "kind", "project", "name", "role", "tools", "created_at_ns", "expires_at_ns", "revoked_at_ns", "previous_until_ns", "owner", "on_behalf_of")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_NS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    kind: str
    project: str
    name: str
    role: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    created_at_ns: int
    expires_at_ns: int
    revoked_at_ns: int
    previous_until_ns: int
    owner: str
    on_behalf_of: str
    def __init__(self, key_id: _Optional[str] = ..., kind: _Optional[str] = ..., project: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ..., created_at_ns: _Optional[int] = ..., expires_at_ns: _Optional[int] = ..., revoked_at_ns: _Optional[int] = ..., previous_until_ns: _Optional[int] = ..., owner: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class KeyRequest(_message.Message):
    __slots__ = ("project", "key_id")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    project: str
    key_id: str
    def __init__(self, project: _Optional[str] = ..., key_id: _Optional[str] = ...) -> None: ...

class CreateKeyRequest(_message.Message):
    __slots__ = ("project", "role", "name", "tools", "lifetime_seconds", "owner", "on_behalf_of")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    project: str
    role: str
    name: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    lifetime_seconds: int
    owner: str
    on_behalf_of: str
    def __init__(self, project: _Optional[str] = ..., role: _Optional[str] = ..., name: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ..., lifetime_seconds: _Optional[int] = ..., owner: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class CreatedKey(_message.Message):
    __slots__ = ("key_id", "kind", "project", "name", "role", "tools", "created_at_ns", "expires_at_ns", "revoked_at_ns", "previous_until_ns", "key", "owner", "on_behalf_of")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_NS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ON_BEHALF_OF_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    kind: str
    project: str
    name: str
    role: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    created_at_ns: int
    expires_at_ns: int
    revoked_at_ns: int
    previous_until_ns: int
    key: str
    owner: str
    on_behalf_of: str
    def __init__(self, key_id: _Optional[str] = ..., kind: _Optional[str] = ..., project: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ..., created_at_ns: _Optional[int] = ..., expires_at_ns: _Optional[int] = ..., revoked_at_ns: _Optional[int] = ..., previous_until_ns: _Optional[int] = ..., key: _Optional[str] = ..., owner: _Optional[str] = ..., on_behalf_of: _Optional[str] = ...) -> None: ...

class RotateKeyRequest(_message.Message):
    __slots__ = ("project", "key_id", "overlap_seconds")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    project: str
    key_id: str
    overlap_seconds: int
    def __init__(self, project: _Optional[str] = ..., key_id: _Optional[str] = ..., overlap_seconds: _Optional[int] = ...) -> None: ...
