"""Reading a ledger: lists, shows, facts and the audit chain, whatever the backend.

**Rules**
1. What is sealed is opened here, for its own project and row; what does not open raises SealBroken.
2. What a backend cannot have kept is not there: it is not asked for it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from processors.model.call import Approval, Receipt
from sidecar.store.budget import Hold, Named, Standing
from sidecar.store.durable import DurableCall, DurableQuery
from sidecar.store.envelope import Sealers
from sidecar.store.glass import BreakGlass
from sidecar.store.ledger import (
    AuditEntry,
    AuditHead,
    CallQuery,
    CallRow,
    Checkpoint,
    Claim,
    Counted,
    Fact,
    KeptAnswer,
    OpenedCall,
    Scope,
    TrafficQuery,
)
from sidecar.store.policy import POLICY_OFFER, PolicyOffer, read_offer
from sidecar.store.sealing import (
    AnswerRow,
    ApprovalRow,
    ClaimRow,
    DurableRow,
    FactRow,
    OpenedRow,
    open_answer,
    open_approval,
    open_call,
    open_claim,
    open_durable,
    open_fact,
)
from sidecar.store.signing import KnownKey
from sidecar.store.stop import Stop

T = TypeVar("T")
Statement = Callable[..., T | Awaitable[T]]
"""A query of a backend: takes its connection, then the values."""


POLICY_REVISION = "policy_revision"
"""The state of the gateway that says which policy decides."""


LOOKED_BACK = 200
"""So many of the newest entries tell whether a clock was set back."""
APPROVAL_KINDS = (
    *("approval_requested", "approval_vote", "approval_resolved"),
    *("glass_opened", "glass_broken", "glass_reviewed"),
)
"""The chain's entries that webhooks are told of; as the index of the audit names them."""


def told_state(name: str) -> str:
    """The state of the gateway that says until where somebody has been told."""
    return f"told {name}"


def anchor_state(name: str) -> str:
    """The state of the gateway that says how far an anchor is."""
    return f"anchor {name}"


class Statements(Struct, frozen=True, kw_only=True):
    """What a backend can be asked; ``keepable`` says whether all of some texts can be kept."""

    keepable: Callable[..., bool]
    list_calls: Statement[list[CallRow]]
    find_call: Statement[CallRow | None]
    find_receipt: Statement[Receipt | None]
    facts_after: Statement[list[FactRow]]
    facts_of: Statement[list[FactRow]]
    answers_of: Statement[list[AnswerRow]]
    trace_ids_of: Statement[list[str]]
    find_approval: Statement[ApprovalRow | None]
    list_approvals: Statement[list[ApprovalRow]]
    find_glass: Statement[BreakGlass | None]
    list_glasses: Statement[list[BreakGlass]]
    find_stop: Statement[Stop | None]
    list_stops: Statement[list[Stop]]
    find_durable: Statement[DurableRow | None]
    list_durable: Statement[list[DurableRow]]
    durable_of: Statement[DurableRow | None]
    due_durable: Statement[list[DurableRow]]
    get_state: Statement[bytes | None]
    entries_after: Statement[list[AuditEntry]]
    approval_entries: Statement[list[AuditEntry]]
    audit_end: Statement[tuple[int, str, AuditHead | None]]
    audit_head: Statement[AuditHead | None]
    public_keys: Statement[dict[str, bytes]]
    signing_keys: Statement[list[KnownKey]]
    checkpoints: Statement[list[Checkpoint]]
    budget_names: Statement[list[Named]]
    standings: Statement[list[Standing]]


