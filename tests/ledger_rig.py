"""Ledgers to test on every backend, and the records tests put into them."""

import asyncio
import sqlite3
from contextlib import ExitStack, closing, contextmanager

import asyncpg
from gateway_rig import MASTER as MASTER
from gateway_rig import keyring
from msgspec import structs

from processors.model.call import Approval
from sidecar import clock
from sidecar.gateway import receipt, signing
from sidecar.store.ledger import (
    ApprovalUse,
    Ballot,
    CallOutcome,
    ClaimEnd,
    Intent,
    OpenedCall,
    Scope,
)
from sidecar.store.location import read_location
from sidecar.store.postgres.connection import Database
from sidecar.store.postgres.keys import PostgresKeys
from sidecar.store.postgres.ledger import PostgresLedger
from sidecar.store.postgres.ledger_reader import PostgresLedgerReader
from sidecar.store.sqlite.ephemeral import is_ephemeral
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.store.sqlite.ledger_reader import SqliteLedgerReader

NOW = 1_764_000_000_000_000_000
SIGNER = signing.SigningKey(signing.make(bytes(32), NOW))
SCOPE = Scope(project="p", principal="a", tool="t", key_hash="k")
REVISION = "rev"
BACKENDS = ("memory", "file", "postgres")
SHARED = ("file", "postgres")
"""Backends that several processes can open."""


class MemoryLedgers:
    """A ledger in memory, its keys in a file: nobody else sees it."""

    ephemeral = True

    def __init__(self, folder):
        self.path = folder / "keys.db"

    @contextmanager
    def keys(self):
        with closing(SqliteKeys(self.path)) as keys:
            yield keys

    @contextmanager
    def ledger(self):
        with self.keys() as keys, closing(SqliteLedger(":memory:", keyring(keys))) as opened:
            self._opened = opened
            yield opened

    def query(self, sql):
        return self._opened._writer.run_sync(lambda c: c.execute(sql).fetchall())


class FileLedgers:
    """A ledger in a file."""

    def __init__(self, folder):
        self.path = folder / "ledger.db"
        self.ephemeral = is_ephemeral(self.path)  # the folder of a test may be memory

    @contextmanager
    def keys(self):
        with closing(SqliteKeys(self.path)) as keys:
            yield keys

    @contextmanager
    def ledger(self):
        with self.keys() as keys, closing(SqliteLedger(self.path, keyring(keys))) as opened:
            yield opened

    @contextmanager
    def reader(self):
        with self.keys() as keys, closing(SqliteLedgerReader(self.path, keyring(keys))) as opened:
            yield opened

    def query(self, sql):
        with closing(sqlite3.connect(self.path)) as connection:
            found = connection.execute(sql).fetchall()
            connection.commit()
            return found

    def at_rest(self):
        return b"".join(each.read_bytes() for each in self.path.parent.glob("ledger.db*"))


class PostgresLedgers:
    """A ledger on a database; picklable, so that other processes open it too."""

    ephemeral = False

    def __init__(self, url, **options):
        self.url = url
        self.options = {"grace_seconds": 0.3, **options}

    @contextmanager
    def database(self):
        with closing(Database(read_location(self.url), schema="ledger")) as opened:
            yield opened

    @contextmanager
    def keys(self):
        with self.database() as opened:
            yield PostgresKeys(opened)

    @contextmanager
    def ledger(self):
        with self.database() as opened:
            ring = keyring(PostgresKeys(opened))
            ledger = PostgresLedger(opened, ring, **self.options)
            with closing(ledger):
                yield ledger

    @contextmanager
    def reader(self):
        with self.database() as opened:
            yield PostgresLedgerReader(opened, keyring(PostgresKeys(opened)))

    def query(self, sql):
        return [tuple(row) for row in asyncio.run(self._query(sql))]

    def at_rest(self):
        """Every value of every table, as text; bytes as they are."""
        tables = self.query(
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'ledger'"
        )
        rows = [row for (name,) in tables for row in self.query(f"SELECT * FROM {name}")]
        return b"\n".join(
            value if isinstance(value, bytes) else str(value).encode()
            for row in rows
            for value in row
        )

    async def _query(self, sql):
        options = {"server_settings": {"search_path": "ledger"}}
        connection = await asyncpg.connect(self.url, **options)
        try:
            return await connection.fetch(sql)
        finally:
            await connection.close()


@contextmanager
def ledgers(backend, folder):
    """A fresh place for a ledger."""
    with ExitStack() as stack:
        if backend == "postgres":
            from postgres_rig import database

            yield PostgresLedgers(stack.enter_context(database()))
        else:
            yield (MemoryLedgers if backend == "memory" else FileLedgers)(folder)


@contextmanager
def signing_ledger(store):
    """An opened ledger that can record."""
    with store.ledger() as opened:
        opened.use_signer(SIGNER)
        yield opened


def run(store, scenario):
    """A scenario over a ledger that knows the policy's revision."""

    async def main():
        with signing_ledger(store) as opened:
            await opened.activate_policy(REVISION, NOW)
            return await scenario(opened)

    return asyncio.run(main())


def call(call_id="c1", **fields):
    return OpenedCall(
        **{
            "call_id": call_id, "project": "p", "principal": "a", "principal_kind": "agent",
            "tool": "t", "class_": "irreversible", "action_hash": "h", "started_at_ns": NOW,
            "key_hash": "k", "arguments": {"card": "4111-hush"}, **fields,
        }
    )  # fmt: skip


def signed(opened, **fields):
    drafted = receipt.draft(opened, None, receipt_id=clock.new_id(), now_ns=NOW)
    return receipt.sign(structs.replace(drafted, **fields), SIGNER)


def intent(opened=None, **fields):
    opened = opened or call()
    return Intent(
        **{
            "call": opened, "owner": "o", "lease_until_ns": NOW + 9, "expires_at_ns": NOW + 99,
            "policy_revision": REVISION, "now_ns": NOW, "fingerprint": opened.action_hash,
            "receipt": signed(opened, phase="authorised", effect="unknown"), **fields,
        }
    )  # fmt: skip


def outcome(opened, claim, state, *, answer=None, **fields):
    end = ClaimEnd(claim=claim, call_id=opened.call_id, state=state, answer=answer, **fields)
    done = signed(opened, phase="executed", status=201)
    return CallOutcome(call=opened, receipt=done, now_ns=NOW, end=end)


def _times(fields):
    """Both times of a request that says one: as long to use it as to decide it."""
    until = fields.get("expires_at_ns", NOW + 1000)
    return {"decide_by_ns": until, "execute_by_ns": 2 * until - fields.get("requested_at_ns", NOW)}


def asked(approval_id="ap", **fields):
    return Approval(
        **{
            "approval_id": approval_id, "project": "p", "requester": "a", "tool": "t",
            "action_hash": "h", "key_hash": "k", "policy_revision": REVISION, "tool_digest": "d",
            "status": "pending", "summary": "refund 500 EUR to hush", "shown_digest": "s",
            "requested_at_ns": NOW, "expires_at_ns": NOW + 1000, **_times(fields), **fields,
        }
    )  # fmt: skip


def ballot(decision="approve", **fields):
    return Ballot(
        **{
            "project": "p", "approval_id": "ap", "voter": "v", "voter_name": "", "reason": "r",
            "decision": decision, "shown_digest": "s", "now_ns": NOW, **fields,
        }
    )  # fmt: skip


USE = ApprovalUse(
    approval_id="ap", action_hash="h", key_hash="k", policy_revision=REVISION, tool_digest="d"
)
