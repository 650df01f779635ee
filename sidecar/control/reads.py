"""What each reading operation answers, from the stores: one function an operation.

**Rules**
1. Everything is asked of the stores with the caller's project; what is another's is not there.
2. Nothing is decided or changed here.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct

from processors.model.call import Approval, Receipt
from processors.model.principal import Principal, StoredKey
from processors.model.trace import AgentTrace
from processors.model.verdict import Verdict
from sidecar.control import documents, requests
from sidecar.control.paging import page, place
from sidecar.control.requests import LIST_MAX
from sidecar.gateway import allowance
from sidecar.gateway.approval import Ground, current
from sidecar.gateway.budget import Budget
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import RegisteredTool
from sidecar.identity.roles import PERMISSIONS, acting_in, actor, allows, projects_of
from sidecar.store.budget import Hold, Named, Standing
from sidecar.store.durable import DurableCall, DurableQuery
from sidecar.store.glass import BreakGlass, told
from sidecar.store.ledger import AuditHead, CallQuery, CallRow
from sidecar.store.policy import PolicyOffer
from sidecar.store.ports import AuditTrail, Calls, Published, Traces, Verdicts
from sidecar.store.receipts import to_document
from sidecar.store.stop import Stop
from sidecar.store.traces import TraceQuery, TraceSummary
from sidecar.store.verdicts import VerdictQuery, VerdictSummary

_LOOK_MAX = 1000
_LOOKS_MAX = 20


class LedgerView(AuditTrail, Calls, Protocol):
    """What is read of the ledger."""

    def active_policy(self) -> str | None:
        """The policy revision that intents must have been decided under."""
        ...

    def find_approval(self, approval_id: str, project: str | None = None) -> Approval | None:
        """A request as stored."""
        ...

    def list_approvals(
        self,
        project: str | None = None,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> list[Approval]:
        """Requests, newest first."""
        ...

    def find_durable(self, durable_id: str, project: str | None = None) -> DurableCall | None:
        """One durable call."""
        ...

    def list_durable(self, query: DurableQuery) -> list[DurableCall]:
        """Durable calls, newest first."""
        ...

    def policy_offer(self) -> PolicyOffer | None:
        """The looser policy that people vote on, or voted on last."""
        ...

    def find_glass(self, glass_id: str, project: str | None = None) -> BreakGlass | None:
        """One glass with its votes, as stored."""
        ...

    def list_glasses(self, project: str | None = None, limit: int = 100) -> list[BreakGlass]:
        """Glasses, those whose review is open first, then the newest."""
        ...

    def find_stop(self, stop_id: str, project: str) -> Stop | None:
        """One stop with the votes to lift it."""
        ...

    def budget_names(self, project: str | None = None, limit: int = 1000) -> list[Named]:
        """The accounts of a project and those that projects share."""
        ...

    def standings(self, project: str, holds: Sequence[Hold], now_ns: int) -> list[Standing]:
        """How the budgets that these holds would take from stand now."""
        ...

    def list_stops(self, project: str | None = None, limit: int = 100) -> list[Stop]:
        """Kill switches and freezes, those that stand first."""
        ...


class KeyList(Protocol):
    """Keys, to be read."""

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        ...

    def list_keys(self, project: str | None = None) -> list[StoredKey]:
        """All keys of a project, oldest first."""
        ...


class House(Struct, frozen=True, kw_only=True):
    """What the running sidecar knows of itself; ``projects`` by name.

    ``revision`` tells the policy's as it is now; None: as in ``policy``.
    """

    version: documents.Version
    policy: documents.PolicyDocument
    tools: tuple[documents.ToolDocument, ...] = ()
    projects: Mapping[str, documents.ProjectDocument] = {}
    project: documents.ProjectDocument
    revision: Callable[[], str] | None = None
    budgets: tuple[Budget, ...] = ()
    organisations: Mapping[str, tuple[str, ...]] = {}


class Views(Struct, frozen=True, kw_only=True):
    """All that is read."""

    ledger: LedgerView
    traces: Traces
    published: Published
    verdicts: Verdicts
    keys: KeyList
    house: House


class Asked(Struct, frozen=True, kw_only=True):
    """Who asks what, and when; ``of`` is the operation's record."""

    principal: Principal
    of: Any
    now_ns: int

    @property
    def project(self) -> str:
        """The project the caller acts in."""
        return self.principal.project


def list_traces(views: Views, asked: Asked) -> documents.TracePage:
    """Newest revisions, newest start first."""
    of: requests.ListTracesRequest = asked.of
    found = views.traces.list_traces(
        TraceQuery(
            project=asked.project,
            service=of.service,
            outcome=of.outcome,
            since_ns=of.since_ns,
            until_ns=of.until_ns,
            after=place(of.cursor),
            limit=of.limit + 1,
        )
    )
    told, cursor = page(found, of.limit, _started)
    return documents.TracePage(traces=told, next_cursor=cursor)


