"""Keys on every backend: looked up fresh, made once, rotated, and gone when they retire."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from ledger_rig import MASTER, SHARED, ledgers

from processors.model.principal import StoredKey
from sidecar.clock import random_bytes
from sidecar.store.envelope import Keyring, SealBroken, Sealer
from sidecar.store.redaction import RedactionKeys

NOW = 1_764_000_000_000_000_000
DAY = 86_400 * 10**9


@pytest.fixture(params=SHARED)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def keys(store):
    with store.keys() as opened:
        yield opened


def key(key_id="k1", **fields):
    return StoredKey(
        **{
            "key_id": key_id, "kind": "agent", "project": "p", "name": "Ann",
            "secret_sha256": "aa", "created_at_ns": NOW, **fields,
        }
    )  # fmt: skip


def ring_of(keys, master=MASTER):
    return Keyring(Sealer(master, random_bytes), keys, random_bytes)


def test_a_key_comes_back_as_it_was_stored(keys):
    whole = key(
        "k2", kind="admin", role="owner", organisation="acme", tools=("a", "b"), project="",
        expires_at_ns=NOW + 9, previous_sha256="bb", previous_until_ns=NOW + 3,
        created_at_ns=NOW + 1,
    )  # fmt: skip
    owned = key("k4", project="r", owner="Ann", created_at_ns=NOW + 3)
    keys.add_key(owned)
    assert keys.find_key("k4") == owned
    for each in (key(), whole, key("k3", project="q", created_at_ns=NOW + 2)):
        keys.add_key(each)
    assert keys.find_key("k1") == key() and keys.find_key("k2") == whole
    assert keys.find_key("k9") is None and keys.find_key("a\x00b") is None
    assert [each.key_id for each in keys.list_keys()] == ["k1", "k2", "k3", "k4"]
    assert [each.key_id for each in keys.list_keys("q")] == ["k3"]


def test_a_revoked_key_is_revoked_for_every_opener_at_once_and_for_good(store, keys):
    keys.add_key(key())
    with store.keys() as other:
        assert other.find_key("k1").revoked_at_ns is None
        assert keys.revoke_key("k1", NOW + 5) and keys.revoke_key("k1", NOW + 9)
        assert other.find_key("k1").revoked_at_ns == NOW + 5
        assert not keys.revoke_key("k9", NOW)
        assert not other.rotate_key("k1", "cc", NOW + 9)  # a revoked key gets no new secret


def test_a_rotated_key_has_its_new_secret_and_the_one_before(keys):
    keys.add_key(key())
    assert keys.rotate_key("k1", "bb", NOW + 5)
    assert keys.rotate_key("k1", "cc", NOW + 9)
    found = keys.find_key("k1")
    assert (found.secret_sha256, found.previous_sha256) == ("cc", "bb")
    assert found.previous_until_ns == NOW + 9
    assert not keys.rotate_key("k9", "dd", NOW)


def test_a_projects_first_data_key_is_made_once_whoever_asks_first(store):
    with ExitStack() as stack, ThreadPoolExecutor(8) as threads:
        opened = [stack.enter_context(store.keys()) for _ in range(4)]
        rings = [ring_of(each) for each in opened for _ in range(2)]
        sealed = list(threads.map(lambda ring: ring("p").seal(b"x", b"row"), rings))
        assert all(ring_of(opened[0])("p").open(each, b"row") == b"x" for each in sealed)
        assert opened[0].newest_data_key("p", random_bytes)[0] == 0


@pytest.mark.requirement("RED-01")
def test_after_a_rotation_new_seals_use_the_new_key_and_old_ones_open(store, keys):
    ring = ring_of(keys)
    before = ring("p").seal(b"x", b"row")
    assert [ring.rotate("p", 1), ring.rotate("p", 2)] == [1, 2]
    after = ring("p").seal(b"x", b"row")
    assert (before[:1], after[:3]) == (b"\x01", b"\x02\x00\x02")
    with store.keys() as other:
        for reader in (ring, ring_of(other)):
            assert reader("p").open(before, b"row") == reader("p").open(after, b"row") == b"x"
        assert ring("q").seal(b"x", b"")[:1] == b"\x01"
        with pytest.raises(SealBroken):
            ring_of(other, b"n" * 32)("p").open(after, b"row")
    assert keys.numbered_data_key("p", 7) is None


def test_rotations_at_once_have_numbers_of_their_own(store):
    with ExitStack() as stack, ThreadPoolExecutor(8) as threads:
        opened = [stack.enter_context(store.keys()) for _ in range(4)]
        ring_of(opened[0])("p")
        numbers = threads.map(lambda each: each.add_data_key("p", bytes, NOW), opened * 2)
        assert sorted(numbers) == list(range(1, 9))


@pytest.mark.requirement("RED-02")
def test_a_projects_redaction_key_is_made_once_and_is_its_own(store):
    with store.keys() as one, store.keys() as two:
        found = [RedactionKeys(each, ring_of(each), random_bytes) for each in (one, two)]
        assert found[0].current("p", 1) == found[1].current("p", 2)
        assert found[0].current("p", 1) != found[0].current("q", 1)
        assert found[0].current("p", 1).secret not in store.at_rest()


@pytest.mark.requirement("RED-02")
def test_a_rotated_redaction_key_stays_for_the_overlap_and_is_then_deleted(store, keys):
    digests = RedactionKeys(keys, ring_of(keys), random_bytes)
    first = digests.current("p", 0)
    second = digests.rotate("p", overlap_ns=DAY, now_ns=10)
    assert digests.current("p", 11) == second != first
    live = digests.live("p", 11)
    assert [(each.key, each.retires_at_ns) for each in live] == [
        (second, None),
        (first, 10 + DAY),
    ]
    assert [each.key for each in digests.live("p", 10 + DAY)] == [second]
    assert keys.drop_retired_redaction_keys(10 + DAY) == 1
    assert store.query("SELECT key_id FROM redaction_key") == [(second.key_id,)]


def test_keys_are_read_on_a_running_event_loop(keys):
    async def main():
        keys.add_key(key())
        return keys.find_key("k1")

    assert asyncio.run(main()) == key()
