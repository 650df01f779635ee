"""Rotation as its users see it; what a store owes is in ``tests/contract/test_key_store.py``."""

import json
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
