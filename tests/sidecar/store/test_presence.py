"""Files deleted, replaced or locked under a running process: said at once, nothing lost."""

import asyncio
import hashlib
import shutil
import sqlite3
import time

import pytest

from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.store.envelope import Sealer
from sidecar.store.journal import JournalEntry
from sidecar.store.sqlite.journal import SqliteJournal
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.store.sqlite.traces import SqliteTraces, migrate_traces


def sealers(project):
    return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)


ENTRY = JournalEntry(
    project="shop",
    principal="key:1",
    signal="traces",
    encoding="protobuf",
    payload=b"x",
    received_ns=1,
)


@pytest.fixture
def journal(tmp_path):
    made = SqliteJournal(
        tmp_path / "journal.db", sealers=sealers, bytes_max=1 << 30, new_id=clock.new_id
    )
    yield made
    made.close()


def delete(path):
    path.unlink()


def replace(path):
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


@pytest.mark.requirement("REC-01")
@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "journal.db-shm"])
@pytest.mark.parametrize("harm", [delete, replace])
def test_nothing_is_acknowledged_into_files_that_are_gone(tmp_path, journal, name, harm):
    async def scenario():
        await journal.append(ENTRY)
        await journal.check()
        harm(tmp_path / name)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="while it was in use"):
                await journal.append(ENTRY)
        with pytest.raises(StoreUnavailable):
            await journal.check()

    asyncio.run(scenario())


def test_a_ledger_that_is_gone_records_nothing_reads_nothing_and_knows_no_key(tmp_path):
    ledger, keys = SqliteLedger(tmp_path / "ledger.db", sealers), SqliteKeys(tmp_path / "ledger.db")
    try:
        asyncio.run(ledger.check())
        assert keys.find_key("none") is None
        (tmp_path / "ledger.db").unlink()
        for attempt in (
            lambda: asyncio.run(ledger.activate_policy("r", 1)),
            lambda: asyncio.run(ledger.check()),
            ledger.audit_head,
            lambda: keys.find_key("none"),
        ):
            with pytest.raises(StoreUnavailable, match="was deleted"):
                attempt()
    finally:
        ledger.close()
        keys.close()


def test_traces_that_are_gone_are_not_read_on(tmp_path):
    migrate_traces(tmp_path / "traces.db")
    traces = SqliteTraces(tmp_path / "traces.db")
    try:
        assert traces.cursor("journal") == 0
        (tmp_path / "traces.db").unlink()
        with pytest.raises(StoreUnavailable, match="was deleted"):
            traces.cursor("journal")
    finally:
        traces.close()


@pytest.mark.requirement("REC-01")
def test_a_locked_journal_says_so_within_five_seconds_and_takes_again_afterwards(tmp_path, journal):
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)

    async def scenario():
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        first = asyncio.create_task(journal.append(ENTRY))
        await asyncio.sleep(0.2)
        rest = [asyncio.create_task(journal.append(ENTRY)) for _ in range(20)]
        found = await asyncio.gather(first, *rest, return_exceptions=True)
        took = time.monotonic() - started
        other.execute("ROLLBACK")
        await journal.append(ENTRY)
        return found, took

    found, took = asyncio.run(scenario())
    other.close()
    assert {type(each) for each in found} == {StoreUnavailable}
    assert took < 5
