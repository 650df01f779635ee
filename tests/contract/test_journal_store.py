"""What every journal must keep: durable before append returns, bounded, in order, crash-proof."""

import asyncio
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.store.envelope import Sealer
from sidecar.store.journal import DamagedRecord, JournalEntry, JournalFull
from sidecar.store.sqlite.journal import SqliteJournal, SqliteJournalReader


def sealers(project):
    return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)


def entry(payload=b"x", project="shop", signal_="traces", encoding="protobuf", received_ns=1):
    return JournalEntry(
        project=project,
        principal="key:1",
        signal=signal_,
        encoding=encoding,
        payload=payload,
        received_ns=received_ns,
    )


def open_journal(folder, bytes_max=1 << 30):
    return SqliteJournal(
        folder / "journal.db", sealers=sealers, bytes_max=bytes_max, new_id=clock.new_id
    )


def read(folder, after=0, count_max=10_000, bytes_max=1 << 40):
    reader = SqliteJournalReader(folder / "journal.db", sealers=sealers)
    try:
        return reader.records_after(after, count_max=count_max, bytes_max=bytes_max)
    finally:
        reader.close()


async def append_all(journal, entries):
    await asyncio.gather(*(journal.append(item) for item in entries))


entries = st.builds(
    entry,
    payload=st.binary(max_size=3000),
    project=st.sampled_from(["shop", "bank"]),
    signal_=st.sampled_from(["traces", "logs"]),
    encoding=st.sampled_from(["protobuf", "json"]),
    received_ns=st.integers(0, 2**62),
)


@given(st.lists(entries, max_size=20), st.integers(0, 25), st.booleans())
def test_what_is_appended_is_read_back_in_order_and_only_the_consumed_is_gone(
    tmp_path_factory, items, trimmed, reopen
):
    folder = tmp_path_factory.mktemp("journal")
    journal = open_journal(folder)

    async def scenario():
        for item in items:
            await journal.append(item)
        while await journal.trim(trimmed):
            pass

    asyncio.run(scenario())
    held = journal.bytes_held
    if reopen:
        journal.close()
        journal = open_journal(folder)
        assert journal.bytes_held == held
    assert [record.entry for record in read(folder)] == items[trimmed:]
    assert (held == 0) == (len(items) <= trimmed)
    journal.close()


def test_a_sequence_number_is_never_given_again_and_a_new_journal_has_a_new_id(tmp_path):
    journal = open_journal(tmp_path)
    asyncio.run(append_all(journal, [entry(), entry()]))
    asyncio.run(journal.trim(2))
    identity = journal.journal_id
    journal.close()
    journal = open_journal(tmp_path)
    assert journal.journal_id == identity
    asyncio.run(journal.append(entry()))
    assert [record.seq for record in read(tmp_path)] == [3]
    journal.close()
    (tmp_path / "journal.db").unlink()
    journal = open_journal(tmp_path)
    assert journal.journal_id != identity
    journal.close()


@pytest.mark.requirement("REC-03")
def test_the_journal_is_bounded_and_has_room_again_once_consumed(tmp_path):
    journal = open_journal(tmp_path, bytes_max=4000)
    noise = os.urandom(1000)

    async def scenario():
        taken = 0
        with pytest.raises(JournalFull) as full:
            while True:
                await journal.append(entry(noise))
                taken += 1
        assert full.value.retry_after_s > 0
        assert journal.bytes_held <= 4000
        while await journal.trim(taken):
            pass
        await journal.append(entry(noise))
        return taken

    taken = asyncio.run(scenario())
    assert taken >= 3
    assert [record.seq for record in read(tmp_path)] == [taken + 1]
    journal.close()


