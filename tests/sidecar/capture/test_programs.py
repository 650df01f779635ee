"""Programs that the agent runs and waits for: once, when recorded."""

import os
import subprocess
import sys

import pytest
from capture_rig import recorded, replayed

from sidecar.capture.seams import programs
from sidecar.capture.seams.guard import guard
from sidecar.capture.seams.session import active

pytestmark = pytest.mark.requirement("TAP-02")
COUNT = "import sys; open('ran', 'a').write('x'); print(sys.stdin.read() or 'hello')"


def counting(*words):
    return [sys.executable, "-c", COUNT, *words]


def run(**more):
    return subprocess.run(counting(), capture_output=True, text=True, **more)


def failing():
    try:
        subprocess.run([sys.executable, "-c", "import sys; sys.exit(3)"], check=True)
    except subprocess.CalledProcessError as error:
        return type(error), error.returncode


def missing():
    try:
        subprocess.run(["no-such-program-at-all"])
    except FileNotFoundError as error:
        return error.errno, error.filename


AGENTS = {
    "run": lambda: (run(input="fed").stdout, run().returncode),
    "by keyword": lambda: (
        subprocess.run(args=counting(), capture_output=True).stdout,
        subprocess.check_output(args=counting()),
        subprocess.call(args=counting()),
    ),
    "bytes": lambda: subprocess.run(counting(), stdout=subprocess.PIPE).stdout,
    "check_output": lambda: subprocess.check_output(counting(), text=True),
    "call": lambda: (subprocess.call(counting()), subprocess.check_call(counting())),
    "getoutput": lambda: subprocess.getoutput("echo hello; echo x >> ran"),
    "system": lambda: os.system("exit 2"),
    "failing": failing,
    "missing": missing,
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_program_is_run_once_and_says_the_same_again(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    agent, said = AGENTS[name], []

    def with_seam():
        programs.install(active())
        if active().player is not None:
            guard(active())
        said.append(agent())

    tape = recorded(tmp_path / "a.tape", with_seam)
    ran = (tmp_path / "ran").read_bytes() if (tmp_path / "ran").exists() else b""
    session = replayed(tape, with_seam)
    assert session.drift is None
    assert said[0] == said[1]
    assert ran == ((tmp_path / "ran").read_bytes() if ran else b"")
    calls = [one for one in tape.events if one.kind == "tool_call"]
    assert calls and {one.name for one in calls} == {"subprocess"}
    assert session.tally.digest() == tape.seal.exact_digest


def test_a_command_is_told_without_what_differs_between_machines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()

    def agent():
        programs.install(active())
        subprocess.run([sys.executable, "-c", "pass"], cwd=tmp_path / "sub", input="x", text=True)

    (call,) = [
        one for one in recorded(tmp_path / "a.tape", agent).events if one.kind == "tool_call"
    ]
    assert call.inl["in"] == {"command": ["{python}", "-c", "pass"], "cwd": "sub", "input": "x"}


@pytest.mark.requirement("REP-02")
def test_another_command_is_a_drift_and_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def agent(*words):
        programs.install(active())
        subprocess.run(counting(*words), capture_output=True)

    tape = recorded(tmp_path / "a.tape", agent)
    session = replayed(tape, lambda: agent("more"))
    assert (session.drift.kind, session.drift.seq) == ("ARGS", 1)
    assert (tmp_path / "ran").read_text() == "x"


@pytest.mark.parametrize("shell", [False, True])
def test_a_secret_among_a_commands_words_is_not_on_the_tape(tmp_path, shell):
    words = ["--token", "hunter22", "--my-api-key=hunter22", "--max-tokens", "5", "--pwd", "--x"]
    command = "true --token hunter22 --password 'hunter22' --api-key=\"hunter22\""

    def agent():
        programs.install(active())
        subprocess.run(command if shell else ["true", *words], shell=shell)

    tape = recorded(tmp_path / "a.tape", agent, capture="redacted")
    assert b"hunter22" not in (tmp_path / "a.tape").read_bytes()
    assert replayed(tape, agent, capture="redacted").drift is None
    said = tape.events[1].inl["in"]["command"]
    if shell:
        assert said == ["true --token [secret] --password '[secret]' --api-key=\"[secret]\""]
    else:
        told = ["--token", {"secret": "[secret]"}, "--my-api-key=[secret]", "--max-tokens", "5"]
        assert said == ["true", *told, "--pwd", "--x"]
