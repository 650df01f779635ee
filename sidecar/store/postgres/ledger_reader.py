"""Reading the ledger on Postgres: lists, shows, facts and the audit chain.

**Rules**
1. Reads see committed rows only and wait for no writer.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from sidecar.store.envelope import Sealers
from sidecar.store.postgres import (
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
from sidecar.store.postgres.connection import READ_SECONDS, Connection, Database, Job
from sidecar.store.postgres.text import storable
from sidecar.store.reading import LedgerReader, Statement, Statements

T = TypeVar("T")

_STATEMENTS = Statements(
    keepable=storable,
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


class PostgresLedgerReader(LedgerReader):
    """What lists, shows and verifiers need of a ledger; writes nothing."""

    statements = _STATEMENTS

    def __init__(self, database: Database, sealers: Sealers) -> None:
        self._database = database
        self._sealers = sealers
        self._pinned: Connection | None = None

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

    def _told(self, statement: Statement[T], *values: object) -> T:
        run = cast(Callable[..., Awaitable[T]], statement)
        return self._read(lambda connection: run(connection, *values))
