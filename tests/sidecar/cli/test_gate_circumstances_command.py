"""What a verdict depends on beside its runs, as a user meets it: each from its file to the exit
code, and again by whoever verifies the evidence.
"""

import asyncio
import datetime
import json
import subprocess
import sys
from pathlib import Path

import pytest
from ledger_rig import SIGNER
from suite_rig import AGENT, SUITE, TWIN

from sidecar.cli import gate, replay
from sidecar.errors import SidecarError
from sidecar.gate.chain import Entry
from sidecar.gate.files import append_log, log_path
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.store.stop import Stop

ALLOW_ALL = Path(__file__).parents[3] / "policies" / "examples" / "allow_all"
STORE = ("--store", "sqlite:///data")


class Shell:
    """The command in this process, in a folder of the test's."""

    def __init__(self, folder, capsys):
        self.folder = folder
        self._capsys = capsys
        self.agent = f"{sys.executable} -I agent.py"
        self.write("twin.yaml", TWIN)
        self.write("suite.yaml", SUITE)
        self.write("agent.py", AGENT)
        self.write("sidecar.yaml", f"policy: {{bundle: '{ALLOW_ALL}'}}\n")

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run(self, *words):
        self._capsys.readouterr()
        try:
            command = {"replay": replay.command, "gate": gate.command}[words[0]]
            code, said = command.main([*words[1:]], prog_name="x", standalone_mode=False), ""
        except SidecarError as error:
            code, said = int(error.code), error.text()
        out, err = self._capsys.readouterr()
        return code, out, err + said

    def verdict(self, *more, candidate="good"):
        refs = (
            "--baseline",
            f"cmd:{self.agent} good",
            "--candidate",
            f"cmd:{self.agent} {candidate}",
        )
        code, out, err = self.run("replay", "suite.yaml", *refs, *STORE, "--output", "json", *more)
        assert out, err
        return code, json.loads(out)


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def rules(verdict):
    return {one["rule"]: one["detail"] for one in verdict["findings"]}


def stop(folder, **more):
    """A stop in the ledger of the store."""

    async def kept():
        ledger = SqliteLedger(folder / "data" / "ledger.db", lambda _: Sealer(b"k" * 32))
        ledger.use_signer(SIGNER)
        try:
            told = {"reason": "twice", "set_by": "key:1", "set_at_ns": 1, **more}
            await ledger.set_stop(Stop(stop_id="s1", project="default", **told))
        finally:
            ledger.close()

    (folder / "data").mkdir(exist_ok=True)
    asyncio.run(kept())


@pytest.mark.requirement("GAT-01")
def test_a_freeze_of_a_tool_blocks_what_would_be_released_with_it(shell):
    stop(shell.folder, kind="freeze", scope="tool", subject="get_order")
    code, verdict = shell.verdict()
    assert (code, verdict["status"]) == (1, "BLOCK")
    assert "freeze of tool get_order" in rules(verdict)["stopped"]
    code, out, _ = shell.run("gate", "verify", verdict["verdict_id"], *STORE)
    assert code == 0 and "BLOCK again from the records" in out


@pytest.mark.requirement("GAT-01")
def test_what_else_a_suite_and_its_twins_declare_is_held(shell):
    stop(shell.folder, kind="kill", scope="tool", subject="another_tool")
    shell.write("twin.yaml", TWIN + "as_of: '2020-01-01T00:00:00Z'\nstate: {age_max: 30d}\n")
    shell.write(
        "suite.yaml",
        SUITE.replace("severity: critical", "severity: minor\n    regression: trace 4bf9")
        + "  - {id: other, input: A-1, expect: [{type: outputContains, text: open}]}\n"
        + "fairness: [{id: equal, scenarios: [reads, other], tool: get_order}]\n",
    )
    shell.write("gate.yaml", "surfaces: {tool: 1, fault: 0.5}\n")
    code, verdict = shell.verdict("--gate", "gate.yaml")
    found = rules(verdict)
    assert (code, verdict["status"], set(found)) == (
        0,
        "WARN",
        {"twin_stale", "surface_shortfall"},
    )
    assert "fault: 0 of" in found["surface_shortfall"] and "tool:" not in found["surface_shortfall"]
    assert found["twin_stale"].endswith("shop)")
    code, verdict = shell.verdict("--gate", "gate.yaml", candidate="bad")
    assert code == 1 and {"known_regression", "regression"} <= set(rules(verdict))


TAPED = """\
import json, random, sys
order = json.loads(sys.stdin.readline())["input"]
numbers = [random.random() for _ in range(2 if sys.argv[1] == "bad" else 1)]
print(json.dumps({"output": f"{order} is open."}))
"""


@pytest.mark.requirement("GAT-01")
def test_a_candidate_that_leaves_a_pinned_tape_is_blocked_unless_the_suite_says_so(shell):
    shell.write("agent.py", TAPED)
    subprocess.run(
        [
            *(sys.executable, "-m", "sidecar", "tape", "record", "--capture", "full"),
            *("-o", "run.tape", "--", sys.executable, "agent.py", "good"),
        ],
        input=b'{"input": "A-1"}\n', check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    suite = SUITE.replace("{type: toolCalled, tool: get_order}, ", "")
    shell.agent = f"{sys.executable} agent.py"

    shell.write("suite.yaml", suite + "tapes: [{tape: run.tape, input: A-1}]\n")
    code, one = shell.verdict()
    assert (code, one["status"], one["findings"]) == (0, "PASS", [])
    shell.write("suite.yaml", suite + "tapes: [{tape: run.tape, input: A-1}, {tape: gone.tape}]\n")
    code, one = shell.verdict(candidate="bad")
    assert code == 1 and "run.tape: EXTRA_CALL" in rules(one)["tape_drift"]
    assert "gone.tape: there is no such file" in rules(one)["tape_unreplayable"]
    shell.write("suite.yaml", suite + "tapes: [{tape: run.tape, drift: [TYPO]}]\n")
    code, _, err = shell.run("replay", "suite.yaml", "--baseline", "cmd:x", "--candidate", "cmd:x")
    assert code == 3 and "suite.yaml:10" in err and "no drift 'TYPO'" in err


@pytest.mark.requirement("CMP-01")
def test_a_clock_that_was_set_back_brings_no_quarantine_back(shell):
    now = datetime.datetime.now(datetime.UTC)
    last = Entry(
        number=0, previous="", project="default", verdict_id="v", status="PASS", digest="",
        root="", at_ns=int((now + datetime.timedelta(days=3)).timestamp()) * 10**9,
    )  # fmt: skip
    shell.write("suite.yaml", SUITE.replace("severity: critical", "severity: major"))
    until = (now + datetime.timedelta(days=1)).date().isoformat()
    held = f"quarantine: [{{case: reads, owner: us, until: {until}}}]\n"
    shell.write("gate.yaml", held)
    code, verdict = shell.verdict("--gate", "gate.yaml", candidate="bad")
    assert code == 2 and "quarantined" in rules(verdict)
    append_log(log_path(Path("data") / "evidence", "default"), last)
    code, verdict = shell.verdict("--gate", "gate.yaml", candidate="bad")
    assert (code, verdict["created_at_ns"]) == (1, last.at_ns)
    assert "quarantine_idle" in rules(verdict)
