"""A verdict is made again by a process that has the bundle and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace
from test_evidence_bundles import KEY, WHOLE, packed, result

from sidecar.gate import dsse
from sidecar.gate.chain import entry_of, following, line_of
from sidecar.gate.conclude import conclude, more_runs
from sidecar.gate.process import Stored, derive_clean, verify_bundle

ROOT = Path(__file__).parents[3]
TRIES = {
    "network": "import socket; socket.socket().connect(('127.0.0.1', 9))",
    "names": "import socket; socket.getaddrinfo('localhost', 1)",
    "process": "import subprocess; subprocess.Popen(['true'])",
    "fork": "import os; os.fork()",
    "shell": "import os; os.system('true')",
    "database": "import sqlite3; sqlite3.connect(':memory:')",
    "file": f"open({str(Path('/etc/hostname'))!r})",
    "own file": "open('here', 'w')",
    "program file": f"open({str(ROOT / 'sidecar' / 'clock.py')!r}, 'r+')",
}


@pytest.mark.requirement("EVD-01")
def test_a_clean_process_comes_to_the_same_digest_and_the_store_is_not_asked():
    again = derive_clean(WHOLE.files)
    assert (again.status, again.digest, again.faults) == ("BLOCK", WHOLE.verdict.digest, ())


@pytest.mark.requirement("EVD-01")
def test_a_sampled_suite_comes_to_the_same_statistics_there():
    found = result()
    pins = replace(found.pins, deterministic=False, candidate=found.pins.baseline)
    found = replace(found, pins=pins)
    verdict = conclude(found, verdict_id="v1", now_ns=9)
    assert verdict.status is None and verdict.evidence["noise"]["pairs"] == 2
    assert more_runs(pins, found.runs) == {"a/b": 3} and more_runs(result().pins, found.runs) == {}
    whole = verify_bundle(packed(found, verdict).files, {})
    assert whole.faults == () and whole.digest == verdict.digest


@pytest.mark.requirement("EVD-01")
def test_whoever_signed_is_asked_for_by_key_and_the_store_by_its_root_and_its_log():
    own, strange = KEY.public_key(), Ed25519PrivateKey.generate().public_key()
    line = following(None, entry_of(WHOLE.verdict, WHOLE.manifest.root))
    stored = Stored(verdict=WHOLE.verdict, log=line_of(line))
    whole = verify_bundle(WHOLE.files, {dsse.keyid(own): own}, stored)
    assert whole.holds and whole.signed_by == whole.trusted and whole.status == "BLOCK"
    (fault,) = verify_bundle(WHOLE.files, {dsse.keyid(strange): strange}).faults
    assert fault == f"it is not signed by {dsse.keyid(strange)}"
    (fault,) = verify_bundle(WHOLE.files, {}, replace(stored, log=b"")).faults
    assert fault == "the log holds no line of this verdict"
    changed = replace(WHOLE.verdict, status="PASS")
    (fault,) = verify_bundle(WHOLE.files, {}, replace(stored, verdict=changed)).faults
    assert fault == "verdict.json is not the verdict that is stored"


def test_records_that_cannot_be_read_or_come_to_something_else_are_told_by_the_process():
    broken = derive_clean({**WHOLE.files, "plan.json": b"{"})
    assert "cannot be read" in broken.faults[0]
    found = result("passed")
    forged = replace(WHOLE.verdict, evidence=conclude(found, verdict_id="v1", now_ns=9).evidence)
    told = verify_bundle(packed(found, forged).files, {})
    assert not told.holds and told.faults[0].startswith("the records come to PASS")


@pytest.mark.requirement("EVD-01")
def test_the_process_reaches_no_network_process_database_or_file(tmp_path):
    lines = ["import os, socket, subprocess, sqlite3", "from sidecar.gate.worker import _seal"]
    lines += ["_seal()"]
    for name, code in TRIES.items():
        lines += ["try:", f"    {code}", "except PermissionError as error:"]
        lines += [f"    print({name!r}, 'is not allowed where' in str(error))"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", "")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name} True" for name in TRIES]
