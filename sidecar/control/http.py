"""The control API on 4320: approvals are decided here, calls, receipts and traces are read
here.

**Rules**
1. Every request has a credential, of another kind than an agent's; every answer is of that
   credential's project.
2. Only an approver decides, with a reason; who may is ``gateway.approval``'s rule, whether it still
   counts is the ledger's.
3. Errors are problem+json; nothing of a request is repeated in them.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from aiohttp import web
from msgspec import Struct

from processors.model.call import Approval
from processors.model.principal import Principal
from processors.redact.masker import Masker
from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.gateway import problem
from sidecar.gateway.approval import REASON_CHARS_MAX, current, why_not_eligible
from sidecar.gateway.config import Approvals
from sidecar.gateway.problem import Refused
from sidecar.gateway.strict import NotStrict, read_json
from sidecar.identity.client import shown
from sidecar.identity.driver import Authenticate
from sidecar.identity.keys import Unauthenticated
from sidecar.identity.roles import Forbidden, Permission, acting_in, require
from sidecar.listen.address import split_address
from sidecar.listen.fault import ConnectionLimits
from sidecar.listen.files import Certificate
from sidecar.listen.http import Listener, Manners
from sidecar.store.envelope import SealBroken
from sidecar.store.ledger import Ballot, CallQuery
from sidecar.store.ports import ApprovalBook, AuditTrail, Calls, Traces
from sidecar.store.receipts import to_document
from sidecar.store.traces import TraceQuery
from sidecar.telemetry import Faults, cannot_listen, log

_LOG = log("control")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BODY_BYTES_MAX = 64 * 1024
LIST_MAX = 1000
_PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", Principal)


class Vote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a vote. ``shown_digest`` says which summary the approver saw."""

    reason: str
    shown_digest: str | None = None


class ControlLedger(ApprovalBook, AuditTrail, Calls, Protocol):
    """What the control API needs of the ledger."""


