"""The control API as a table: router, OpenAPI document, gRPC services and permissions all read it.

Rules
1. What is not in this table is not served, on either wire.
2. ``asks`` and ``gives`` are the whole of an operation's description: what they do not name is
   refused on the way in and cannot be told on the way out.
3. Every operation acts in one project, which the credential decides.
"""

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from processors.model.call import Approval
from processors.model.trace import AgentTrace
from processors.model.verdict import Verdict
from sidecar.control import documents, requests
from sidecar.identity.roles import Permission
from sidecar.store.policy import PolicyOffer
from sidecar.store.stop import Stop
from sidecar.store.traces import TraceSummary

Service = Literal[
    "TraceService",
    "CallService",
    "ApprovalService",
    "StopService",
    "VerdictService",
    "AuditService",
    "KeyService",
    "SidecarService",
]
SERVICES: dict[Service, str] = {
    "TraceService": "What agents did: published traces and their revisions.",
    "CallService": "Tool calls that went through the gateway, and their receipts.",
    "ApprovalService": "Requests that wait for a person's decision.",
    "StopService": "Kill switches and freezes of a project, its agents and its tools.",
    "VerdictService": "What the gate concluded about releases.",
    "AuditService": "The hash-chained log of everything the gateway did.",
    "KeyService": "API keys of a project.",
    "SidecarService": "The sidecar itself: who is calling, what is registered, what decides.",
}
_PARAMETER = re.compile(r"\{([a-z_]+)\}")
ROOT = "/v1"
API_VERSION = "1.0.0"
DOCUMENT_PATH = f"{ROOT}/openapi.json"