def get_trace(views: Views, asked: Asked) -> AgentTrace:
    """One revision. Raises Refused 404."""
    found = views.traces.get_trace(asked.of.trace_id.lower(), asked.project, asked.of.revision)
    if found is None:
        raise _no_such("trace")
    return found


def list_steps(views: Views, asked: Asked) -> documents.StepPage:
    """Some steps of one revision. Raises Refused 404."""
    of: requests.ListStepsRequest = asked.of
    trace = get_trace(views, asked)
    after = place(of.cursor)
    numbered = [
        (number, step)
        for number, step in enumerate(trace.steps)
        if of.kind in (None, step.kind) and (after is None or number > after[0])
    ]
    told, cursor = page(numbered, of.limit, lambda each: (each[0], "step"))
    return documents.StepPage(
        trace_id=trace.trace_id,
        revision=trace.revision,
        steps=tuple(step for _, step in told),
        next_cursor=cursor,
    )


def list_revisions(views: Views, asked: Asked) -> documents.RevisionList:
    """All revisions. Raises Refused 404."""
    found = views.traces.revisions(asked.of.trace_id.lower(), asked.project)
    if not found:
        raise _no_such("trace")
    return documents.RevisionList(revisions=tuple(found))


def list_publications(views: Views, asked: Asked) -> documents.Publications:
    """What was published after a place."""
    of: requests.ListPublicationsRequest = asked.of
    if of.after is None:
        return documents.Publications(traces=(), place=views.published.place())
    query = TraceQuery(
        project=asked.project, service=of.service, outcome=of.outcome, limit=of.limit
    )
    reached, found = views.published.after(of.after, query)
    return documents.Publications(traces=tuple(found), place=reached)


def list_calls(views: Views, asked: Asked) -> documents.CallPage:
    """Calls, newest first."""
    of: requests.ListCallsRequest = asked.of
    found = views.ledger.list_calls(
        CallQuery(
            project=asked.project,
            tool=of.tool,
            trace_id=of.trace,
            state=of.state,
            after=place(of.cursor),
            limit=of.limit + 1,
        )
    )
    told, cursor = page(found, of.limit, lambda row: (row.started_at_ns, row.call_id))
    calls = tuple(msgspec.convert(_call(row), documents.Call) for row in told)
    return documents.CallPage(calls=calls, next_cursor=cursor)


def get_call(views: Views, asked: Asked) -> documents.CallDetail:
    """One call with its receipts. Raises Refused 404."""
    found = views.ledger.get_call(asked.of.call_id, asked.project)
    if found is None:
        raise _no_such("call")
    held = [views.ledger.get_receipt(each, asked.project) for each in found.receipts]
    receipts = [to_document(each) for each in held if each is not None]
    return msgspec.convert({**_call(found), "receipts": receipts}, documents.CallDetail)


def list_durable_calls(views: Views, asked: Asked) -> documents.DurableCallList:
    """Durable calls, newest first."""
    of: requests.ListDurableCallsRequest = asked.of
    query = DurableQuery(project=asked.project, state=of.state, limit=of.limit)
    found = views.ledger.list_durable(query)
    return documents.DurableCallList(calls=tuple(map(_durable, found)))


def find_durable(views: Views, asked: Asked) -> documents.DurableCallDocument:
    """One durable call. Raises Refused 404."""
    found = views.ledger.find_durable(asked.of.durable_id, asked.project)
    if found is None:
        raise _no_such("call")
    return _durable(found)


def _durable(call: DurableCall) -> documents.DurableCallDocument:
    told = msgspec.to_builtins(call)
    names = documents.DurableCallDocument.__struct_fields__
    fields = {name: str(told[name]) if name.endswith("_at_ns") else told[name] for name in names}
    return msgspec.convert(fields, documents.DurableCallDocument)


def get_receipt(views: Views, asked: Asked) -> documents.ReceiptDocument:
    """One receipt. Raises Refused 404."""
    found = views.ledger.get_receipt(asked.of.receipt_id, asked.project)
    if found is None:
        raise _no_such("receipt")
    return receipt_document(found)


