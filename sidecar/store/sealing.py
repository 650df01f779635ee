"""What of the ledger is sealed, and to what each seal is bound, whatever the backend.

**Rules**
1. Arguments and answers are bound to project and call, summaries to project and request, private
   keys and secrets to their name: moved to another row they do not open.
2. What is the gateway's own is sealed under the name no project can have.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from processors.model.call import Approval, Vote
from sidecar.store import step_up
from sidecar.store.durable import DurableCall
from sidecar.store.envelope import Sealer, Sealers
from sidecar.store.ledger import (
    Answer,
    CallOutcome,
    Claim,
    Fact,
    KeptAnswer,
    OpenedCall,
    StoredSigningKey,
)
from sidecar.store.pages import PageKind, PageRow, PageState, page_aad
from sidecar.store.receipts import from_document

GATEWAY_SEAL = ""
FactRow = tuple[int, str, str, str, bytes | None]
"""Place, project, the receipt's entry, call id, sealed arguments."""
OpenedRow = tuple[OpenedCall, bytes | None]
AnswerRow = tuple[str, str, str, str, str | None, bytes]
"""Project, call id, principal, tool, digest of the key, sealed answer."""
APPROVAL_COLUMNS = (
    "approval_id, project, requester, requester_name, tool, action_hash, key_hash,"
    " policy_revision, tool_digest, status, shown_digest, roles, requested_at_ns, expires_at_ns,"
    " approvers_min, decision_id, trace_id, consumed_by, requester_owner, fields,"
    " decide_by_ns, execute_by_ns, on_behalf_of, step_up, glass_id"
)
LISTED = ("roles", "fields")
"""What is kept as one text, its parts between commas."""
APPROVAL_NAMES = tuple(APPROVAL_COLUMNS.split(", "))
ApprovalRow = tuple[Approval, bytes]
ClaimRow = tuple[Claim, bytes | None]
DurableRow = tuple[DurableCall, bytes | None]


class SealedKey(Struct, frozen=True, kw_only=True):
    """A signing key as it lies in the store."""

    kid: str
    public: bytes
    sealed: bytes
    created_at_ns: int


def seal_arguments(sealers: Sealers, call: OpenedCall) -> bytes | None:
    """A call's arguments as they are kept."""
    if call.arguments is None:
        return None
    aad = _arguments_aad(call.project, call.call_id)
    return sealers(call.project).seal(msgspec.json.encode(call.arguments), aad)


def open_fact(row: FactRow, sealers: Sealers) -> Fact:
    """A fact with its arguments opened. Raises SealBroken."""
    receipt = from_document(json.loads(row[2])["receipt"])
    arguments = _open_arguments(sealers, row[1], row[3], row[4])
    return Fact(seq=row[0], project=row[1], receipt=receipt, arguments=arguments)


def opened_by(entry: str) -> OpenedCall:
    """The call of a receipt's entry in the chain, as it was opened, without its arguments."""
    receipt = from_document(json.loads(entry)["receipt"])
    return OpenedCall(
        call_id=receipt.call_id,
        project=receipt.project,
        principal=receipt.principal,
        principal_kind=receipt.principal_kind,
        tool=receipt.tool,
        class_=receipt.class_,
        action_hash=receipt.action_hash,
        started_at_ns=receipt.started_at_ns,
        key_hash=receipt.key_hash,
        trace_id=receipt.trace_id,
    )


def open_call(row: OpenedRow, sealers: Sealers) -> OpenedCall:
    """A call with its arguments opened. Raises SealBroken."""
    call, sealed = row
    arguments = _open_arguments(sealers, call.project, call.call_id, sealed)
    return msgspec.structs.replace(call, arguments=arguments)


def seal_answer(sealers: Sealers, outcome: CallOutcome) -> bytes | None:
    """The answer that ends a claim, as it is kept; None where none is."""
    if outcome.end is None or outcome.end.answer is None:
        return None
    project = outcome.call.project
    encoded = msgspec.msgpack.encode(outcome.end.answer)
    return sealers(project).seal(encoded, _answer_aad(project, outcome.end.call_id))


def open_claim(row: ClaimRow, sealers: Sealers) -> Claim:
    """A claim with its answer opened. Raises SealBroken."""
    claim, sealed = row
    if sealed is None:
        return claim
    return msgspec.structs.replace(
        claim, answer=_open_answer(sealers, claim.project, claim.call_id, sealed)
    )


def open_answer(row: AnswerRow, sealers: Sealers) -> KeptAnswer:
    """A kept answer, opened. Raises SealBroken."""
    project, call_id, principal, tool, key_hash, sealed = row
    answer = _open_answer(sealers, project, call_id, sealed)
    return KeptAnswer(
        call_id=call_id, principal=principal, tool=tool, key_hash=key_hash, answer=answer
    )


def seal_request(sealers: Sealers, call: DurableCall) -> bytes:
    """A durable call's request, as it is kept."""
    assert call.request is not None
    return sealers(call.project).seal(call.request, _request_aad(call))