class ControlServer:
    """Serves the control API. ``start``, then ``port``; ``stop`` is safe always."""

    def __init__(
        self,
        ledger: ControlLedger,
        traces: Traces,
        authenticate: Authenticate,
        *,
        approvals: Approvals = Approvals(),  # noqa: B008 - frozen
        listen: str = "127.0.0.1:4320",
        now_ns: Callable[[], int] = clock.now_ns,
        limits: ConnectionLimits = ConnectionLimits(connections_max=128),  # noqa: B008 - frozen
        tls: Certificate | None = None,
    ) -> None:
        self._ledger = ledger
        self._traces = traces
        self._authenticate = authenticate
        self._rules = approvals
        self._address = split_address(listen)
        self._now_ns = now_ns
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_BYTES_MAX)
        app.add_routes(self._routes())
        manners = Manners(record=Faults("control").record, limits=limits, tls=tls)
        self._listener = Listener(app, *self._address, manners)

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listener.port

    async def start(self) -> None:
        """Bind and serve. Raises SidecarError when the address is taken."""
        try:
            await self._listener.start()
        except OSError as error:
            raise cannot_listen("control.listen", *self._address, error) from None

    async def stop(self) -> None:
        """Stop serving."""
        await self._listener.stop()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._health),
            web.get("/v1/approvals", self._list_approvals),
            web.get("/v1/approvals/{id}", self._show_approval),
            web.post("/v1/approvals/{id}/{decision:approve|deny}", self._vote),
            web.get("/v1/calls", self._list_calls),
            web.get("/v1/calls/{id}", self._show_call),
            web.get("/v1/receipts/{id}", self._show_receipt),
            web.get("/v1/audit/head", self._head),
            web.get("/v1/traces", self._list_traces),
            web.get("/v1/traces/{id}", self._show_trace),
        ]

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Credential first, then the page; whatever goes wrong is a problem document."""
        try:
            if request.path != "/healthz":
                request[_PRINCIPAL] = await self._principal(request)
            return await handler(request)
        except Refused as refused:
            return _problem(refused)
        except (StoreUnavailable, SealBroken) as error:
            _LOG.error("ledger failed", why=error)
            return _problem(Refused(503, "store_unavailable", "the ledger cannot be used now"))
        except web.HTTPException as error:
            code = "no_such_page" if error.status == 404 else "request_refused"
            return _problem(Refused(error.status, code, error.reason))

    async def _principal(self, request: web.Request) -> Principal:
        permission: Permission = "approvals.decide" if request.method == "POST" else "store.read"
        try:
            known = await self._authenticate(shown(request))
            principal = acting_in(known, _project(request))
            require(principal, permission)
        except Unauthenticated as error:
            raise Refused(401, "unauthenticated", str(error)) from None
        except Forbidden as error:
            raise Refused(403, "forbidden", str(error)) from None
        return principal

    async def _health(self, request: web.Request) -> web.Response:  # noqa: ARG002
        return web.Response(text="ok\n")

    async def _list_approvals(self, request: web.Request) -> web.Response:
        wanted = request.query.get("status")
        found = self._ledger.list_approvals(request[_PRINCIPAL].project, _limit(request))
        shown = [current(each, self._now_ns()) for each in found]
        return _json({"approvals": [each for each in shown if wanted in (None, each.status)]})

    async def _show_approval(self, request: web.Request) -> web.Response:
        return _json(self._approval(request))

    async def _vote(self, request: web.Request) -> web.Response:
        found, vote, voter = self._approval(request), await _ballot(request), request[_PRINCIPAL]
        code = why_not_eligible(found, voter, self._rules)
        if code is None:
            code = await self._ledger.vote(
                Ballot(
                    project=found.project,
                    approval_id=found.approval_id,
                    voter=voter.id,
                    voter_name=voter.name,
                    decision="deny" if request.match_info["decision"] == "deny" else "approve",
                    reason=Masker().mask(vote.reason.strip()),  # it stays in the chain for good
                    shown_digest=vote.shown_digest or found.shown_digest,
                    now_ns=self._now_ns(),
                )
            )
        if code is not None:
            raise _not_counted(code)
        return _json(self._approval(request))

    def _approval(self, request: web.Request) -> Approval:
        found = self._ledger.find_approval(request.match_info["id"], request[_PRINCIPAL].project)
        if found is None:
            raise Refused(404, "no_such_approval", "there is no such approval in this project")
        return current(found, self._now_ns())

    async def _list_calls(self, request: web.Request) -> web.Response:
        query = CallQuery(
            project=request[_PRINCIPAL].project,
            tool=request.query.get("tool"),
            trace_id=request.query.get("trace"),
            limit=_limit(request),
        )
        return _json({"calls": self._ledger.list_calls(query)})

    async def _show_call(self, request: web.Request) -> web.Response:
        project = request[_PRINCIPAL].project
        found = self._ledger.get_call(request.match_info["id"], project)
        if found is None:
            raise Refused(404, "no_such_call", "there is no such call in this project")
        shown = [self._ledger.get_receipt(each, project) for each in found.receipts]
        return _json(
            {
                **msgspec.to_builtins(found),
                "receipts": [to_document(each) for each in shown if each is not None],
            }
        )

    async def _show_receipt(self, request: web.Request) -> web.Response:
        found = self._ledger.get_receipt(request.match_info["id"], request[_PRINCIPAL].project)
        if found is None:
            raise Refused(404, "no_such_receipt", "there is no such receipt in this project")
        return _json(to_document(found))

    async def _head(self, request: web.Request) -> web.Response:  # noqa: ARG002
        head, keys = self._ledger.audit_head(), self._ledger.public_keys()
        if head is None:
            raise Refused(404, "no_audit_head", "nothing has been recorded yet")
        return _json(
            {
                "seq": head.seq,
                "hash": head.hash,
                "signed_at_ns": str(head.signed_at_ns),
                "kid": head.kid,
                "public_key": base64.b64encode(keys[head.kid]).decode(),
                "signature": base64.b64encode(head.signature).decode(),
            }
        )

    async def _list_traces(self, request: web.Request) -> web.Response:
        query = TraceQuery(
            project=request[_PRINCIPAL].project,
            service=request.query.get("service"),
            limit=_limit(request),
        )
        return _json({"traces": self._traces.list_traces(query)})

    async def _show_trace(self, request: web.Request) -> web.Response:
        found = self._traces.get_trace(request.match_info["id"], request[_PRINCIPAL].project)
        if found is None:
            raise Refused(404, "no_such_trace", "there is no such trace in this project")
        return _json(found)


_CODES = {
    "approver_not_eligible": (403, "your credential may not decide this request"),
    "self_approval": (403, "who asked, or owns the asking agent, does not decide"),
    "vote_repeated": (409, "you have voted on this request already"),
    "summary_changed": (409, "the summary you saw is not the request's; look again"),
    "no_such_approval": (404, "there is no such approval in this project"),
}


def _not_counted(code: str) -> Refused:
    status, detail = _CODES.get(code, (409, "the request is no longer pending"))
    return Refused(status, code, detail)


async def _ballot(request: web.Request) -> Vote:
    try:
        vote = msgspec.convert(read_json(await request.read()), type=Vote)
    except (NotStrict, msgspec.ValidationError) as error:
        raise Refused(400, "vote_malformed", f'send {{"reason": "…"}}: {error}') from None
    if not 0 < len(vote.reason.strip()) <= REASON_CHARS_MAX:
        raise Refused(400, "reason_required", f"a reason of 1 to {REASON_CHARS_MAX} characters")
    return vote


def _project(request: web.Request) -> str | None:
    """The project a caller of several names; None for its own."""
    named = request.query.getall("project", [])
    if len(named) > 1:
        raise Refused(400, "project_repeated", "name one project")
    return named[0] if named else None


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", "100")
    if not text.isdecimal() or not 0 < int(text) <= LIST_MAX:
        raise Refused(400, "limit_malformed", f"limit is a number from 1 to {LIST_MAX}")
    return int(text)


def _json(value: Any) -> web.Response:
    body = json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode()
    return web.Response(
        body=body, content_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _problem(refused: Refused) -> web.Response:
    headers, body = problem.render(refused.refusal())
    answer = web.Response(status=refused.status, body=body)
    answer.headers.popall("Content-Type", None)
    for name, value in headers:
        answer.headers.add(name, value)
    return answer
