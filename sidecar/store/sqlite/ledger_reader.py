"""Reading the ledger: lists, shows, facts and the audit chain, over a connection of its own.

**Rules**
1. Reads see committed rows only and never wait for a writer (WAL).
2. What is sealed is opened here, for its own project and row; what does not open raises SealBroken.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from processors.model.call import Approval, Receipt
from sidecar.store.asked import encodable
from sidecar.store.envelope import Sealers
from sidecar.store.ledger import AuditEntry, AuditHead, CallQuery, CallRow, Fact
from sidecar.store.sealing import open_approval, open_fact
from sidecar.store.sqlite import approvals, calls, chain, vault
from sidecar.store.sqlite.connection import open_database, translating
from sidecar.store.sqlite.presence import Presence
from sidecar.store.sqlite.vault import POLICY_REVISION

T = TypeVar("T")
Read = Callable[[Callable[[sqlite3.Connection], T]], T]


class Connection:
    """One read-only connection that several threads may use in turn."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection = open_database(path, read_only=True)
        self._presence = Presence(path)

    def run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """The query's result. Raises StoreUnavailable."""
        with self._lock, translating(self._path):
            self._presence.check()
            return query(self._connection)

    def close(self) -> None:
        """Close. Safe to call twice."""
        self._connection.close()


class SqliteLedgerReader:
    """What lists, shows and verifiers need of an existing ledger; writes nothing."""

    def __init__(self, path: Path | str, sealers: Sealers) -> None:
        self._sealers = sealers
        self._reading = Connection(path)

    def list_calls(self, query: CallQuery) -> list[CallRow]:
        """Calls that match, newest first."""
        if not encodable(query.project, query.tool, query.trace_id):
            return []
        return self._read(lambda connection: calls.list_newest(connection, query))

    def get_call(self, call_id: str, project: str | None = None) -> CallRow | None:
        """One call with its receipts' ids."""
        if not encodable(call_id, project):
            return None
        return self._read(lambda connection: calls.find(connection, project, call_id))

    def get_receipt(self, receipt_id: str, project: str | None = None) -> Receipt | None:
        """One receipt as it stands in the chain."""
        if not encodable(receipt_id, project):
            return None
        return self._read(lambda connection: calls.find_receipt(connection, project, receipt_id))

    def facts_after(self, seq: int, limit: int) -> list[Fact]:
        """Receipts that follow ``seq`` in the chain, with opened arguments. Raises SealBroken."""
        rows = self._read(lambda connection: calls.facts_after(connection, seq, limit))
        return [open_fact(row, self._sealers) for row in rows]

    def find_approval(self, approval_id: str, project: str | None = None) -> Approval | None:
        """A request as stored; whether it has expired since is the reader's arithmetic."""
        if not encodable(approval_id, project):
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
        if not encodable(project, after[1] if after else None):
            return []
        rows = self._read(
            lambda connection: approvals.list_newest(connection, project, limit, after)
        )
        return [open_approval(row, self._sealers) for row in rows]

    def active_policy(self) -> str | None:
        """The policy revision that intents must have been decided under; None before any."""
        found = self._read(lambda c: vault.get_state(c, POLICY_REVISION))
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
        self._reading.run(lambda connection: connection.execute("BEGIN"))
        try:
            yield
        finally:
            self._reading.run(lambda connection: connection.execute("COMMIT"))

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._reading.close()

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        return self._reading.run(query)
