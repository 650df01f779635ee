"""Sealing: only the right key and place open it; data keys are wrapped and made once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.clock import random_bytes
from sidecar.store.envelope import Keyring, SealBroken, Sealer
from sidecar.store.sqlite.keys import SqliteKeys


@given(st.binary(max_size=300), st.binary(max_size=30))
def test_what_was_sealed_opens(plaintext, aad):
    sealer = Sealer(b"k" * 32, random_bytes)
    sealed = sealer.seal(plaintext, aad)
    assert sealer.open(sealed, aad) == plaintext
    assert len(plaintext) < 8 or plaintext not in sealed


@given(st.binary(min_size=1, max_size=60), st.data())
def test_a_changed_byte_does_not_open(plaintext, data):
    sealer = Sealer(b"k" * 32, random_bytes)
    sealed = bytearray(sealer.seal(plaintext, b"row 1"))
    position = data.draw(st.integers(0, len(sealed) - 1))
    sealed[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SealBroken):
        sealer.open(bytes(sealed), b"row 1")


def test_moved_or_truncated_bytes_do_not_open():
    sealer = Sealer(b"k" * 32, random_bytes)
    sealed = sealer.seal(b"secret", b"row 1")
    for bad, aad in (
        (sealed, b"row 2"),
        (sealed[:-1], b"row 1"),
        (b"", b""),
        (sealed[:5], b"row 1"),
    ):
        with pytest.raises(SealBroken):
            sealer.open(bad, aad)


def test_a_project_has_one_data_key_whoever_asks_first(tmp_path):
    first, second = SqliteKeys(tmp_path / "ledger.db"), SqliteKeys(tmp_path / "ledger.db")
    rings = [
        Keyring(Sealer(b"m" * 32, random_bytes), keys, random_bytes) for keys in (first, second)
    ]
    sealed = rings[0]("p").seal(b"x", b"")
    assert rings[1]("p").open(sealed, b"") == b"x"
    with pytest.raises(SealBroken):
        rings[1]("q").open(sealed, b"")
    first.close()
    second.close()


def test_another_master_key_opens_nothing(tmp_path):
    keys = SqliteKeys(tmp_path / "ledger.db")
    Keyring(Sealer(b"m" * 32, random_bytes), keys, random_bytes)("p")
    with pytest.raises(SealBroken):
        Keyring(Sealer(b"n" * 32, random_bytes), keys, random_bytes)("p")
    keys.close()