def list_approvals(views: Views, asked: Asked) -> documents.ApprovalPage:
    """Requests as they stand now; a page of one status may be short where few are among many."""
    of: requests.ListApprovalsRequest = asked.of
    after, told, stood_on = place(of.cursor), list[Approval](), ground(views)
    for _ in range(_LOOKS_MAX):
        look = min(_LOOK_MAX, of.limit + 1) if of.status is None else _LOOK_MAX
        found = views.ledger.list_approvals(asked.project, look, after)
        told += [
            each
            for each in (current(one, asked.now_ns, stood_on) for one in found)
            if of.status in (None, each.status)
        ]
        if len(told) > of.limit or len(found) < look:
            break
        after = _requested(found[-1])
    else:
        last = after or (0, "")
        return documents.ApprovalPage(approvals=tuple(told), next_cursor=f"{last[0]}.{last[1]}")
    page_, cursor = page(told, of.limit, _requested)
    return documents.ApprovalPage(approvals=page_, next_cursor=cursor)


def get_approval(views: Views, asked: Asked) -> Approval:
    """One request as it stands now. Raises Refused 404."""
    found = views.ledger.find_approval(asked.of.approval_id, asked.project)
    if found is None:
        raise _no_such("approval")
    return current(found, asked.now_ns, ground(views))


def ground(views: Views) -> Ground:
    """What approvals stand on now."""
    return Ground(
        policy_revision=views.ledger.active_policy(),
        tool_digests={each.name: each.tool_digest for each in views.house.tools},
    )


def list_verdicts(views: Views, asked: Asked) -> documents.VerdictPage:
    """Verdicts, newest first."""
    of: requests.ListVerdictsRequest = asked.of
    query = VerdictQuery(
        project=asked.project, suite=of.suite, after=place(of.cursor), limit=of.limit + 1
    )
    told, cursor = page(views.verdicts.list_verdicts(query), of.limit, _created)
    return documents.VerdictPage(verdicts=told, next_cursor=cursor)


def get_verdict(views: Views, asked: Asked) -> Verdict:
    """One verdict, by its whole id. Raises Refused 404."""
    found = views.verdicts.get_verdict(asked.of.verdict_id, asked.project)
    if found is None or found.verdict_id != asked.of.verdict_id:
        raise _no_such("verdict")
    return found


def get_audit_head(views: Views, asked: Asked) -> documents.AuditHeadDocument:  # noqa: ARG001
    """The signed end. Raises Refused 404 where nothing was recorded."""
    head = views.ledger.audit_head()
    if head is None:
        raise Refused(404, "no_audit_head", "nothing has been recorded yet")
    return head_document(head, views.ledger.public_keys())


def list_keys(views: Views, asked: Asked) -> documents.KeyPage:
    """The project's keys, oldest first."""
    of: requests.ListKeysRequest = asked.of
    after = place(of.cursor)
    rows = sorted(views.keys.list_keys(asked.project), key=_made)
    found = [row for row in rows if after is None or _made(row) > after]
    told, cursor = page(found, of.limit, _made)
    return documents.KeyPage(keys=tuple(map(key_document, told)), next_cursor=cursor)


def get_key(views: Views, asked: Asked) -> documents.KeyDocument:
    """One key. Raises Refused 404."""
    return key_document(find_key(views.keys, asked))


def list_projects(views: Views, asked: Asked) -> documents.ProjectList:
    """The caller's projects."""
    caller, house = asked.principal, views.house
    return documents.ProjectList(
        projects=tuple(
            msgspec.structs.replace(
                house.projects.get(name, house.project),
                name=name,
                role=actor(acting_in(caller, name)),
            )
            for name in projects_of(caller)
        )
    )


def list_budgets(views: Views, asked: Asked) -> documents.BudgetList:
    """How the accounts of budgets stand."""
    house, ledger, project = views.house, views.ledger, asked.project
    wanted = allowance.asked(
        house.budgets,
        ledger.budget_names(project),
        asked.now_ns,
        project=project,
        organisations=house.organisations,
    )
    return documents.BudgetList(
        budgets=tuple(
            allowance.shown(budget, whose, hold, ledger.standings(whose, [hold], asked.now_ns)[0])
            for budget, whose, hold in wanted
        )
    )


def list_break_glasses(views: Views, asked: Asked) -> documents.BreakGlassList:
    """Glasses, those whose review is open first."""
    found = views.ledger.list_glasses(asked.project, LIST_MAX)
    told = (glass_document(each, asked.now_ns) for each in found)
    fitting = [each for each in told if asked.of.state in (None, each.state)]
    return documents.BreakGlassList(glasses=tuple(fitting[: asked.of.limit]))


def get_break_glass(views: Views, asked: Asked, glass_id: str) -> documents.BreakGlassDocument:
    """One glass."""
    found = views.ledger.find_glass(glass_id, asked.project)
    if found is None:
        raise _no_such("glass")
    return glass_document(found, asked.now_ns)


