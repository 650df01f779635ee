"""``sidecar tape record`` and ``replay``: an agent's command, unchanged."""

import os
import signal
import subprocess
import sys
import venv

import pytest
from agent_rig import ROOT, AgentFolder

from sidecar.replay.diff import compare
from sidecar.tape.files import examine, read_tape, tape_codecs

pytestmark = pytest.mark.requirement("REP-01")

AGENT = """
import os, subprocess, sys
print("PYTHONPATH" in os.environ, "AGENTTWIN_CAPTURE" in os.environ, sys.argv[1:])
"""
NETWORK = """
import socket
try:
    socket.create_connection(("127.0.0.1", 1), timeout=1)
except OSError:
    pass
"""

CHILD = """
import os, socket
child = os.fork()
if child == 0:
    try:
        socket.socket().connect(("127.0.0.1", 1))
    except OSError as error:
        os._exit("strict" not in str(error))
assert os.waitpid(child, 0)[1] == 0
"""
WORKER = """
import multiprocessing
if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=print, args=("went out",))
    worker.start()
    worker.join()
"""
LOOKUP = """
import asyncio
async def main():
    try:
        await asyncio.open_connection("localhost", 1)
    except OSError:
        pass
asyncio.run(main())
"""
LAUNCHED = "import os; os.spawnl(os.P_WAIT, '/bin/echo', 'echo', 'went out')"
TERMINAL = "import pty; pty.spawn(['/bin/echo', 'went out'])"


@pytest.fixture
def agent(tmp_path):
    return AgentFolder(tmp_path)


@pytest.mark.requirement("TAP-02")
def test_an_agent_is_recorded_and_replayed_and_sees_nothing_of_it(agent, tmp_path):
    agent.write(AGENT)
    (tmp_path / "own").mkdir()
    agent.write("print('users own')", "own/sitecustomize.py")
    agent.environment = {"PYTHONPATH": f"{ROOT}:{tmp_path / 'own'}"}
    ran = agent.record("a b")
    assert (ran.code, ran.out) == (0, "users own\nusers own\nTrue False ['a b']\n"), ran.err
    assert ran.err.endswith(" events, L3\n")
    assert examine(tmp_path / "run.tape").holds
    ran = agent.replay("a b", options=())
    assert (ran.code, ran.err.split(",")[0]) == (0, "run.tape: as recorded")


@pytest.mark.requirement("REP-02")
def test_a_drift_says_which_line_asked_and_the_new_tape_what(agent, tmp_path):
    agent.write(
        "from sidecar.sdk.driver import tool\n"
        "@tool\n"
        "def refund(amount):\n"
        "    print('refunded', amount)\n"
        "def errand():\n"
        "    refund(20)\n"
        "errand()\n"
    )
    assert agent.record().code == 0
    agent.change("refund(20)", "refund(2000)")
    ran = agent.replay(options=("--to", "new.tape"))
    assert (ran.code, ran.out.count("refunded")) == (2, 0)
    said, place, see = ran.err.splitlines()
    assert "ARGS at seq 1 (tool_call refund)" in said
    assert place == "  asked from agent.py:6 in errand"
    assert see.endswith("sidecar tape diff run.tape new.tape")
    recorded, new = read_tape(tmp_path / "run.tape"), read_tape(tmp_path / "new.tape")
    asked = new.events[1]
    assert (asked.name, asked.st, new.payload(asked, "in")) == (
        *("refund", "cancelled"),
        {"amount": 2000},
    )
    assert [one.kind for one in new.events] == ["decision", "tool_call", "terminal"]
    assert examine(tmp_path / "new.tape").holds
    first = compare(recorded, new, tape_codecs(recorded)).first_divergence
    assert (first.seq_l, first.seq_r, "ARGS" in first.drift) == (1, 1, True)


JOINS = """
import asyncio, types
from sidecar.sdk.driver import tool
@tool
async def find(name):
    return name
@types.coroutine
def once():
    yield
async def main():
    task = asyncio.ensure_future(find("a"))
    while not task.done():
        await once()
    await task
    await find("b")
asyncio.run(main())
"""