class Operation(Struct, frozen=True, kw_only=True):
    """One thing that can be asked. ``method`` is None for what only gRPC can say; ``permission``
    is None where being somebody is enough; ``stream``: ``gives`` is one item of many; ``one_of``
    are the shapes of a body that its fields alone do not tell (JSON Schema)."""

    name: str
    service: Service
    summary: str
    asks: type[requests.Request]
    gives: type[Struct]
    path: str = ""
    method: Literal["GET", "POST"] | None = "GET"
    permission: Permission | None = "store.read"
    status: int = 200
    stream: bool = False
    errors: tuple[int, ...] = ()
    one_of: tuple[dict[str, Any], ...] = ()

    @property
    def rpc(self) -> str:
        """The name of the gRPC method."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def operation_id(self) -> str:
        """The name in the OpenAPI document."""
        return self.rpc[0].lower() + self.rpc[1:]

    @property
    def in_path(self) -> tuple[str, ...]:
        """Fields that are taken from the path."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def in_query(self) -> tuple[str, ...]:
        """Fields that are taken from the query."""
        names = self.fields if self.method == "GET" else ("project",)
        return tuple(name for name in names if name not in self.in_path)

    @property
    def in_body(self) -> tuple[str, ...]:
        """Fields that are taken from the body."""
        taken = (*self.in_path, *self.in_query)
        return tuple(name for name in self.fields if name not in taken)

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields of ``asks``, ``project`` last."""
        names = [each.encode_name for each in msgspec.structs.fields(self.asks)]
        return tuple(sorted(names, key="project".__eq__))

    @property
    def waits(self) -> bool:
        """Whether the request may be held until the answer changes."""
        return "wait" in self.fields


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="list_traces",
        service="TraceService",
        path="/v1/traces",
        summary="List published traces, the newest start first.",
        asks=requests.ListTracesRequest,
        gives=documents.TracePage,
    ),
    Operation(
        name="get_trace",
        service="TraceService",
        path="/v1/traces/{trace_id}",
        summary="Get one normalised trace (docs/specs/trace.md).",
        asks=requests.GetTraceRequest,
        gives=AgentTrace,
        errors=(404,),
    ),
    Operation(
        name="list_steps",
        service="TraceService",
        path="/v1/traces/{trace_id}/steps",
        summary="List the steps of a trace, in its order.",
        asks=requests.ListStepsRequest,
        gives=documents.StepPage,
        errors=(404,),
    ),
    Operation(
        name="list_revisions",
        service="TraceService",
        path="/v1/traces/{trace_id}/revisions",
        summary="List the revisions of a trace, oldest first.",
        asks=requests.ListRevisionsRequest,
        gives=documents.RevisionList,
        errors=(404,),
    ),
    Operation(
        name="list_publications",
        service="TraceService",
        path="/v1/publications",
        summary="List revisions in the order in which they were published.",
        asks=requests.ListPublicationsRequest,
        gives=documents.Publications,
    ),
    Operation(
        name="tail_traces",
        service="TraceService",
        method=None,
        summary="Follow revisions as they are published.",
        asks=requests.TailTracesRequest,
        gives=TraceSummary,
        stream=True,
    ),
    Operation(
        name="list_calls",
        service="CallService",
        path="/v1/calls",
        summary="List tool calls, newest first.",
        asks=requests.ListCallsRequest,
        gives=documents.CallPage,
    ),
    Operation(
        name="get_call",
        service="CallService",
        path="/v1/calls/{call_id}",
        summary="Get one call with its receipts.",
        asks=requests.GetCallRequest,
        gives=documents.CallDetail,
        errors=(404,),
    ),
    Operation(
        name="resolve_call",
        service="CallService",
        method="POST",
        path="/v1/calls/{call_id}/resolve",
        summary="Say whether a call whose outcome is unknown happened, with a reason.",
        asks=requests.ResolveCallRequest,
        gives=documents.CallDetail,
        permission="calls.resolve",
        errors=(404, 409),
    ),
    Operation(
        name="list_durable_calls",
        service="CallService",
        path="/v1/durable-calls",
        summary="List calls made for agents that do not wait, and dead letters, newest first.",
        asks=requests.ListDurableCallsRequest,
        gives=documents.DurableCallList,
    ),
    Operation(
        name="requeue_call",
        service="CallService",
        method="POST",
        path="/v1/durable-calls/{durable_id}/requeue",
        summary="Try a dead letter again from the start, with a reason.",
        asks=requests.DisposeCallRequest,
        gives=documents.DurableCallDocument,
        permission="calls.resolve",
        errors=(404, 409),
    ),
    Operation(
        name="discard_call",
        service="CallService",
        method="POST",
        path="/v1/durable-calls/{durable_id}/discard",
        summary="Put a dead letter away for good, or cancel a call that waits, with a reason.",
        asks=requests.DisposeCallRequest,
        gives=documents.DurableCallDocument,
        permission="calls.resolve",
        errors=(404, 409),
    ),
    Operation(
        name="get_receipt",
        service="CallService",
        path="/v1/receipts/{receipt_id}",
        summary="Get one signed receipt.",
        asks=requests.GetReceiptRequest,
        gives=documents.ReceiptDocument,
        errors=(404,),
    ),
    Operation(
        name="list_approvals",
        service="ApprovalService",
        path="/v1/approvals",
        summary="List requests for approval, newest first.",
        asks=requests.ListApprovalsRequest,
        gives=documents.ApprovalPage,
    ),
    Operation(
        name="get_approval",
        service="ApprovalService",
        path="/v1/approvals/{approval_id}",
        summary="Get one request for approval with its votes.",
        asks=requests.GetApprovalRequest,
        gives=Approval,
        errors=(404,),
    ),
    Operation(
        name="watch_approvals",
        service="ApprovalService",
        method=None,
        summary="Tell the requests there are, then each that comes or changes.",
        asks=requests.WatchApprovalsRequest,
        gives=Approval,
        stream=True,
    ),
    Operation(
        name="approve",
        service="ApprovalService",
        method="POST",
        path="/v1/approvals/{approval_id}/approve",
        summary="Approve a request, with a reason.",
        asks=requests.ApproveRequest,
        gives=Approval,
        permission="approvals.decide",
        errors=(404, 409, 429),
    ),
    Operation(
        name="deny",
        service="ApprovalService",
        method="POST",
        path="/v1/approvals/{approval_id}/deny",
        summary="Deny a request, with a reason; one denial ends it, until the call is made.",
        asks=requests.DenyRequest,
        gives=Approval,
        permission="approvals.decide",
        errors=(404, 409, 429),
    ),
    Operation(
        name="approve_batch",
        service="ApprovalService",
        method="POST",
        path="/v1/approval-batches",
        summary="Approve the listed requests, each by a vote of its own, with one reason.",
        asks=requests.ApproveBatchRequest,
        gives=documents.BatchOutcomes,
        permission="approvals.decide",
        errors=(409,),
    ),
    Operation(
        name="list_budgets",
        service="CallService",
        path="/v1/budgets",
        summary="List how budgets stand: limit, used, held, left, and when their windows end.",
        asks=requests.ListBudgetsRequest,
        gives=documents.BudgetList,
    ),
    Operation(
        name="list_break_glasses",
        service="ApprovalService",
        path="/v1/break-glasses",
        summary="List glasses, those whose review is open first.",
        asks=requests.ListBreakGlassesRequest,
        gives=documents.BreakGlassList,
    ),
    Operation(
        name="open_break_glass",
        service="ApprovalService",
        method="POST",
        path="/v1/approvals/{approval_id}/break-glass",
        summary="Say, as the first of two, that a request is approved without its approvers.",
        asks=requests.OpenBreakGlassRequest,
        gives=documents.BreakGlassDocument,
        permission="approvals.decide",
        status=201,
        errors=(404, 409),
    ),
    Operation(
        name="break_glass",
        service="ApprovalService",
        method="POST",
        path="/v1/break-glasses/{glass_id}/break",
        summary="Say so as the second: the request is approved, and a review is open.",
        asks=requests.BreakGlassRequest,
        gives=documents.BreakGlassDocument,
        permission="approvals.decide",
        errors=(404, 409),
    ),
    Operation(
        name="review_break_glass",
        service="ApprovalService",
        method="POST",
        path="/v1/break-glasses/{glass_id}/review",
        summary="Close the review of a broken glass, as somebody who did not break it.",
        asks=requests.ReviewBreakGlassRequest,
        gives=documents.BreakGlassDocument,
        permission="approvals.decide",
        errors=(404, 409),
    ),
    Operation(
        name="list_stops",
        service="StopService",
        path="/v1/stops",
        summary="List kill switches and freezes, those that stand first.",
        asks=requests.ListStopsRequest,
        gives=documents.StopList,
    ),
    Operation(
        name="set_stop",
        service="StopService",
        method="POST",
        path="/v1/stops",
        summary="Kill (stop all calls) or freeze (stop those with effects); at once, for a reason.",
        asks=requests.SetStopRequest,
        gives=Stop,
        permission="calls.stop",
        status=201,
        one_of=(
            {"properties": {"scope": {"const": "project"}, "subject": {"maxLength": 0}}},
            {
                "properties": {"scope": {"enum": ["agent", "tool"]}, "subject": {"minLength": 1}},
                "required": ["subject"],
            },
        ),
    ),
    Operation(
        name="lift_stop",
        service="StopService",
        method="POST",
        path="/v1/stops/{stop_id}/lift",
        summary="Vote to lift a stop: a freeze needs one person, a kill two.",
        asks=requests.LiftStopRequest,
        gives=Stop,
        permission="calls.resume",
        errors=(404, 409),
    ),
    Operation(
        name="list_verdicts",
        service="VerdictService",
        path="/v1/verdicts",
        summary="List verdicts of the gate, newest first.",
        asks=requests.ListVerdictsRequest,
        gives=documents.VerdictPage,
    ),
    Operation(
        name="get_verdict",
        service="VerdictService",
        path="/v1/verdicts/{verdict_id}",
        summary="Get one verdict with its findings (docs/specs/gate.md).",
        asks=requests.GetVerdictRequest,
        gives=Verdict,
        errors=(404,),
    ),
    Operation(
        name="get_audit_head",
        service="AuditService",
        path="/v1/audit/head",
        summary="Get the signed end of the chain, with the public key that proves it.",
        asks=requests.GetAuditHeadRequest,
        gives=documents.AuditHeadDocument,
        errors=(404,),
    ),
    Operation(
        name="verify_audit",
        service="AuditService",
        path="/v1/audit/verification",
        summary="Check every hash, signature and place of the chain.",
        asks=requests.VerifyAuditRequest,
        gives=documents.AuditVerification,
        errors=(429,),
    ),
    Operation(
        name="export_audit",
        service="AuditService",
        path="/v1/audit/entries",
        summary="Stream the chain, one JSON object a line, the signed head last.",
        asks=requests.ExportAuditRequest,
        gives=documents.AuditRecord,
        stream=True,
    ),
    Operation(
        name="list_keys",
        service="KeyService",
        path="/v1/keys",
        summary="List the project's keys, oldest first, without their secrets.",
        asks=requests.ListKeysRequest,
        gives=documents.KeyPage,
        permission="keys.agents",
    ),
    Operation(
        name="get_key",
        service="KeyService",
        path="/v1/keys/{key_id}",
        summary="Get one key without its secret.",
        asks=requests.KeyRequest,
        gives=documents.KeyDocument,
        permission="keys.agents",
        errors=(404,),
    ),
    Operation(
        name="create_key",
        service="KeyService",
        method="POST",
        path="/v1/keys",
        summary="Create a key; its text is told this once.",
        asks=requests.CreateKeyRequest,
        gives=documents.CreatedKey,
        permission="keys.agents",
        status=201,
    ),
    Operation(
        name="revoke_key",
        service="KeyService",
        method="POST",
        path="/v1/keys/{key_id}/revoke",
        summary="Revoke a key; it is refused from the next request on.",
        asks=requests.KeyRequest,
        gives=documents.KeyDocument,
        permission="keys.agents",
        errors=(404,),
    ),
    Operation(
        name="rotate_key",
        service="KeyService",
        method="POST",
        path="/v1/keys/{key_id}/rotate",
        summary="Give a key a new secret, told this once; it stays the same principal.",
        asks=requests.RotateKeyRequest,
        gives=documents.CreatedKey,
        permission="keys.agents",
        errors=(404, 409),
    ),
    Operation(
        name="list_projects",
        service="SidecarService",
        path="/v1/projects",
        summary="List the projects the caller has a part in, its own first.",
        asks=requests.ListProjectsRequest,
        gives=documents.ProjectList,
    ),
    Operation(
        name="list_tools",
        service="SidecarService",
        path="/v1/tools",
        summary="List the registered tools, by name.",
        asks=requests.ListToolsRequest,
        gives=documents.ToolList,
    ),
    Operation(
        name="get_policy",
        service="SidecarService",
        path="/v1/policy",
        summary="Get what decides: engine, bundle revision, mode and approval rules.",
        asks=requests.GetPolicyRequest,
        gives=documents.PolicyDocument,
    ),
    Operation(
        name="get_policy_offer",
        service="SidecarService",
        path="/v1/policy/offer",
        summary="Get the looser policy that people vote on, or voted on last.",
        asks=requests.GetPolicyOfferRequest,
        gives=PolicyOffer,
        errors=(404,),
    ),
    Operation(
        name="approve_policy",
        service="SidecarService",
        method="POST",
        path="/v1/policy/offer/approve",
        summary="Approve that a looser policy decides, with a reason; two people do.",
        asks=requests.VotePolicyRequest,
        gives=PolicyOffer,
        permission="approvals.decide",
        errors=(404, 409),
    ),
    Operation(
        name="deny_policy",
        service="SidecarService",
        method="POST",
        path="/v1/policy/offer/deny",
        summary="Deny that a looser policy decides, with a reason; one denial ends it.",
        asks=requests.VotePolicyRequest,
        gives=PolicyOffer,
        permission="approvals.decide",
        errors=(404, 409),
    ),
    Operation(
        name="who_am_i",
        service="SidecarService",
        path="/v1/whoami",
        summary="Get the caller's own principal; agents may ask this too.",
        asks=requests.WhoAmIRequest,
        gives=documents.Caller,
        permission=None,
    ),
    Operation(
        name="get_version",
        service="SidecarService",
        path="/v1/version",
        summary="Get the program's name and version.",
        asks=requests.GetVersionRequest,
        gives=documents.Version,
    ),
)
BY_NAME: dict[str, Operation] = {each.name: each for each in OPERATIONS}