def glass_document(glass: BreakGlass, now_ns: int) -> documents.BreakGlassDocument:
    """A glass as it is told, as it stands now."""
    return documents.BreakGlassDocument(**told(glass, now_ns))


def list_stops(views: Views, asked: Asked) -> documents.StopList:
    """Kill switches and freezes."""
    found = views.ledger.list_stops(asked.project, asked.of.limit)
    return documents.StopList(stops=tuple(found))


def list_tools(views: Views, asked: Asked) -> documents.ToolList:  # noqa: ARG001
    """The registry."""
    return documents.ToolList(tools=views.house.tools)


def get_policy(views: Views, asked: Asked) -> documents.PolicyDocument:  # noqa: ARG001
    """What decides."""
    house = views.house
    if house.revision is None:
        return house.policy
    return msgspec.structs.replace(house.policy, revision=house.revision())


def get_policy_offer(views: Views, asked: Asked) -> PolicyOffer:  # noqa: ARG001
    """The looser policy that people vote on. Raises Refused 404."""
    found = views.ledger.policy_offer()
    if found is None:
        raise Refused(404, "no_such_offer", "no policy waits for people, and none did")
    return found


def who_am_i(views: Views, asked: Asked) -> documents.Caller:  # noqa: ARG001
    """The caller."""
    caller = asked.principal
    return documents.Caller(
        id=caller.id,
        kind=caller.kind,
        project=caller.project,
        name=caller.name,
        role=actor(caller),
        projects=projects_of(caller),
        permissions=tuple(name for name in PERMISSIONS if allows(caller, name)),
    )


def get_version(views: Views, asked: Asked) -> documents.Version:  # noqa: ARG001
    """The program."""
    return views.house.version


def receipt_document(receipt: Receipt) -> documents.ReceiptDocument:
    """A receipt as it is shown."""
    return msgspec.convert(to_document(receipt), documents.ReceiptDocument)


def head_document(head: AuditHead, keys: Mapping[str, bytes]) -> documents.AuditHeadDocument:
    """The signed end of the chain as it is shown."""
    return documents.AuditHeadDocument(
        seq=head.seq,
        hash=head.hash,
        signed_at_ns=str(head.signed_at_ns),
        kid=head.kid,
        public_key=base64.b64encode(keys.get(head.kid, b"")).decode(),
        signature=base64.b64encode(head.signature).decode(),
    )


def key_document(row: StoredKey) -> documents.KeyDocument:
    """A key as it is shown."""
    return msgspec.convert(row, documents.KeyDocument, from_attributes=True)


def find_key(keys: KeyList, asked: Asked) -> StoredKey:
    """A key of the caller's project. Raises Refused 404."""
    found = keys.find_key(asked.of.key_id)
    if found is None or found.project != asked.project:
        raise _no_such("key")
    return found


def tool_document(tool: RegisteredTool, mode: str) -> documents.ToolDocument:
    """A registered tool as it is shown; ``mode`` is the gateway's."""
    config = tool.config
    return documents.ToolDocument(
        name=config.name,
        upstream=config.upstream,
        method=config.match.method,
        path=config.match.path,
        class_=config.class_,
        mode=config.mode or mode,
        tool_digest=tool.tool_digest,
        timeout=config.timeout,
        has_schema=tool.schema is not None,
        has_cost=tool.cost is not None,
        reconciles=config.reconcile is not None,
    )


def _call(row: CallRow) -> dict[str, Any]:
    fields = msgspec.structs.asdict(row)
    fields["class"] = fields.pop("class_")
    del fields["receipts"]
    return fields


def _no_such(what: str) -> Refused:
    return Refused(404, f"no_such_{what}", f"there is no such {what} in this project")


def _started(row: TraceSummary) -> tuple[int, str]:
    return row.started_ns, row.trace_id


def _requested(row: Approval) -> tuple[int, str]:
    return row.requested_at_ns, row.approval_id


def _created(row: VerdictSummary) -> tuple[int, str]:
    return row.created_at_ns, row.verdict_id


def _made(row: StoredKey) -> tuple[int, str]:
    return row.created_at_ns, row.key_id


Read = Callable[[Views, Asked], Struct]
READS: dict[str, Read] = {
    read.__name__: cast(Read, read)
    for read in (
        *(list_traces, get_trace, list_steps, list_revisions, list_publications),
        list_durable_calls,
        *(list_calls, get_call, get_receipt, list_approvals, get_approval),
        list_budgets,
        list_break_glasses,
        *(list_stops, list_verdicts, get_verdict, get_audit_head, list_keys, get_key),
        *(list_projects, list_tools, get_policy, get_policy_offer, who_am_i, get_version),
    )
}