@pytest.mark.requirement("REP-02")
def test_the_same_events_after_others_than_recorded_are_not_as_recorded(agent):
    agent.write(JOINS)
    assert agent.record().code == 0
    same = agent.replay().json
    assert (same["outcome"], same["exact_digest"]) == ("ok", same["recorded_digest"])
    agent.change("    await task\n", "")
    for to in ((), ("--to", "new.tape")):
        ran = agent.replay(options=("--output", "json", *to))
        told, drift = ran.json, ran.json["drift"]
        assert (ran.code, told["outcome"], told["exit_code"]) == (2, "diverged", 2)
        assert told["exact_digest"] != told["recorded_digest"]
        assert (drift["kind"], drift["seq"], drift["name"]) == ("ORDER", 3, "find")
        assert drift["reason"] == "it came after seq 0 here, and after seq 2 on the tape (causes)"


def test_a_failure_that_is_the_tapes_own_is_told_beside_the_agreement(agent):
    agent.write("raise ValueError('always')")
    assert agent.record().code == 1
    ran = agent.replay(options=())
    assert ran.code == 0
    last = "run.tape: as recorded, 2 events; the agent failed as it did then (exit 1)"
    assert ran.err.splitlines()[-1] == last


@pytest.mark.row("R23")
def test_a_strict_replay_has_no_way_out(agent):
    agent.write("print('nothing')")
    assert agent.record().code == 0
    agent.write(NETWORK)
    ran = agent.replay()
    assert ran.code == 2
    assert ran.json["drift"]["kind"] == "EXTRA_CALL"
    assert "a name would be looked up" in ran.err
    assert ran.json["drift"]["asked_from"] == "agent.py:4 in <module>"


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="ways out that only Unix has")
@pytest.mark.parametrize("text", [CHILD, WORKER, LOOKUP, LAUNCHED, TERMINAL])
def test_nor_has_a_process_that_it_makes_or_a_loop_that_looks_up_for_it(agent, text):
    agent.write("print('nothing')")
    assert agent.record().code == 0
    agent.write(text)
    ran = agent.replay()
    assert (ran.code, ran.json["drift"]["kind"]) == (2, "EXTRA_CALL")
    assert "went out" not in ran.out + ran.err


@pytest.mark.parametrize(
    ("text", "unseen"),
    [
        ("import subprocess\nsubprocess.Popen(['true']).wait()\nsubprocess.run(['true'])", 1),
        (WORKER, 1),
        ("import asyncio\nasyncio.run(asyncio.sleep(0))\nimport os\nos.system('true')", 0),
    ],
)
def test_a_recording_that_missed_a_program_says_so_at_once(agent, text, unseen):
    agent.write(text)
    ran = agent.record(options=["--output", "json"])
    assert (ran.code, ran.json["unseen"]) == (0, unseen)
    assert ("not on the tape" in ran.err) == (unseen > 0)
    if unseen:
        assert agent.replay().json["drift"]["reason"] == "a program would be started"


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
def test_how_a_recording_ends_is_told_apart(agent, tmp_path):
    ends = {
        "import sys; sys.exit(2)": (1, "target_crash", True, 2),
        "raise ValueError('sk-not-to-be-shown')": (1, "target_crash", True, 1),
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": (3, "internal", False, None),
        "import os; os._exit(0)": (3, "internal", False, 0),
    }
    for number, (text, (code, outcome, sealed, target)) in enumerate(ends.items()):
        agent.write(text)
        tape = f"{number}.tape"
        ran = agent.record(tape=tape, options=["--output", "json"])
        said = ran.json
        assert (ran.code, said["outcome"], said["sealed"], said["target_exit"]) == (
            *(code, outcome, sealed),
            target,
        )
        assert (examine(tmp_path / tape).state == "sealed") is sealed


