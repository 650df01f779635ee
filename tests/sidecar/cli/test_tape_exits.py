"""How an agent's process ended, on its tape and against it: SystemExit raised or caught."""

import pytest
from agent_rig import AgentFolder

from sidecar.tape.files import examine, read_tape

pytestmark = pytest.mark.requirement("XIT-01")

CAUGHT = "import sys\ntry:\n    sys.exit(3)\nexcept SystemExit:\n    pass\n"
THREAD = "import sys, threading\none = threading.Thread(target=sys.exit, args=(5,))\none.start()\n"
HOOK = "import sys\nsys.excepthook = lambda *_: None\nraise ValueError\n"


DAEMON = """
import threading, time
from sidecar.sdk.driver import tool

@tool
def poll():
    time.sleep(60)

def work():
    while True:
        time.time()
        {wait}

threading.Thread(target=work, daemon=True).start()
sum(range(10_000_000))  # a while in which nothing is asked
"""


@pytest.fixture
def agent(tmp_path):
    return AgentFolder(tmp_path)


def _ends(path):
    tape = read_tape(path)
    assert examine(path).holds
    return tape.events[-1].st, tape.payload(tape.events[-1], "out")["reason"]


def test_an_exit_that_is_raised_is_on_the_tape_and_another_is_no_replay(agent, tmp_path):
    agent.write("raise SystemExit(4)")
    assert agent.record().code == 1
    assert _ends(tmp_path / "run.tape") == ("error", "exit 4")
    agent.write("pass")
    ran = agent.replay()
    assert (ran.code, ran.json["drift"]["kind"]) == (2, "ERROR_KIND")


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "code", "ends"),
    [
        ("raise SystemExit(4)", 4, ("error", "exit 4")),
        ("exit(6)", 6, ("error", "exit 6")),
        ("raise SystemExit('why')", 1, ("error", "exit 1")),
        ("raise SystemExit", 0, ("ok", None)),
        ("import sys; sys.exit(256)", 0, ("ok", None)),
        (CAUGHT, 0, ("ok", None)),
        (THREAD, 0, ("ok", None)),
        (HOOK, 1, ("error", "exit 1")),
    ],
)
def test_a_run_ends_as_its_process_did_and_its_replay_too(agent, tmp_path, text, code, ends):
    agent.write(text)
    ran = agent.record(options=["--output", "json"])
    assert (ran.code, ran.json["target_exit"]) == (int(code != 0), code)
    assert _ends(tmp_path / "run.tape") == ends
    ran = agent.replay()
    assert (ran.code, ran.json["outcome"]) == (0, "ok"), ran.out
    assert ran.json["exact_digest"] == ran.json["recorded_digest"]


@pytest.mark.full
@pytest.mark.requirement("TAP-02")
@pytest.mark.parametrize("wait", ["time.sleep(60)", "poll()"])
def test_a_daemon_thread_that_the_end_met_at_a_wait_gets_no_further_again(agent, wait):
    agent.write(DAEMON.format(wait=wait))
    assert agent.record().code == 0
    ran = agent.replay()
    assert (ran.code, ran.json["drift"]) == (0, None), ran.err
    assert ran.json["exact_digest"] == ran.json["recorded_digest"]


@pytest.mark.full
@pytest.mark.requirement("TAP-02")
def test_a_recording_says_at_once_that_no_replay_takes_it(agent):
    agent.write(
        "from sidecar.sdk.driver import tool\n"
        "@tool\n"
        "def login(password, note): return object()\n"
        "login('not-to-be-seen', 'it is not-to-be-seen')\n"
    )
    ran = agent.record(capture="redacted", options=["--output", "json"])
    assert (ran.code, ran.json["truncated"], ran.json["leaks"]) == (0, 1, 1)
    assert "1 payloads have no form" in ran.err
    assert "1 redacted values stand in it" in ran.err
    assert agent.replay().json["outcome"] == "incomparable"


@pytest.mark.full
@pytest.mark.parametrize("text", ["raise SystemExit(4)", "import sys; sys.exit(2)", HOOK])
def test_an_agent_that_now_fails_by_an_exit_is_not_as_recorded(agent, text):
    agent.write("import time; time.time()")
    assert agent.record().code == 0
    agent.write(text)  # it does not ask the time any more, either
    ran = agent.replay()
    assert (ran.code, ran.json["outcome"]) == (1, "target_crash")


def test_an_agent_that_ends_without_its_exit_handlers_is_told_apart_from_one_not_seen(agent):
    agent.write("import time; time.time()")
    assert agent.record().code == 0
    agent.write("import os; os._exit(0)")
    ran = agent.replay(options=())
    assert ran.code == 3
    assert "the agent ended (exit 0) without its exit handlers, as by os._exit" in ran.err
    assert "nothing was replayed" not in ran.err
    ran = agent.sidecar("tape", "replay", "run.tape", "--", agent.python, "-c", "pass")
    assert ran.code == 3 and "nothing was replayed: no Python process ran" in ran.err
