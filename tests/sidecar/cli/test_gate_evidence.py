"""Evidence as a user carries it elsewhere: verified without a store, by key, byte for byte."""

import json
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from test_replay_commands import Shell

from sidecar.gate import dsse

GATE = """\
gate: "1"
owner: release-team
quarantine:
  - {case: nowhere, owner: somebody, until: 2020-01-01}
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    return Shell(tmp_path_factory.mktemp("evidence"))


@pytest.fixture(scope="module")
def verdict(shell):
    for name in ("one", "two"):
        key = Ed25519PrivateKey.generate()
        (shell.folder / f"{name}.pem").write_bytes(dsse.private_pem(key))
        (shell.folder / f"{name}.pub").write_bytes(dsse.public_pem(key.public_key()))
    (shell.folder / "gate.yaml").write_text(GATE)
    keys = ("--signing-key", "one.pem", "--signing-key", "two.pem")
    done = shell.replay("good", "good", *keys, "--gate", "gate.yaml", "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.requirement("EVD-01")
def test_a_bundle_holds_on_a_machine_without_the_store_and_says_who_signed_it(
    shell, verdict, tmp_path
):
    kept = shell.folder / "sidecar-data" / "evidence" / verdict["verdict_id"]
    shutil.copytree(kept, tmp_path / "bundle")
    away = Shell(tmp_path)
    keys = ("--key", str(shell.folder / "one.pub"), "--key", str(shell.folder / "two.pub"))
    done = away.run("gate", "verify", "bundle", *keys, "--output", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["holds"] and told["digest"] == verdict["digest"] and told["status"] == "WARN"
    assert told["signed_by"] == told["trusted"] == verdict["evidence"]["signed_by"]
    assert not (tmp_path / "sidecar-data").exists()
    text = away.run("gate", "verify", "bundle")
    assert "whose key it is was not asked" in text.stdout
    file = tmp_path / "bundle" / "inputs" / "twin.yaml"
    file.write_bytes(file.read_bytes().replace(b"A-1", b"A-2"))
    broken = away.run("gate", "verify", "bundle")
    assert broken.returncode == 1 and "inputs/twin.yaml is not as it was written" in broken.stdout
    (tmp_path / "bundle" / "MANIFEST.json").unlink()
    headless = away.run("gate", "verify", "bundle")
    assert headless.returncode == 1 and "MANIFEST.json is missing" in headless.stdout


def test_the_policy_decides_and_is_pinned_with_its_owner(shell, verdict):
    (finding,) = (one for one in verdict["findings"] if one["rule"] == "quarantine_idle")
    assert finding["operands"]["owner"] == "release-team" and verdict["status"] == "WARN"
    assert verdict["evidence"]["gate_policy"].startswith("sha256:")
    explained = shell.run("gate", "explain", verdict["verdict_id"]).stdout
    assert "owner release-team" in explained and "composite" in explained
    (shell.folder / "bad.yaml").write_text("alpha: 7\n")
    done = shell.replay("good", "good", "--gate", "bad.yaml")
    assert done.returncode == 3 and "bad.yaml:1" in done.stderr


@pytest.mark.full
@pytest.mark.requirement("EVD-01")
def test_a_stored_verdict_is_held_against_the_log_of_its_project(shell, verdict):
    name = verdict["verdict_id"]
    assert shell.run("gate", "verify", name, "--key", "one.pub").returncode == 0
    log = shell.folder / "sidecar-data" / "evidence" / "default.log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"WARN"', b'"PASS"', 1))
    done = shell.run("gate", "verify", name)
    assert done.returncode == 1 and "line 1 of the log" in done.stdout
    refused = shell.replay("good", "good")
    assert refused.returncode == 3 and "log of evidence does not hold" in refused.stderr
    log.write_bytes(whole)


@pytest.mark.full
def test_keys_that_are_none_are_refused_before_anything_runs(shell, verdict):
    done = shell.replay("good", "good", "--signing-key", "one.pub")
    assert done.returncode == 3 and "openssl genpkey" in done.stderr
    done = shell.replay("good", "good", "--signing-key", "one.pem", "--signing-key", "one.pem")
    assert done.returncode == 3 and "signs twice" in done.stderr
    done = shell.run("gate", "verify", verdict["verdict_id"], "--key", "one.pem")
    assert done.returncode == 3 and "public Ed25519 key" in done.stderr


@pytest.mark.full
def test_the_stores_own_key_signs_where_none_is_named_and_lies_beside_the_data(tmp_path):
    shell = Shell(tmp_path)
    first, second = (
        json.loads(shell.replay("good", "good", "--output", "json").stdout) for _ in "ab"
    )
    assert first["evidence"]["signed_by"] == second["evidence"]["signed_by"]
    assert first["digest"] == second["digest"]
    key = tmp_path / "sidecar-data.evidence-key"
    assert key.stat().st_mode & 0o77 == 0
    public = tmp_path / "own.pub"
    made = ("openssl", "pkey", "-in", str(key), "-pubout", "-out", str(public))
    subprocess.run(made, check=True, capture_output=True)
    done = shell.run("gate", "verify", second["verdict_id"], "--key", "own.pub")
    assert done.returncode == 0, done.stdout


@pytest.mark.full
@pytest.mark.requirement("GAT-02")
def test_a_version_against_itself_in_a_sampled_suite_gives_the_noise_for_the_policy(tmp_path):
    shell = Shell(tmp_path)
    suite = tmp_path / "suite.yaml"
    suite.write_text(suite.read_text().replace("deterministic: true\n", ""))
    done = shell.replay("good", "good", "--output", "json")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["status"]) == (0, "WARN")
    (cleared,) = (one for one in verdict["findings"] if one["rule"] == "success_not_cleared")
    assert cleared["operands"]["needed"] > 100
    (tmp_path / "gate.yaml").write_text(json.dumps({"noise": verdict["evidence"]["noise"]}))
    again = shell.replay("good", "good", "--gate", "gate.yaml", "--output", "json")
    told = json.loads(again.stdout)
    assert "noise" in {one["name"] for one in told["evidence"]["measures"]}
    assert shell.run("gate", "verify", told["verdict_id"]).returncode == 0
    assert "more episodes a side needed" in shell.run("gate", "explain", told["verdict_id"]).stdout


@pytest.mark.full
@pytest.mark.requirement("GAT-02")
def test_a_case_that_looks_worse_runs_three_and_then_seven_times_and_is_shown(tmp_path):
    shell = Shell(tmp_path)
    suite = tmp_path / "suite.yaml"
    suite.write_text(suite.read_text().replace("deterministic: true\n", ""))
    verdict = json.loads(shell.replay("good", "bad", "--output", "json").stdout)
    (case,) = verdict["evidence"]["cases"]
    assert (verdict["status"], case["class"]) == ("BLOCK", "new_critical")
    assert case["runs"] == ["failed"] * 7 and verdict["evidence"]["runs"] == 14
    assert shell.run("gate", "verify", verdict["verdict_id"]).returncode == 0
    (tmp_path / "gate.yaml").write_text("runs: []\n")
    once = json.loads(shell.replay("good", "bad", "--gate", "gate.yaml", "--output", "json").stdout)
    assert once["status"] is None and once["evidence"]["runs"] == 2