def test_one_group_may_fill_the_journal_but_not_overfill_it(tmp_path):
    journal = open_journal(tmp_path, bytes_max=5000)

    async def scenario():
        noise = os.urandom(1000)
        results = await asyncio.gather(
            *(journal.append(entry(noise)) for _ in range(50)), return_exceptions=True
        )
        return [result for result in results if result is None]

    taken = asyncio.run(scenario())
    assert len(read(tmp_path)) == len(taken) > 0
    assert journal.bytes_held <= 5000
    journal.close()


def test_nothing_readable_lies_on_the_disk(tmp_path):
    journal = open_journal(tmp_path)
    asyncio.run(journal.append(entry(b"my card number is 4111 1111 1111 1111")))
    on_disk = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"4111" not in on_disk
    journal.close()


@pytest.mark.parametrize(
    "change",
    [
        "project = 'bank'",
        "principal = 'key:2'",
        "signal = 'logs'",
        "received_ns = 2",
        "sealed = substr(sealed, 1, length(sealed) - 1)",
        "sealed = (SELECT sealed FROM record WHERE seq = 3)",
        "encoding = 'morse'",
    ],
)
def test_an_edited_row_is_told_apart_and_its_neighbours_are_read(tmp_path, change):
    journal = open_journal(tmp_path)

    async def scenario():
        for number in range(3):
            await journal.append(entry(b"%d" % number, received_ns=number))

    asyncio.run(scenario())
    journal.close()
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        connection.execute(f"UPDATE record SET {change} WHERE seq = 2")
    connection.close()
    first, damaged, last = read(tmp_path)
    assert isinstance(damaged, DamagedRecord) and damaged.seq == 2 and damaged.reason
    assert (first.entry.payload, last.entry.payload) == (b"0", b"2")


def test_reading_is_bounded_by_bytes_yet_always_moves_on(tmp_path):
    journal = open_journal(tmp_path)
    asyncio.run(append_all(journal, [entry(b"z" * 1000) for _ in range(10)]))
    assert len(read(tmp_path, bytes_max=2500)) == 3
    assert len(read(tmp_path, bytes_max=1)) == 1
    assert [record.seq for record in read(tmp_path, after=8)] == [9, 10]
    assert len(read(tmp_path, count_max=4)) == 4
    journal.close()


def test_a_folder_that_cannot_be_written_says_so(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(StoreUnavailable, match="store cannot be used"):
        open_journal(blocked)


def test_a_closed_journal_refuses_instead_of_forgetting(tmp_path):
    journal = open_journal(tmp_path)
    journal.close()
    with pytest.raises(StoreUnavailable):
        asyncio.run(journal.append(entry()))


WRITER = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from test_journal_store import entry, open_journal
    journal = open_journal(Path(sys.argv[1]))
    async def one(lane):
        number = 0
        while True:
            await journal.append(entry(b"%d:%d" % (lane, number)))
            print(f"{lane}:{number}", flush=True)
            number += 1
    async def main():
        await asyncio.gather(*(one(lane) for lane in range(8)))
    asyncio.run(main())
""")


@pytest.mark.requirement("REC-02")
def test_after_a_kill_every_acknowledged_entry_is_there_once(tmp_path):
    """Goal: acknowledged means durable. Method: kill -9 a writer, compare with what it printed."""
    acknowledged = []
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), os.path.dirname(__file__)],
            stdout=subprocess.PIPE,
        )
        for line in child.stdout:
            acknowledged.append(line.strip())
            if len(acknowledged) % 150 == 0:
                break
        os.kill(child.pid, signal.SIGKILL)
        acknowledged += [line.strip() for line in child.stdout if line.endswith(b"\n")]
        child.stdout.close()
        child.wait()
    stored = [record.entry.payload for record in read(tmp_path)]
    assert len(acknowledged) >= 450
    missing = {name: acknowledged.count(name) - stored.count(name) for name in set(acknowledged)}
    assert not {name for name, count in missing.items() if count > 0}
    # Each run may have made durable a few more than it lived to say: at most one a lane.
    assert len(acknowledged) <= len(stored) <= len(acknowledged) + 3 * 8
