"""Reading the ledger: lists, shows, facts and the audit chain, over a connection of its own.

**Rules**
1. Reads see committed rows only and never wait for a writer (WAL).
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

from sidecar.store.asked import encodable
from sidecar.store.envelope import Sealers
from sidecar.store.reading import LedgerReader, Statement, Statements
from sidecar.store.sqlite import (
    approvals,
    budgets,
    calls,
    chain,
    durables,
    glasses,
    stops,
    traffic,
    vault,
)
from sidecar.store.sqlite.connection import open_database, unusable
from sidecar.store.sqlite.presence import Presence

T = TypeVar("T")
Read = Callable[[Callable[[sqlite3.Connection], T]], T]

_STATEMENTS = Statements(
    keepable=encodable,
    list_calls=calls.list_newest,
    find_call=calls.find,
    find_receipt=calls.find_receipt,
    facts_after=calls.facts_after,
    facts_of=traffic.facts_of,
    answers_of=traffic.answers_of,
    trace_ids_of=traffic.trace_ids_of,
    find_approval=approvals.find,
    list_approvals=approvals.list_newest,
    find_glass=glasses.find,
    list_glasses=glasses.newest,
    find_stop=stops.find,
    list_stops=stops.newest,
    find_durable=durables.find,
    list_durable=durables.newest,
    durable_of=durables.find_of,
    due_durable=durables.due,
    get_state=vault.get_state,
    entries_after=chain.read_entries,
    approval_entries=chain.read_approvals,
    audit_end=chain.read_end,
    audit_head=chain.read_head,
    public_keys=vault.public_keys,
    signing_keys=vault.signing_keys,
    checkpoints=chain.read_checkpoints,
    budget_names=budgets.names,
    standings=budgets.standings,
)


class Connection:
    """One read-only connection that several threads may use in turn."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection = open_database(path, read_only=True)
        self._presence = Presence(path)

    def run(self, query: Callable[..., T], *values: object) -> T:
        """The query's result. Raises StoreUnavailable."""
        with self._lock:
            try:  # not ``translating``: every call reads, and a scope of its own costs as much
                self._presence.check()
                return query(self._connection, *values)
            except sqlite3.IntegrityError:
                raise
            except (sqlite3.Error, OSError) as error:
                raise unusable(self._path, error) from error

    def close(self) -> None:
        """Close. Safe to call twice."""
        self._connection.close()


class SqliteLedgerReader(LedgerReader):
    """What lists, shows and verifiers need of an existing ledger; writes nothing."""

    statements = _STATEMENTS

    def __init__(self, path: Path | str, sealers: Sealers) -> None:
        self._sealers = sealers
        self._reading = Connection(path)

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

    def _read(self, query: Callable[..., T], *values: object) -> T:
        return self._reading.run(query, *values)

    def _told(self, statement: Statement[T], *values: object) -> T:
        return self._read(cast("Callable[..., T]", statement), *values)
