"""What is only claimed is on the disk with what follows it; whatever else is committed, by then."""

import asyncio

import pytest
from gateway_rig import keyring
from ledger_rig import NOW, call, ledgers, run, signed

from sidecar.errors import StoreUnavailable
from sidecar.store.ledger import CallOutcome, Fence
from sidecar.store.sqlite.connection import open_database
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.store.sqlite.writer import Writer

SOON, ON_DISK = 1, 2
"""NORMAL and FULL, as ``PRAGMA synchronous`` tells them."""


def insert(connection):
    connection.execute("INSERT INTO seen VALUES (1)")


def broken(connection):
    insert(connection)
    raise ValueError("no")


def written(tmp_path, scenario):
    """What a scenario gives, and how each commit was made."""
    commits = []

    async def made():
        database = open_database(tmp_path / "some.db")
        database.execute("CREATE TABLE seen (x)")
        writer = Writer(
            database,
            str(tmp_path / "some.db"),
            lambda c: commits.append(c.execute("PRAGMA synchronous").fetchone()[0]),
        )
        try:
            return await scenario(writer)
        finally:
            writer.close()

    return asyncio.run(asyncio.wait_for(made(), 30)), commits


def test_only_a_commit_of_nothing_but_what_is_soon_is_not_on_the_disk(tmp_path):
    async def scenario(writer):
        await writer.run(insert, soon=True)
        await writer.run(insert)
        await writer.run(insert, soon=True)
        writer.run_sync(insert)
        with writer._lock:  # so that the two share a commit
            both = [asyncio.ensure_future(writer.run(insert, soon=each)) for each in (True, False)]
            first = asyncio.ensure_future(writer.run(insert, soon=True))
            await asyncio.sleep(0)
        await asyncio.gather(first, *both)

    _, commits = written(tmp_path, scenario)
    assert commits[:4] == [SOON, ON_DISK, SOON, ON_DISK]
    assert ON_DISK in commits[4:]


def count(connection, *_):
    return connection.execute("SELECT count(*) FROM seen").fetchone()[0]


def test_what_is_to_be_done_right_after_is_a_commit_of_its_own_before_all_that_is_queued(tmp_path):
    seen = []

    def follow(connection, first):
        insert(connection)
        seen.append((first, count(connection)))
        return first + 100

    async def scenario(writer):
        first = asyncio.ensure_future(writer.run(count, soon=True, then=follow))
        await asyncio.sleep(0)
        found = await writer.run(count)
        return await first, found

    (first, found), commits = written(tmp_path, scenario)
    assert (first, seen) == (100, [(0, 1)])
    assert found in (0, 1)  # with the first, or after what follows it
    assert commits[-1] == ON_DISK and len(commits) in (2, 3)


def test_where_that_fails_the_job_has_its_result_and_nothing_of_the_other_is_there(tmp_path):
    def follow(connection, _first):
        raise ValueError("no")

    async def scenario(writer):
        first = await writer.run(lambda c: insert(c) or "done", soon=True, then=follow)
        return first, await writer.run(count)

    found, _ = written(tmp_path, scenario)
    assert found == ("done", 1)


def test_nothing_follows_a_job_that_failed(tmp_path):
    async def scenario(writer):
        with pytest.raises(ValueError, match="no"):
            await writer.run(broken, then=lambda c, _: insert(c))
        return await writer.run(count)

    found, _ = written(tmp_path, scenario)
    assert found == 0


def test_what_follows_is_done_before_the_writer_closes(tmp_path):
    async def scenario(writer):
        first = asyncio.ensure_future(writer.run(count, then=lambda c, _: insert(c) or count(c)))
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        return await first

    found, _ = written(tmp_path, scenario)
    assert found == 1


def test_a_job_that_fails_alone_leaves_nothing_and_the_next_is_good(tmp_path):
    async def scenario(writer):
        with pytest.raises(ValueError, match="no"):
            await writer.run(broken)
        await writer.run(insert)
        return await writer.run(lambda c: c.execute("SELECT count(*) FROM seen").fetchone()[0])

    found, _ = written(tmp_path, scenario)
    assert found == 1


def test_a_claim_is_on_the_disk_by_the_time_it_is_marked_sent(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path, keyring(SqliteKeys(path)))
    said = []

    async def scenario():
        writer = ledger._writer
        writer._connection.set_trace_callback(said.append)
        await writer.run(lambda c: c.execute("SELECT 1"), soon=True)
        assert not await ledger.mark_sent(Fence(claim_id=1, fence=1), 1)

    try:
        asyncio.run(scenario())
    finally:
        ledger.close()
    modes = [each for each in said if each.startswith("PRAGMA synchronous")]
    assert modes == ["PRAGMA synchronous=NORMAL", "PRAGMA synchronous=FULL"]


@pytest.mark.parametrize(
    ("class_", "phase", "modes"),
    [
        ("read", "executed", ["NORMAL"]),
        ("irreversible", "refused", ["NORMAL"]),
        ("irreversible", "replayed", ["NORMAL"]),
        ("irreversible", "executed", ["FULL"]),
        ("write", "executed", ["FULL"]),
    ],
)
def test_a_receipt_waits_for_the_disk_where_something_may_have_come_of_the_call(
    tmp_path, class_, phase, modes
):
    opened = call(class_=class_)
    said = []

    async def scenario(ledger):
        await ledger._writer.run(lambda c: c.execute("SELECT 1"), soon=modes == ["FULL"])
        ledger._writer._connection.set_trace_callback(said.append)
        await ledger.record(
            CallOutcome(call=opened, receipt=signed(opened, phase=phase, status=200), now_ns=NOW)
        )

    with ledgers("file", tmp_path) as store:
        run(store, scenario)
    found = [each for each in said if each.startswith("PRAGMA synchronous")]
    assert found == [f"PRAGMA synchronous={mode}" for mode in modes]


def test_a_single_job_that_fails_leaves_its_neighbours_as_they_are(tmp_path):
    def fails(connection):
        connection.execute("INSERT INTO nowhere VALUES (1)")

    async def scenario(writer):
        with writer._lock:  # so that they share a commit
            first = asyncio.ensure_future(writer.run(insert, single=True))
            await asyncio.sleep(0)
            some = [asyncio.ensure_future(writer.run(insert, single=True)) for _ in range(2)]
            bad = asyncio.ensure_future(writer.run(fails, single=True))
            await asyncio.sleep(0)
        await asyncio.gather(first, *some)
        with pytest.raises(StoreUnavailable, match="nowhere"):
            await bad
        return await writer.run(lambda c: c.execute("SELECT count(*) FROM seen").fetchone()[0])

    found, _ = written(tmp_path, scenario)
    assert found == 3
