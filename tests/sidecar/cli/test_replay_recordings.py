"""``sidecar replay`` of recordings: their users ask again, their tools answer as recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from recordings_rig import CONFIG, ORDER, READ, capture, tape
from suite_rig import AGENT, TWIN

from sidecar.app.recordings import read_recordings
from sidecar.errors import SidecarError

pytestmark = pytest.mark.requirement("REP-01")

CALLED = """\
def good(request, call):
    order = call("get_order", {"order_id": request["input"]}).value
    return {"output": "It is open." if order["open"] else "It is closed."}

def other(request, call):
    return {"output": str(call("get_order", {"order_id": "B-2"}).value)}
"""


class Shell:
    def __init__(self, folder):
        self.folder = folder
        (folder / "agent.py").write_text(AGENT)
        (folder / "called.py").write_text(CALLED)
        (folder / "sidecar.yaml").write_text(CONFIG)

    def __call__(self, *words):
        return subprocess.run(
            [sys.executable, "-P", "-m", "sidecar", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def replay(self, *words):
        return self("replay", *words, "--output", "json")


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


GOOD = f"cmd:{sys.executable} agent.py good"


def test_a_folder_of_tapes_is_a_suite_whose_tools_answer_as_recorded(shell):
    tape(shell.folder / "tapes" / "a.tape", READ)
    done = shell.replay("tapes", "--candidate", GOOD, "--deterministic")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert (verdict["status"], verdict["baseline"]) == ("PASS", "recorded")
    assert [one["case"] for one in verdict["evidence"]["cases"]] == ["trace-a"]
    assert "tools answer as they were recorded" in done.stderr
    assert shell("gate", "verify", verdict["verdict_id"]).returncode == 0


@pytest.mark.full
def test_callables_on_recorded_tools_and_a_call_that_was_not_recorded(shell):
    tape(shell.folder / "tapes" / "a.tape", READ)
    named = ("tapes", "--deterministic", "--baseline", "recorded", "--candidate")
    done = shell.replay(*named, "py:called:good", "--executor", "inline")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "PASS"), done.stderr
    done = shell.replay(*named, "py:called:other", "--executor", "inline")
    assert done.returncode == 2
    told = done.stdout
    assert "twin_gap: get_order" in told
    assert "nearest is call 1 of the recording, get_order(order_id='A-1')" in told


@pytest.mark.full
def test_a_capture_of_otlp_requests_is_one_too_with_or_without_a_twin(shell):
    capture(shell.folder / "captured")
    done = shell.replay("captured", "--candidate", GOOD, "--deterministic")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "PASS"), done.stderr
    assert "no receipts: what the recording says it did counts as done" in done.stderr
    (shell.folder / "twin.yaml").write_text(TWIN)
    done = shell.replay("captured", "--candidate", GOOD, "--deterministic", "--twin", "twin.yaml")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "PASS"), done.stderr


PAY = ("issue_refund", {"order_id": "A-1", "amount": 5}, {"refund_id": "R-1"})
PAYS = """\
def once(request, call):
    found = call("issue_refund", {"order_id": "A-1", "amount": 5})
    return {"output": "I have issued the refund."}

def twice(request, call):
    once(request, call)
    return once(request, call)

def never(request, call):
    return {"output": "I have issued the refund."}
"""


@pytest.mark.full
def test_effects_are_expected_as_recorded_and_one_more_is_a_miss(shell):
    (shell.folder / "pays.py").write_text(PAYS)
    tape(shell.folder / "tapes" / "a.tape", PAY, said="I have issued the refund.")
    ended = {
        name: shell.replay(
            *("tapes", "--deterministic", "--candidate", f"py:pays:{name}"),
            *("--executor", "inline"),
        )
        for name in ("once", "never", "twice")
    }
    assert [one.returncode for one in ended.values()] == [0, 1, 2], ended["once"].stdout
    never = json.loads(ended["never"].stdout)
    assert never["counts"]["new_critical"] == 1  # of an unlisted tool: irreversible
    assert [one["expectation"] for one in never["failures"]] == ["toolCalled:issue_refund"]
    assert "is asked for once more" in ended["twice"].stdout


def damaged(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"order_id"', b'"order_ix"', 1))


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def tainted(path):
    path.write_bytes(path.read_bytes().replace(b'"redactor"', b'"taint":["live:tool"],"redactor"'))


def linked_out(path):
    path.rename(path.parent.parent / "outside.tape")
    path.symlink_to(path.parent.parent / "outside.tape")


def no_tape(path):
    path.write_text("hello\n")


@pytest.mark.parametrize(
    ("harm", "code", "said"),
    [
        (damaged, 2, "the tape does not hold"),
        (cut, 2, "the tape is partial"),
        (tainted, 2, "the tape is tainted: live:tool"),
        (linked_out, 3, "the link leads out of the folder"),
        (no_tape, 3, "it is no tape"),
    ],
)
def test_what_proves_nothing_refuses_the_whole_folder(tmp_path, harm, code, said):
    tape(tmp_path / "tapes" / "b.tape", READ)
    harm(tape(tmp_path / "tapes" / "a.tape", READ))
    with pytest.raises(SidecarError, match=said) as refused:
        read_recordings(tmp_path / "tapes", project="default", now_ns=1)
    assert refused.value.code == code


def test_recordings_without_content_and_empty_folders_decide_nothing(shell):
    tape(shell.folder / "tapes" / "a.tape", READ, capture="off")
    done = shell.replay("tapes", "--candidate", "cmd:true")
    assert done.returncode == 2 and "was kept with its content" in done.stderr
    (shell.folder / "empty").mkdir()
    done = shell.replay("empty", "--candidate", "cmd:true")
    assert done.returncode == 2 and "there is no tape and no capture" in done.stderr


@pytest.mark.full
def test_recorded_is_a_baseline_of_recordings_alone(shell):
    (shell.folder / "twin.yaml").write_text(TWIN)
    (shell.folder / "suite.yaml").write_text(
        "suite: s\ntwins: [twin.yaml]\nscenarios:\n"
        "  - {id: a, input: A-1, expect: [{type: toolCalled, tool: get_order}]}\n"
    )
    done = shell.replay("suite.yaml", "--baseline", "recorded", "--candidate", "cmd:true")
    assert done.returncode == 3 and "were written, not recorded" in done.stderr
    done = shell.replay("suite.yaml", "--baseline", "cmd:true", "--candidate", "recorded")
    assert done.returncode == 3 and "names no agent" in done.stderr


@pytest.mark.full
def test_the_order_is_what_the_recording_says(shell):
    tape(shell.folder / "tapes" / "a.tape", ("get_order", {"order_id": "A-1"}, {**ORDER, "n": 3}))
    (shell.folder / "called.py").write_text(
        "def f(request, call):\n"
        "    return {'output': str(call('get_order', {'order_id': 'A-1'}).value['n'])}\n"
    )
    done = shell.replay("tapes", "--candidate", "py:called:f", "--evidence", "proof")
    assert done.returncode == 0, done.stderr
    (record,) = (shell.folder / "proof").glob("*/cases/trace-a/candidate-1.json")
    assert json.loads(record.read_bytes())["agent"]["output"] == "3"
