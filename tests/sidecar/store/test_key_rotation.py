"""Rotation: new seals and new digests use the new key; the old still open, and retire."""

import json
import sqlite3
import subprocess
import sys

import pytest

from processors.redact.masker import Masker
from processors.redact.terms import Terms
from sidecar.clock import random_bytes
from sidecar.pipeline.keepers import Keepers
from sidecar.store.envelope import Keyring, SealBroken, Sealer
from sidecar.store.redaction import RedactionKeys
from sidecar.store.sqlite.keys import SqliteKeys

DAY = 86_400 * 10**9
MASTER = b"m" * 32


@pytest.fixture
def keys(tmp_path):
    stored = SqliteKeys(tmp_path / "ledger.db")
    yield stored
    stored.close()


def ring_of(keys, master=MASTER):
    return Keyring(Sealer(master, random_bytes), keys, random_bytes)


@pytest.mark.requirement("RED-01")
def test_after_a_rotation_new_seals_use_the_new_key_and_old_ones_open(keys):
    ring = ring_of(keys)
    before = ring("p").seal(b"x", b"row")
    assert [ring.rotate("p", 1), ring.rotate("p", 2)] == [1, 2]
    after = ring("p").seal(b"x", b"row")
    assert (before[:1], after[:3]) == (b"\x01", b"\x02\x00\x02")
    for reader in (ring, ring_of(keys)):
        assert reader("p").open(before, b"row") == reader("p").open(after, b"row") == b"x"
    assert ring("q").seal(b"x", b"")[:1] == b"\x01"
    with pytest.raises(SealBroken):
        ring_of(keys, b"n" * 32)("p").open(after, b"row")


def test_a_seal_does_not_open_under_another_number(keys):
    ring = ring_of(keys)
    ring.rotate("p", 1)
    sealed = ring("p").seal(b"x", b"row")
    ring.rotate("p", 2)
    for number in (0, 2, 7):
        with pytest.raises(SealBroken):
            ring("p").open(b"\x02" + number.to_bytes(2, "big") + sealed[3:], b"row")
    with pytest.raises(SealBroken):
        ring("p").open(b"\x01" + sealed[3:], b"row")


def test_a_running_process_opens_at_once_and_follows_soon(keys):
    running, other = ring_of(keys), ring_of(keys)
    running("p").seal(b"x", b"")
    other.rotate("p", 1)
    assert running("p").open(other("p").seal(b"new", b""), b"") == b"new"
    heads = [running("p").seal(b"x", b"")[:1] for _ in range(300)]
    assert heads[-1] == b"\x02"


@pytest.mark.requirement("RED-02")
def test_a_projects_redaction_key_is_made_once_and_is_its_own(tmp_path):
    stores = [SqliteKeys(tmp_path / "ledger.db") for _ in range(2)]
    found = [RedactionKeys(each, ring_of(each), random_bytes) for each in stores]
    assert found[0].current("p", 1) == found[1].current("p", 2)
    assert found[0].current("p", 1) != found[0].current("q", 1)
    secret = found[0].current("p", 1).secret
    assert secret not in (tmp_path / "ledger.db").read_bytes()
    assert secret not in (tmp_path / "ledger.db-wal").read_bytes()
    for each in stores:
        each.close()


@pytest.mark.requirement("RED-02")
def test_a_rotated_key_stays_for_the_overlap_and_is_then_deleted(keys, tmp_path):
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
    rows = sqlite3.connect(tmp_path / "ledger.db").execute("SELECT key_id FROM redaction_key")
    assert rows.fetchall() == [(second.key_id,)]


@pytest.mark.requirement("RED-02")
def test_the_pipelines_keeping_takes_up_a_rotated_key(keys):
    digests = RedactionKeys(keys, ring_of(keys), random_bytes)
    keepers = Keepers(lambda project: digests.current(project, 1))
    terms = Terms(capture="redacted", actions={"email": "tokenise"})
    before = keepers.of("p", terms).text("bob@example.com")
    assert keepers.of("p", terms) is keepers.of("p", terms)
    new = digests.rotate("p", overlap_ns=DAY, now_ns=1)
    found = {keepers.of("p", terms).text("bob@example.com") for _ in range(200)}
    after = Masker(Terms(actions=terms.actions, key=new)).mask("bob@example.com")
    assert found == {before, after}
    assert keepers.of("p", terms).text("bob@example.com") == after


def test_keepings_are_bounded_and_full_needs_none():
    keepers = Keepers()
    terms = Terms(capture="redacted")
    assert keepers.of("p", Terms(capture="full")) is None
    first = keepers.of("p0", terms)
    for number in range(40):
        keepers.of(f"p{number}", terms)
    assert keepers.of("p0", terms) is not first


def sidecar(folder, *arguments, stdin=""):
    return subprocess.run(
        [sys.executable, "-m", "sidecar", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.requirement("RED-02")
def test_keys_are_rotated_and_values_looked_for_on_the_command_line(tmp_path):
    (tmp_path / "sidecar-data.seal-key").write_text("ab" * 32)
    on = ("--project", "default", "--output", "json")
    look = ("key", "digest", "--kind", "email", *on)
    (one,) = json.loads(sidecar(tmp_path, *look, stdin="bob@example.com\n").stdout)
    rotated = json.loads(
        sidecar(tmp_path, "key", "rotate-redaction", "--overlap", "1d", *on).stdout
    )
    new, old = json.loads(sidecar(tmp_path, *look, stdin="Bob@Example.com").stdout)
    assert (old["token"], old["hash"]) == (one["token"], one["hash"])
    assert new["token"].startswith(f"tok:email:{rotated['key_id']}")
    assert new["token"] != one["token"]
    assert old["retires_at_ns"] and not new["retires_at_ns"]
    number = json.loads(sidecar(tmp_path, "key", "rotate-data", *on).stdout)["number"]
    assert number == 1
    assert json.loads(sidecar(tmp_path, *look, stdin="bob@example.com").stdout)[0] == new
    wrong = sidecar(tmp_path, "key", "rotate-redaction", "--project", "p", "--overlap", "soon")
    assert wrong.returncode == 3 and "soon" in wrong.stderr
    assert sidecar(tmp_path, *look).returncode == 3
