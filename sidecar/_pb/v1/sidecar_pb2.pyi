from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListProjectsRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class ProjectList(_message.Message):
    __slots__ = ("projects",)
    PROJECTS_FIELD_NUMBER: _ClassVar[int]
    projects: _containers.RepeatedCompositeFieldContainer[ProjectDocument]
    def __init__(self, projects: _Optional[_Iterable[_Union[ProjectDocument, _Mapping]]] = ...) -> None: ...

class ProjectDocument(_message.Message):
    __slots__ = ("name", "role", "capture", "traces_retention", "content_retention")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CAPTURE_FIELD_NUMBER: _ClassVar[int]
    TRACES_RETENTION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_RETENTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    capture: str
    traces_retention: str
    content_retention: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., capture: _Optional[str] = ..., traces_retention: _Optional[str] = ..., content_retention: _Optional[str] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class ToolList(_message.Message):
    __slots__ = ("tools",)
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[ToolDocument]
    def __init__(self, tools: _Optional[_Iterable[_Union[ToolDocument, _Mapping]]] = ...) -> None: ...

class ToolDocument(_message.Message):
    __slots__ = ("name", "upstream", "method", "path", "mode", "tool_digest", "timeout", "has_schema", "has_cost", "reconciles")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    HAS_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    HAS_COST_FIELD_NUMBER: _ClassVar[int]
    RECONCILES_FIELD_NUMBER: _ClassVar[int]
    name: str
    upstream: str
    method: str
    path: str
    mode: str
    tool_digest: str
    timeout: str
    has_schema: bool
    has_cost: bool
    reconciles: bool
    def __init__(self, name: _Optional[str] = ..., upstream: _Optional[str] = ..., method: _Optional[str] = ..., path: _Optional[str] = ..., mode: _Optional[str] = ..., tool_digest: _Optional[str] = ..., timeout: _Optional[str] = ..., has_schema: _Optional[bool] = ..., has_cost: _Optional[bool] = ..., reconciles: _Optional[bool] = ..., **kwargs) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class PolicyDocument(_message.Message):
    __slots__ = ("engine", "revision", "mode", "approvers", "approvals_expire", "distinct_from", "approvals_execute_within")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    APPROVERS_FIELD_NUMBER: _ClassVar[int]
    APPROVALS_EXPIRE_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_FROM_FIELD_NUMBER: _ClassVar[int]
    APPROVALS_EXECUTE_WITHIN_FIELD_NUMBER: _ClassVar[int]
    engine: str
    revision: str
    mode: str
    approvers: int
    approvals_expire: str
    distinct_from: _containers.RepeatedScalarFieldContainer[str]
    approvals_execute_within: str
    def __init__(self, engine: _Optional[str] = ..., revision: _Optional[str] = ..., mode: _Optional[str] = ..., approvers: _Optional[int] = ..., approvals_expire: _Optional[str] = ..., distinct_from: _Optional[_Iterable[str]] = ..., approvals_execute_within: _Optional[str] = ...) -> None: ...

class GetPolicyOfferRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class PolicyOffer(_message.Message):
    __slots__ = ("revision", "before", "offered_at_ns", "compared", "loosened", "tightened", "changed", "unjudged", "sequence", "key_id", "signers", "state", "votes")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    OFFERED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    LOOSENED_FIELD_NUMBER: _ClassVar[int]
    TIGHTENED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    UNJUDGED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNERS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    revision: str
    before: str
    offered_at_ns: int
    compared: int
    loosened: int
    tightened: int
    changed: int
    unjudged: int
    sequence: int
    key_id: str
    signers: _containers.RepeatedScalarFieldContainer[str]
    state: str
    votes: _containers.RepeatedCompositeFieldContainer[PolicyVote]
    def __init__(self, revision: _Optional[str] = ..., before: _Optional[str] = ..., offered_at_ns: _Optional[int] = ..., compared: _Optional[int] = ..., loosened: _Optional[int] = ..., tightened: _Optional[int] = ..., changed: _Optional[int] = ..., unjudged: _Optional[int] = ..., sequence: _Optional[int] = ..., key_id: _Optional[str] = ..., signers: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ..., votes: _Optional[_Iterable[_Union[PolicyVote, _Mapping]]] = ...) -> None: ...

class PolicyVote(_message.Message):
    __slots__ = ("voter", "identity", "decision", "reason", "voted_at_ns")
    VOTER_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VOTED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    voter: str
    identity: str
    decision: str
    reason: str
    voted_at_ns: int
    def __init__(self, voter: _Optional[str] = ..., identity: _Optional[str] = ..., decision: _Optional[str] = ..., reason: _Optional[str] = ..., voted_at_ns: _Optional[int] = ...) -> None: ...

class VotePolicyRequest(_message.Message):
    __slots__ = ("project", "revision", "reason")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    project: str
    revision: str
    reason: str
    def __init__(self, project: _Optional[str] = ..., revision: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class WhoAmIRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class Caller(_message.Message):
    __slots__ = ("id", "kind", "project", "name", "role", "projects", "permissions")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PROJECTS_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    project: str
    name: str
    role: str
    projects: _containers.RepeatedScalarFieldContainer[str]
    permissions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., project: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[str] = ..., projects: _Optional[_Iterable[str]] = ..., permissions: _Optional[_Iterable[str]] = ...) -> None: ...

class GetVersionRequest(_message.Message):
    __slots__ = ("project",)
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    project: str
    def __init__(self, project: _Optional[str] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("name", "version", "api")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    API_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    api: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., api: _Optional[str] = ...) -> None: ...