class LedgerReader:
    """What lists, shows and verifiers need of a ledger; writes nothing. A backend says how a
    statement is run."""

    statements: Statements
    _sealers: Sealers

    def list_calls(self, query: CallQuery) -> list[CallRow]:
        """Calls that match, newest first."""
        if not self.statements.keepable(query.project, query.tool, query.trace_id):
            return []
        return self._told(self.statements.list_calls, query)

    def get_call(self, call_id: str, project: str | None = None) -> CallRow | None:
        """One call with its receipts' ids."""
        if not self.statements.keepable(call_id, project):
            return None
        return self._told(self.statements.find_call, project, call_id)

    def get_receipt(self, receipt_id: str, project: str | None = None) -> Receipt | None:
        """One receipt as it stands in the chain."""
        if not self.statements.keepable(receipt_id, project):
            return None
        return self._told(self.statements.find_receipt, project, receipt_id)

    def facts_after(self, seq: int, limit: int) -> list[Fact]:
        """Receipts that follow ``seq`` in the chain, with opened arguments. Raises SealBroken."""
        rows = self._told(self.statements.facts_after, seq, limit)
        return [open_fact(row, self._sealers) for row in rows]

    def facts_of(self, query: TrafficQuery) -> list[Fact]:
        """Receipts of one trace's calls in order, with opened arguments. Raises SealBroken."""
        if not self.statements.keepable(query.project, query.trace_id):
            return []
        rows = self._told(self.statements.facts_of, query)
        return [open_fact(row, self._sealers) for row in rows]

    def answers_of(self, project: str, trace_id: str) -> list[KeptAnswer]:
        """The answers still kept of one trace's calls. Raises SealBroken."""
        if not self.statements.keepable(project, trace_id):
            return []
        rows = self._told(self.statements.answers_of, project, trace_id)
        return [open_answer(row, self._sealers) for row in rows]

    def trace_ids_of(self, project: str, since_ns: int, until_ns: int, limit: int) -> list[str]:
        """The traces that had calls in a while, the newest first."""
        if not self.statements.keepable(project):
            return []
        return self._told(self.statements.trace_ids_of, project, since_ns, until_ns, limit)

    def find_approval(self, approval_id: str, project: str | None = None) -> Approval | None:
        """A request as stored; whether it has expired since is the reader's arithmetic."""
        if not self.statements.keepable(approval_id, project):
            return None
        row = self._told(self.statements.find_approval, project, approval_id)
        return open_approval(row, self._sealers) if row else None

    def list_approvals(
        self,
        project: str | None = None,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> list[Approval]:
        """Requests, newest first; ``after`` a moment and id of the list."""
        if not self.statements.keepable(project, after[1] if after else None):
            return []
        rows = self._told(self.statements.list_approvals, project, limit, after)
        return [open_approval(row, self._sealers) for row in rows]

    def find_glass(self, glass_id: str, project: str | None = None) -> BreakGlass | None:
        """One glass with its votes, as stored."""
        if not self.statements.keepable(glass_id, project):
            return None
        return self._told(self.statements.find_glass, project, glass_id)

    def list_glasses(self, project: str | None = None, limit: int = 100) -> list[BreakGlass]:
        """Glasses, those whose review is open first, then the newest."""
        if not self.statements.keepable(project):
            return []
        return self._told(self.statements.list_glasses, project, limit)

    def find_stop(self, stop_id: str, project: str) -> Stop | None:
        """One stop with the votes to lift it."""
        if not self.statements.keepable(stop_id, project):
            return None
        return self._told(self.statements.find_stop, project, stop_id)

    def list_stops(self, project: str | None = None, limit: int = 100) -> list[Stop]:
        """Kill switches and freezes, those that stand first, then the newest."""
        if not self.statements.keepable(project):
            return []
        return self._told(self.statements.list_stops, project, limit)

    def find_durable(self, durable_id: str, project: str | None = None) -> DurableCall | None:
        """One durable call, without its request."""
        if not self.statements.keepable(durable_id, project):
            return None
        row = self._told(self.statements.find_durable, project, durable_id)
        return row[0] if row else None

    def durable_of(self, scope: Scope) -> DurableCall | None:
        """The durable call of a key, without its request."""
        row = self._told(self.statements.durable_of, scope)
        return row[0] if row else None

    def due_durable(self, now_ns: int, limit: int) -> list[DurableCall]:
        """Waiting calls whose time has come, with their requests. Raises SealBroken."""
        rows = self._told(self.statements.due_durable, now_ns, limit)
        return [open_durable(row, self._sealers) for row in rows]

    def list_durable(self, query: DurableQuery) -> list[DurableCall]:
        """Durable calls that match, newest first, without their requests."""
        if not self.statements.keepable(query.project):
            return []
        return [call for call, _ in self._told(self.statements.list_durable, query)]

    def active_policy(self) -> str | None:
        """The policy revision that intents must have been decided under; None before any."""
        found = self._told(self.statements.get_state, POLICY_REVISION)
        return None if found is None else found.decode()

    def entries_after(self, seq: int, limit: int) -> list[AuditEntry]:
        """Audit entries that follow ``seq``, in order."""
        return self._told(self.statements.entries_after, seq, limit)

    def approval_entries(self, seq: int, limit: int) -> list[AuditEntry]:
        """Entries about approvals that follow ``seq``, in order."""
        return self._told(self.statements.approval_entries, seq, limit)

    def told_place(self, name: str) -> int | None:
        """The place until which somebody of that name has been told; None before the first."""
        found = self._told(self.statements.get_state, told_state(name))
        return None if found is None else int(found)

    def audit_end(self) -> tuple[int, str, AuditHead | None]:
        """Place and hash of the last entry, and the signed head, of one moment."""
        return self._told(self.statements.audit_end)

    def policy_offer(self) -> PolicyOffer | None:
        """The looser policy that people vote on, or voted on last."""
        return read_offer(self._told(self.statements.get_state, POLICY_OFFER))

    def audit_head(self) -> AuditHead | None:
        """The signed head of the chain."""
        return self._told(self.statements.audit_head)

    def public_keys(self) -> dict[str, bytes]:
        """Every signing key's public half, by key id."""
        return self._told(self.statements.public_keys)

    def signing_keys(self) -> list[KnownKey]:
        """Every signing key, the newest first."""
        return self._told(self.statements.signing_keys)

    def budget_names(self, project: str | None = None, limit: int = 1000) -> list[Named]:
        """The accounts of a project and those that projects share, or all; by name."""
        if not self.statements.keepable(project):
            return []
        return self._told(self.statements.budget_names, project, limit)

    def standings(self, project: str, holds: Sequence[Hold], now_ns: int) -> list[Standing]:
        """How the budgets that these holds would take from stand now."""
        return self._told(self.statements.standings, project, holds, now_ns)

    def checkpoints_after(self, seq: int, limit: int) -> list[Checkpoint]:
        """Signed checkpoints of places that follow ``seq``, in order."""
        return self._told(self.statements.checkpoints, seq, limit)

    def anchored(self, name: str) -> int:
        """The place up to which an anchor has the checkpoints, 0 where it has none."""
        found = self._told(self.statements.get_state, anchor_state(name))
        return 0 if found is None else int(found)

    def _told(self, statement: Statement[T], *values: object) -> T:
        """A statement's answer. Raises StoreUnavailable."""
        raise NotImplementedError


class GatewayStatements(Struct, frozen=True, kw_only=True):
    """What a backend can be asked about a call before it is made, and after."""

    find_claim: Statement[ClaimRow | None]
    claim_of: Statement[ClaimRow | None]
    key_revoked: Statement[bool]
    prior_tools: Statement[tuple[str, ...]]
    counted: Statement[list[Counted]]
    counted_in_session: Statement[list[Counted]]
    opened_call: Statement[OpenedRow | None]
    stop_of: Statement[str | None]


class GatewayReads(LedgerReader):
    """What the gateway reads beside its calls."""

    gateway_statements: GatewayStatements

    def find_claim(self, scope: Scope) -> Claim | None:
        """The claim of a scope with its opened answer. Raises SealBroken."""
        row = self._told(self.gateway_statements.find_claim, scope)
        return open_claim(row, self._sealers) if row else None

    def claim_of(self, call_id: str) -> Claim | None:
        """The claim whose present attempt a call made. Raises SealBroken."""
        row = self._told(self.gateway_statements.claim_of, call_id)
        return open_claim(row, self._sealers) if row else None

    def key_revoked(self, principal: str) -> bool:
        """Whether this principal's key has been revoked."""
        return self._told(self.gateway_statements.key_revoked, principal)

    def prior_tools(self, call: OpenedCall) -> tuple[str, ...]:
        """Tools whose calls by this principal in this trace had their effect, in order."""
        if call.trace_id is None:
            return ()
        return self._told(self.gateway_statements.prior_tools, call)

    def counted(self, call: OpenedCall, since_ns: int, *, session: bool) -> list[Counted]:
        """How many calls this principal made since then, by tool; ``session``: of this trace only,
        then from its start, or those without a trace where it has none."""
        statements = self.gateway_statements
        if session and call.trace_id is not None:
            return self._told(statements.counted_in_session, call)
        return self._told(statements.counted, call, since_ns, session)

    def opened_call(self, call_id: str) -> OpenedCall | None:
        """A call as it was opened, with its arguments. Raises SealBroken."""
        row = self._told(self.gateway_statements.opened_call, call_id)
        return open_call(row, self._sealers) if row else None

    def stop_of(self, call: OpenedCall) -> str | None:
        """The code of the stop that a call falls under now, or None."""
        return self._told(self.gateway_statements.stop_of, call)