@pytest.mark.full
def test_a_tape_of_digests_is_refused_for_replay_and_says_why(agent):
    agent.write("print()")
    ran = agent.record(capture="off")
    assert ran.code == 0
    assert "cannot be replayed" in ran.err
    ran = agent.replay()
    assert (ran.code, ran.json["outcome"]) == (2, "incomparable")
    assert ran.json["drift"]["reason"].startswith("PARTIAL")


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
def test_an_interpreter_without_what_the_recorder_needs_is_named_and_no_fault_of_the_agents(
    agent, tmp_path
):
    agent.write("print('ran')")
    assert agent.record().code == 0
    venv.create(tmp_path / "bare", with_pip=False)
    agent.python = str(tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin") / "python")
    for ran in (agent.record(tape="new.tape"), agent.replay(options=())):
        assert (ran.code, ran.out) == (3, "")
        (line,) = ran.err.splitlines()
        assert line.startswith("error: msgspec is not installed for ") and "pip install" in line


@pytest.mark.full
def test_a_launcher_leaves_the_tape_to_the_agent_it_starts(agent, tmp_path):
    agent.write("import sys; print(sys.argv)")
    launcher = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
    ran = agent.sidecar(
        *("tape", "record", "-o", "run.tape", "--capture", "full", "--"),
        *(sys.executable, "-c", launcher, "agent.py", "x"),
    )
    assert (ran.code, ran.out) == (0, "['agent.py', 'x']\n"), ran.err
    assert examine(tmp_path / "run.tape").holds


@pytest.mark.full
def test_what_a_recorded_agent_starts_records_nothing(agent, tmp_path):
    agent.write(
        "import os, subprocess, sys\n"
        "subprocess.check_call([sys.executable, 'inner.py'])\n"
        "if hasattr(os, 'fork') and os.fork() == 0:\n"
        "    sys.exit(0)\n"
    )
    agent.write("import os; print('AGENTTWIN_CAPTURE' in os.environ)", "inner.py")
    ran = agent.record()
    assert (ran.code, ran.out) == (0, "False\n"), ran.err
    found = [(one.kind, one.name) for one in read_tape(tmp_path / "run.tape").events]
    program = [("tool_call", "subprocess"), ("tool_result", "subprocess")]
    assert found == [("decision", "start"), *program, ("terminal", "")]
    assert examine(tmp_path / "run.tape").holds


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize(("number", "sealed"), [("SIGTERM", False), ("SIGINT", True)])
def test_a_signal_reaches_the_agent_and_is_no_verdict(agent, tmp_path, number, sealed):
    agent.write("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    given = ["tape", "record", "-o", "run.tape", "--capture", "full"]
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "sidecar", *given, "--", sys.executable, "agent.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with started:
        assert started.stdout.readline() == "up\n"
        if number == "SIGINT":  # as a terminal does: to all of its group
            os.killpg(started.pid, signal.SIGINT)
        else:
            started.send_signal(signal.Signals[number])
        _, said = started.communicate(timeout=30)
    assert started.returncode == 3
    assert f"{number} ended the agent" in said
    assert (examine(tmp_path / "run.tape").state == "sealed") is sealed


@pytest.mark.full
def test_an_agent_that_swallows_its_drift_is_ended(agent):
    agent.write("import os\nos.environ.get('A')\n")
    assert agent.record().code == 0
    agent.write(
        "import os, time\n"
        "try:\n    os.environ.get('B')\nexcept BaseException:\n    pass\n"
        "while True:\n    pass\n"
    )
    ran = agent.replay()
    assert ran.code == 2
    assert ran.json["drift"]["seam"] == "env"


@pytest.mark.full
@pytest.mark.row("R28")
def test_tasks_of_uvloop_are_told_apart(agent, tmp_path):
    agent.write(
        "import asyncio, uvloop\n"
        "from sidecar.sdk.driver import tool\n"
        "@tool\n"
        "async def ask(name):\n    await asyncio.sleep(0)\n    return name\n"
        "async def twice(name):\n    return [await ask(name + str(n)) for n in range(2)]\n"
        "async def main():\n"
        "    await ask('first')\n"
        "    print(await asyncio.gather(*map(twice, 'abc')))\n"
        "uvloop.run(main())\n"
    )
    assert agent.record().code == 0
    lanes = {one.attr.get("lane") for one in read_tape(tmp_path / "run.tape").events}
    assert lanes >= {None, "0", "1", "2"}
    ran = agent.replay()
    assert ran.code == 0, ran.err
    assert ran.json["exact_digest"] == ran.json["recorded_digest"]