def open_durable(row: DurableRow, sealers: Sealers) -> DurableCall:
    """A durable call with its request opened. Raises SealBroken."""
    call, sealed = row
    if sealed is None:
        return call
    opened = sealers(call.project).open(sealed, _request_aad(call))
    return msgspec.structs.replace(call, request=opened)


def durable_row(row: Sequence[Any]) -> DurableRow:
    """A row's values in the order of the record's fields, the sealed request last."""
    *values, sealed = row
    fields = dict(zip(DurableCall.__struct_fields__, values, strict=False))
    return msgspec.convert(fields, DurableCall), sealed


def seal_summary(sealers: Sealers, approval: Approval) -> bytes:
    """What an approver is shown, as it is kept."""
    sealer = sealers(approval.project)
    return sealer.seal(approval.summary.encode(), _summary_aad(approval))


def approval_fields(asked: Approval) -> dict[str, Any]:
    """The values of ``APPROVAL_COLUMNS``, in their order."""
    fields: dict[str, Any] = {name: getattr(asked, name) for name in APPROVAL_NAMES}
    fields |= {name: ",".join(fields[name]) for name in LISTED}
    return fields | {"step_up": step_up.encode(asked.step_up)}


def approval_of(row: Sequence[Any], votes: Iterable[Vote]) -> ApprovalRow:
    """A request of a row of ``APPROVAL_COLUMNS`` and its sealed summary."""
    *values, summary = row
    fields = dict(zip(APPROVAL_NAMES, values, strict=True))
    for name in LISTED:
        fields[name] = tuple(fields[name].split(",")) if fields[name] else ()
    fields["step_up"] = step_up.decode(fields["step_up"])
    return Approval(**fields, votes=tuple(votes), summary=""), summary


def open_approval(row: ApprovalRow, sealers: Sealers) -> Approval:
    """A request with its summary opened. Raises SealBroken."""
    approval, sealed = row
    summary = sealers(approval.project).open(sealed, _summary_aad(approval))
    return msgspec.structs.replace(approval, summary=summary.decode())


def seal_page(sealers: Sealers, state: PageState) -> tuple[object, ...]:
    """What is kept of a page's state: digest, kind, and what ``open_page`` reads."""
    sealed = sealers(GATEWAY_SEAL).seal(state.content, page_aad(state.kind, state.digest))
    head = (state.digest, state.kind, state.owner)
    return (*head, sealed, state.used_at_ns, state.expires_at_ns)


def open_page(
    sealers: Sealers, kind: PageKind, digest: str, row: PageRow | None
) -> PageState | None:
    """The state in a row, None of none. Raises SealBroken."""
    if row is None:
        return None
    owner, sealed, used_at_ns, expires_at_ns = row
    return PageState(
        digest=digest,
        kind=kind,
        owner=owner,
        content=sealers(GATEWAY_SEAL).open(sealed, page_aad(kind, digest)),
        used_at_ns=used_at_ns,
        expires_at_ns=expires_at_ns,
    )


def seal_key(key: StoredSigningKey, sealer: Sealer) -> SealedKey:
    """The key with its private half sealed, bound to its id."""
    return SealedKey(
        kid=key.kid,
        public=key.public,
        sealed=sealer.seal(key.private, _key_aad(key.kid)),
        created_at_ns=key.created_at_ns,
    )


def open_key(key: SealedKey, sealer: Sealer) -> StoredSigningKey:
    """The key with its private half opened. Raises SealBroken."""
    return StoredSigningKey(
        kid=key.kid,
        public=key.public,
        private=sealer.open(key.sealed, _key_aad(key.kid)),
        created_at_ns=key.created_at_ns,
    )


def secret_aad(name: str) -> bytes:
    """What a named secret is bound to."""
    return f"secret/1\n{name}".encode()


def _open_arguments(
    sealers: Sealers, project: str, call_id: str, sealed: bytes | None
) -> dict[str, Any] | None:
    if sealed is None:
        return None
    opened = sealers(project).open(sealed, _arguments_aad(project, call_id))
    arguments: dict[str, Any] = msgspec.json.decode(opened)
    return arguments


def _open_answer(sealers: Sealers, project: str, call_id: str, sealed: bytes) -> Answer:
    opened = sealers(project).open(sealed, _answer_aad(project, call_id))
    return msgspec.msgpack.decode(opened, type=Answer)


def _arguments_aad(project: str, call_id: str) -> bytes:
    return f"arguments/1\n{project}\n{call_id}".encode()


def _answer_aad(project: str, call_id: str) -> bytes:
    return f"answer/1\n{project}\n{call_id}".encode()


def _request_aad(call: DurableCall) -> bytes:
    return f"durable/1\n{call.project}\n{call.durable_id}".encode()


def _summary_aad(approval: Approval) -> bytes:
    return f"approval/1\n{approval.project}\n{approval.approval_id}".encode()


def _key_aad(kid: str) -> bytes:
    return f"signing-key/1\n{kid}".encode()
