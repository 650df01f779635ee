"""``sidecar replay FOLDER --twin`` as a user runs it: what is told, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from sidecar.cli.replay_tapes import _text, _told
from sidecar.cli.tape_import import write
from sidecar.replay.import_tape import redactor_of
from sidecar.replay.import_tau import tau_runs
from sidecar.replay.onto_twin import OntoTwin, taped_run
from sidecar.tape.files import read_tape
from sidecar.twins import examples
from sidecar.twins.files import load_twins
from sidecar.twins.state.files import with_state

pytestmark = pytest.mark.requirement("TWN-05")

RUN = {
    "task_id": 1,
    "trial": 0,
    "reward": 1.0,
    "task": {"actions": [{"name": "send_certificate", "kwargs": {"user_id": "ann", "amount": 5}}]},
    "messages": [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c",
                    "function": {
                        "name": "send_certificate",
                        "arguments": '{"user_id": "ann", "amount": 5}',
                    },
                }
            ],
        },
        {
            "role": "tool",
            "name": "send_certificate",
            "content": "Certificate certificate_3221322 added to user ann with amount 5.",
        },
        {"role": "assistant", "content": "done"},
    ],
}


def sidecar(folder, *words):
    return subprocess.run(
        [sys.executable, "-P", "-m", "sidecar", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tapes").mkdir()
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "users.json").write_text(
        json.dumps({"ann": {"payment_methods": {}, "reservations": []}})
    )
    (one,) = tau_runs(json.dumps([RUN]).encode(), "full")
    write(one, tmp_path / "tapes" / "a.tape", "packed", redactor_of("full"), content=True)
    return tmp_path


def test_runs_are_judged_on_the_twin_and_told(folder):
    words = ("replay", "tapes", "--twin", "airline", "--state", "world", "--output", "json")
    ended = sidecar(folder, *words)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert (told["runs"], told["judged"], told["pass_hat"]) == (1, 1, {"1": 1.0})
    assert told["cases"][0]["verified"] == told["cases"][0]["recorded"] == "verified_success"
    assert told["fidelity"]["tools"][0]["matches"]["exact"] == 1


@pytest.mark.row("R39")
def test_a_run_that_could_not_be_judged_is_no_failure_and_is_not_left_out(folder, capsys):
    group = load_twins([Path(examples.__path__[0]) / "airline" / "twin.yaml"]).group
    group = with_state(group, folder / "world")
    done = OntoTwin(group).replay(taped_run("a", read_tape(folder / "tapes" / "a.tape")))
    runs = [
        replace(done, verified="verified_success"),
        replace(done, verified="verified_failure"),
        replace(done, verified="unverified", void="twin_gap: x"),
        replace(done, verified="unverified", void="twin_gap: x"),
    ]
    told = _told(runs, group)
    assert (told["judged"], told["void"], told["unjudged"]) == (2, 2, 2)
    assert told["pass_hat"]["1"] == 0.5
    assert told["pass_hat_bounds"]["1"] == (0.25, 0.75)
    assert told["pass_hat_bounds"]["4"] == (0.0, 0.0), "one failed for certain"
    text = _text(told)
    assert "2 runs could not be judged" in text and "1: 0.2500 to 0.7500" in text
    assert capsys.readouterr().err.count("twin_gap") == 2
    assert _told(runs[:2], group)["pass_hat_bounds"] == {}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("tapes",), 3, "needs a twin"),
        (("tapes", "--twin", "airline", "--baseline", "cmd:x"), 3, "as it was recorded"),
        (("tapes", "--twin", "airline", "--state", "tapes"), 3, "has no state of these twins"),
        (("world", "--twin", "airline"), 2, "there are no tapes"),
    ],
)
def test_what_cannot_be_replayed_is_said(folder, words, code, says):
    ended = sidecar(folder, "replay", *words)
    assert (ended.returncode, says in ended.stderr) == (code, True), ended.stderr
    assert "Traceback" not in ended.stderr
