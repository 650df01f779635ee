"""What is SQLite's own about the ledger: memory, memory file systems, and the owners' lock files.

What every backend owes is in ``tests/contract/test_ledger_store.py``.
"""

import asyncio

from ledger_rig import (
    NOW,
    REVISION,
    SCOPE,
    FileLedgers,
    MemoryLedgers,
    intent,
    signing_ledger,
)

from sidecar.store.sqlite.ephemeral import is_ephemeral


def test_a_memory_ledger_works_and_is_ephemeral(tmp_path):
    async def scenario():
        with signing_ledger(MemoryLedgers(tmp_path)) as opened:
            await opened.activate_policy(REVISION, NOW)
            await opened.commit_intent(intent())
            assert opened.ephemeral and opened.find_claim(SCOPE).state == "claimed"
            assert opened.orphans() == []

    asyncio.run(scenario())


def test_a_file_on_a_memory_file_system_is_ephemeral(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_bytes(
        b"/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\nodd\ntmpfs /m\xff tmpfs rw 0 0\n"
        b"tmpfs /run/a\\040b tmpfs rw 0 0\n/dev/sdb1 /run/a\\040b/disk ext4 rw 0 0\n"
        b"tmpfs /gr\xc3\xb6\xc3\x9fe tmpfs rw 0 0\n"
    )
    assert is_ephemeral("/größe/ledger.db", mounts)
    assert is_ephemeral("/dev/shm/x/ledger.db", mounts)
    assert is_ephemeral("/run/a b/ledger.db", mounts)
    assert not is_ephemeral("/run/a b/disk/ledger.db", mounts)
    assert not is_ephemeral("/dev/shmx/ledger.db", mounts)
    assert is_ephemeral(":memory:")


def test_who_starts_removes_the_files_of_the_dead_and_of_nobody_else(tmp_path):
    dead = tmp_path / "ledger.db-owner-dead"
    dead.touch()
    store = FileLedgers(tmp_path)
    with signing_ledger(store) as one:
        one.hold_owner("one")
        assert not dead.exists()
        with signing_ledger(store) as two:
            two.hold_owner("two")
            assert one.owner_lives("two") and two.owner_lives("one")
            assert not two.owner_lives("dead")
        assert not one.owner_lives("two") and one.owner_lives("one")
