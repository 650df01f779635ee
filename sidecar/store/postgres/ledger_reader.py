"""Reading the ledger on Postgres: lists, shows, facts and the audit chain.

**Rules**
1. Reads see committed rows only and wait for no writer.
2. What is sealed is opened here, for its own project and row; what does not open raises SealBroken.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from processors.model.call import Approval, Receipt
from sidecar.store.envelope import Sealers
from sidecar.store.ledger import AuditEntry, AuditHead, CallQuery, CallRow, Fact
from sidecar.store.postgres import approvals, calls, chain, claims, vault
from sidecar.store.postgres.connection import READ_SECONDS, Connection, Database, Job
from sidecar.store.postgres.text import storable
from sidecar.store.sealing import open_approval, open_fact

T = TypeVar("T")


class PostgresLedgerReader:
    """What lists, shows and verifiers need of a ledger; writes nothing."""

    def __init__(self, database: Database, sealers: Sealers) -> None:
        self._database = database
        self._sealers = sealers
        self._pinned: Connection | None = None

    def list_calls(self, query: CallQuery) -> list[CallRow]:
        """Calls that match, newest first."""
        if not storable(query.project, query.tool, query.trace_id):
            return []
        return self._read(lambda connection: calls.list_newest(connection, query))

    def get_call(self, call_id: str, project: str | None = None) -> CallRow | None:
        """One call with its receipts' ids."""
        if not storable(call_id, project):
            return None
        return self._read(lambda connection: calls.find(connection, project, call_id))

    def get_receipt(self, receipt_id: str, project: str | None = None) -> Receipt | None:
        """One receipt as it stands in the chain."""
        if not storable(receipt_id, project):
            return None
        return self._read(lambda connection: calls.find_receipt(connection, project, receipt_id))

    def facts_after(self, seq: int, limit: int) -> list[Fact]:
        """Receipts that follow ``seq`` in the chain, with opened arguments. Raises SealBroken."""
        rows = self._read(lambda connection: calls.facts_after(connection, seq, limit))
        return [open_fact(row, self._sealers) for row in rows]

    def find_approval(self, approval_id: str, project: str | None = None) -> Approval | None:
        """A request as stored; whether it has expired since is the reader's arithmetic."""
        if not storable(approval_id, project):
            return None
        row = self._read(lambda connection: approvals.find(connection, project, approval_id))
        return open_approval(row, self._sealers) if row else None

    def list_approvals(
        self,
        project: str | None = None,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> list[Approval]:
        """Requests, newest first; ``after`` a moment and id of the list."""
        if not storable(project, after[1] if after else None):
            return []
        rows = self._read(
            lambda connection: approvals.list_newest(connection, project, limit, after)
        )
        return [open_approval(row, self._sealers) for row in rows]

    def active_policy(self) -> str | None:
        """The policy revision that intents must have been decided under; None before any."""
        found = self._read(lambda c: vault.get_state(c, claims.POLICY_REVISION))
        return None if found is None else found.decode()

    def entries_after(self, seq: int, limit: int) -> list[AuditEntry]:
        """Audit entries that follow ``seq``, in order."""
        return self._read(lambda connection: chain.read_entries(connection, seq, limit))

    def audit_end(self) -> tuple[int, str, AuditHead | None]:
        """Place and hash of the last entry, and the signed head, of one moment."""
        return self._read(chain.read_end)

    def audit_head(self) -> AuditHead | None:
        """The signed head of the chain."""
        return self._read(chain.read_head)

    def public_keys(self) -> dict[str, bytes]:
        """Every signing key's public half, by key id."""
        return self._read(vault.public_keys)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads inside see the ledger as it was at the first of them, whoever writes."""
        with self._database.snapshot() as connection:
            self._pinned = connection
            try:
                yield
            finally:
                self._pinned = None

    def close(self) -> None:
        """Let go. Safe to call twice. The database is its opener's."""

    def _read(self, query: Job[T]) -> T:
        if self._pinned is not None:
            return self._database.read_on(self._pinned, query, READ_SECONDS)
        return self._database.read_sync(query)
