"""Keys that are looked up again and again: as fresh as if they were read each time."""

import pytest

from processors.model.principal import StoredKey
from sidecar.store.sqlite.connection import open_database
from sidecar.store.sqlite.keys import SqliteKeys

NOW = 1_764_000_000_000_000_000


def key(key_id="k1"):
    return StoredKey(
        key_id=key_id, kind="agent", project="p", name="", secret_sha256="aa", created_at_ns=NOW
    )


@pytest.fixture
def keys(tmp_path):
    made = SqliteKeys(tmp_path / "ledger.db")
    made.add_key(key())
    yield made
    made.close()


@pytest.mark.parametrize("own", [True, False])
def test_every_change_is_seen_by_the_next_lookup_whoever_made_it(tmp_path, keys, own):
    other = SqliteKeys(tmp_path / "ledger.db")
    writer = keys if own else other
    try:
        assert keys.find_key("k1") == key() and keys.find_key("k2") is None
        writer.add_key(key("k2"))
        assert keys.find_key("k2") == key("k2")
        for number in range(3):
            writer.rotate_key("k2", f"s{number}", NOW)
            assert keys.find_key("k2").secret_sha256 == f"s{number}"
        writer.revoke_key("k1", NOW + 1)
        assert keys.find_key("k1").revoked_at_ns == NOW + 1
    finally:
        other.close()


def test_a_change_that_is_undone_leaves_the_key_as_it_was(tmp_path, keys):
    assert keys.find_key("k1") == key()
    other = open_database(tmp_path / "ledger.db")
    try:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE api_key SET revoked_at_ns = 1")
        assert keys.find_key("k1") == key()
        other.execute("ROLLBACK")
        assert keys.find_key("k1") == key()
        other.execute("DELETE FROM api_key")
        assert keys.find_key("k1") is None
    finally:
        other.close()
    keys.add_key(key())
    assert keys.find_key("k1") == key()
