"""``sidecar demo`` as a stranger runs it: what it says, leaves behind, and cleans up."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sidecar.tape.files import read_tape

pytestmark = pytest.mark.full  # a minute each; CI plays the demo itself

SECONDS = 900  # a bound on hanging; on a machine shared by many the loop takes minutes


class Ran:
    """A finished demo: its folder, exit code, words and record."""

    def __init__(self, folder, *options):
        self.folder = folder
        done = sidecar(folder, "demo", *options)
        self.code, self.said, self.errors = done.returncode, done.stdout, done.stderr
        record = folder / "demo.json"
        self.record = json.loads(record.read_text()) if record.exists() else None

    def act(self, name):
        return next(act for act in self.record["acts"] if act["name"] == name)

    def failed(self):
        return [
            f"{act['name']}: {check['name']} ({check['detail']})"
            for act in self.record["acts"]
            for check in act["checks"]
            if check["held"] is False
        ]


def sidecar(folder, *words):
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("SIDECAR_", "OTEL_"))}
    return subprocess.run(
        [sys.executable, "-m", "sidecar", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return Ran(tmp_path_factory.mktemp("demo"))


@pytest.mark.requirement("DEM-01")
def test_everything_shown_held(ran):
    assert ran.record is not None, ran.errors
    assert ran.failed() == []
    assert ran.code == 0, ran.said
    assert "Everything shown held." in ran.said


@pytest.mark.requirement("DEM-01")
def test_the_gate_blocks_1_3_0_for_what_was_built_in_and_passes_1_3_1(ran):
    said = "\n".join(ran.act("gate_1.3.0")["story"])
    assert "Verdict: BLOCK" in said
    for case in ("outside-window", "false-success"):
        assert f"- {case} (new_critical)" in said
    assert "- policy-before-refund (regressed)" in said
    assert said.count("first difference:") == 3
    assert "Verdict: PASS" in "\n".join(ran.act("gate_1.3.1")["story"])


def test_the_shop_s_own_database_agrees_with_what_was_said(ran):
    with sqlite3.connect(ran.folder / "demo-data" / "demo" / "shop.db") as shop:
        refunds = dict(shop.execute("SELECT order_id, count(*) FROM refunds GROUP BY order_id"))
    assert refunds == {"ORD-1001": 1, "ORD-1002": 1, "ORD-1003": 1}


@pytest.mark.requirement("DEM-01")
def test_captured_traffic_judges_the_candidate_by_what_was_recorded(ran):
    said = "\n".join(ran.act("captured")["story"])
    assert "5 requests of this run" in said
    assert "Verdict on 1.3.0: BLOCK" in said
    assert "(regressed): issue_refund was executed" in said


def test_the_ids_of_the_record_resolve_from_the_data_folder_alone(ran):
    kinds = {"trace": "traces", "calls": "calls", "approvals": "approvals", "gate": "verdicts"}
    for word, kind in kinds.items():
        assert ran.record[kind], kind
        one = ran.record[kind][-1]
        done = sidecar(ran.folder, word, "show", one, "--store", ran.record["store"])
        assert done.returncode == 0, done.stderr
        unknown = sidecar(ran.folder, word, "show", "f" * 32, "--store", ran.record["store"])
        assert unknown.returncode != 0
    audit = sidecar(ran.folder, "audit", "verify", "--store", ran.record["store"])
    assert audit.returncode == 0, audit.stdout + audit.stderr


def test_the_list_of_calls_tells_stored_answers_from_decisions(ran):
    listed = sidecar(ran.folder, "calls", "list", "--store", ran.record["store"]).stdout
    ends = [line.split("  ")[-1] for line in listed.splitlines()]
    assert {"allow", "approval_required", "require_approval", "approval_mismatch"} < set(ends)
    assert ends.count("replayed") == 2
    assert "deny" not in ends


@pytest.mark.requirement("TAP-03")
def test_its_traffic_becomes_tapes_with_each_call_once(ran):
    kept = {"projects": [{"name": "default", "content": {"capture": "redacted"}}]}
    (ran.folder / "tapes.yaml").write_text(json.dumps(kept))
    done = sidecar(
        ran.folder, "tape", "import", "store:service=refund-agent", "--format", "store",
        "--to", "tapes", "--store", "sqlite:///demo-data", "--config", "tapes.yaml",
        "--output", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["tapes"]
    assert told and all(one["holds"] for one in told)
    told = [one for one in told if one["header"]["source"] == "proxy"]
    ways = set()
    for one in told:
        events = read_tape(ran.folder / one["tape"]).events
        calls = [event.attr["gateway"]["call"] for event in events if event.kind == "tool_call"]
        assert calls and len(calls) == len(set(calls))
        refunds = [event for event in events if event.name == "issue_refund"]
        ways.add(tuple(event.kind for event in refunds))
    made = ("decision", "tool_call", "tool_result")
    asked = (*made, "human_input", *made)
    lost = ("decision", "tool_call", "error", "tool_result", "tool_call", "tool_result")
    assert {made, asked, lost} <= ways


def test_nothing_of_the_demo_runs_on(ran):
    deadline = time.monotonic() + 5
    while (left := processes_in(ran.folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def test_no_credential_is_left_in_what_it_says_or_writes_for_people(ran):
    for text in (ran.said, (ran.folder / "demo.json").read_text()):
        assert "sk_agent_" not in text
        assert "sk_approver_" not in text
    for log in (ran.folder / "demo-data" / "demo").glob("*.log"):
        assert "sk_" not in log.read_text(), log.name


def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    done = sidecar(tmp_path, "demo", "--store", "sqlite:///mine")
    assert done.returncode == 3
    assert "did not make" in done.stderr and "--store" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in mine.iterdir()] == ["letter.txt"]


def test_without_its_extra_it_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['openai'] = None; sys.argv = ['sidecar', 'demo']\n"
        "from sidecar.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3
    assert "openai" in done.stderr and "agenttwin-sidecar[demo]" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("act", ["2.", "5."])
@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_in_the_middle_leaves_no_process(tmp_path, number, act):
    child = subprocess.Popen(
        [sys.executable, "-m", "sidecar", "demo"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in child.stdout:
        if line.startswith(act):
            break
    deadline = time.monotonic() + 60
    while act == "5." and time.monotonic() < deadline:
        if any("sidecar.demo.agent" in words for words in processes_in(tmp_path)):
            break  # the gate's own agents run
        time.sleep(0.05)
    child.send_signal(number)
    child.communicate(timeout=60)
    assert child.returncode == 3
    assert processes_in(tmp_path) == []


@pytest.mark.full
def test_with_capture_off_all_but_the_captured_run_is_shown(tmp_path):
    ran = Ran(tmp_path, "--capture", "off")
    assert ran.failed() == []
    assert ran.code == 0
    assert "Capture is off" in "\n".join(ran.act("captured")["story"])
    assert len(ran.record["verdicts"]) == 2


@pytest.mark.full
def test_with_capture_redacted_it_holds_too(tmp_path):
    ran = Ran(tmp_path, "--capture", "redacted")
    assert ran.failed() == []
    assert ran.code == 0


@pytest.mark.full
def test_the_fixed_version_as_candidate_passes_and_claims_nothing_false(tmp_path):
    ran = Ran(tmp_path, "--candidate", "1.3.1")
    assert ran.failed() == []
    assert ran.code == 0
    assert "Verdict: PASS" in ran.said
    assert "BLOCK" not in ran.said
    assert "could not confirm" in "\n".join(ran.act("false_success")["story"])


@pytest.mark.full
def test_a_policy_that_allows_all_shows_that_nothing_is_held(tmp_path):
    policy = Path(__file__).parents[2] / "policies" / "examples" / "allow_all"
    ran = Ran(tmp_path, "--policy", str(policy))
    assert ran.failed() == []
    assert ran.code == 0
    assert "NOT held" in "\n".join(ran.act("approval")["story"])
    assert ran.record["approvals"] == []


def processes_in(folder):
    """Command lines of running processes that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            home = os.readlink(entry.parent / "cwd")
        except OSError:
            continue
        if (str(folder) in words or home.startswith(str(folder))) and str(
            os.getpid()
        ) not in entry.parts:
            found.append(words)
    return found
